// Package secret finds the secrets of a process in texts, and redacts them (docs/design.md,
// "Credentials").
package secret

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
)

// hidden replaces a secret in a text.
const hidden = "***"

// minSecret is the minimum length, in bytes, of a value that we look for in texts. A shorter
// value would match where it is not a secret.
const minSecret = 8

// Known holds the secrets that this process has read, so that no text repeats one. A server may
// echo our request, and an agent may print its key. A nil *Known holds no secrets. Its methods
// may be called concurrently.
type Known struct {
	mu    sync.Mutex
	named map[string][]string // the last two values of each secret
	forms []string            // every disguise of every value, the longest first; nil until made
}

// Learn adds the present value of a secret. name distinguishes the secret from others, such as
// "imap" or the path of its file. The previous value stays known, because an answer may still
// repeat it.
func (s *Known) Learn(name, value string) {
	if s == nil || len(value) < minSecret {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.named[name]
	if len(known) > 0 && known[0] == value {
		return
	}
	if s.named == nil {
		s.named = map[string][]string{}
	}
	s.named[name] = append([]string{value}, known[:min(1, len(known))]...)
	s.forms = nil
}

// Equal compares two secrets in constant time.
func Equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// Redact replaces every known secret of eight bytes or more in text by ***, in all its forms
// (see Disguises).
func (s *Known) Redact(text string) string {
	if s == nil {
		return text
	}
	return redact(text, s.disguises())
}

// disguises returns the forms of all secrets. Callers must not change the slice.
func (s *Known) disguises() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forms != nil {
		return s.forms
	}
	for _, values := range s.named {
		for _, v := range values {
			s.forms = append(s.forms, Disguises(v)...)
		}
	}
	// A form that contains another form must be replaced first.
	order.Sort(s.forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s.forms = slices.Compact(s.forms)
	return s.forms
}

func redact(text string, forms []string) string {
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, hidden)
	}
	return text
}

// Reader returns a reader of r's text, redacted. It also finds a secret that arrives in pieces:
// it holds back text that may be the beginning of a secret.
func (s *Known) Reader(r io.Reader) io.Reader {
	if s == nil {
		return r
	}
	return &redacting{from: r, secrets: s, chunk: make([]byte, 32<<10)}
}

type redacting struct {
	from    io.Reader
	secrets *Known
	chunk   []byte
	ready   string // to be returned
	pending string // may be the beginning of a secret
	err     error
}

func (r *redacting) Read(p []byte) (int, error) {
	for r.ready == "" && r.err == nil {
		var n int
		n, r.err = r.from.Read(r.chunk)
		forms := r.secrets.disguises()
		text := redact(r.pending+string(r.chunk[:n]), forms)
		keep := 0
		if r.err == nil {
			keep = partialForm(text, forms)
		}
		r.ready, r.pending = text[:len(text)-keep], text[len(text)-keep:]
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	if n == 0 && len(p) > 0 {
		return 0, r.err
	}
	return n, nil
}

// partialForm returns the length of the longest suffix of text that is the beginning of a form.
func partialForm(text string, forms []string) int {
	longest := 0
	for _, form := range forms {
		for n := min(len(form)-1, len(text)); n > longest; n-- {
			if form[n-1] == text[len(text)-1] && strings.HasSuffix(text, form[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Writer returns a writer that redacts each Write before it goes to w.
func (s *Known) Writer(w io.Writer) io.Writer { return redactor{w, s} }

type redactor struct {
	to      io.Writer
	secrets *Known
}

// Write returns len(p) if it has written all of p, redacted.
func (r redactor) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.to, r.secrets.Redact(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Guarded returns f for use in a goroutine. A panic of f still ends the process, but the
// runtime's report contains no known secret: the value of a panic may quote a server. The
// report contains the stack of f.
func (s *Known) Guarded(f func()) func() {
	return func() {
		if report := s.crash(f); report != "" {
			panic(report)
		}
	}
}

// crash runs f and returns a report of its panic, or "" if it did not panic. It is a separate
// function, because the runtime also prints a panic value that is recovered and replaced in the
// same function.
func (s *Known) crash(f func()) (report string) {
	defer func() {
		if v := recover(); v != nil {
			report = s.Redact(fmt.Sprintf("%v\n\n%s", v, debug.Stack()))
		}
	}()
	f()
	return ""
}

// Disguises returns the forms in which a text may repeat a non-empty secret: unchanged; quoted
// for IMAP, Go, JSON or HTML; in a URL; in hexadecimal; and in base64 with any text before and
// after it, as in the logins of SASL and HTTP.
func Disguises(secret string) []string {
	if secret == "" {
		return nil
	}
	forms := []string{secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	if !needsNoQuoting(secret) {
		forms = append(forms, quoted(secret)...)
	}
	for before := range 3 {
		forms = append(forms, insideBase64(base64.StdEncoding, secret, before), insideBase64(base64.URLEncoding, secret, before))
	}
	slices.Sort(forms)
	// In base64, the part of a short secret that its neighbours do not change may be too short
	// to look for.
	return slices.DeleteFunc(slices.Compact(forms), func(form string) bool { return form != secret && len(form) < min(len(secret), minSecret) })
}

// needsNoQuoting reports whether secret has only characters that quoting does not change. Most
// secrets have only these, and every poll learns one.
func needsNoQuoting(secret string) bool {
	return strings.Trim(secret, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// quoted returns the forms of a secret in quotes, and in a URL.
func quoted(secret string) []string {
	return []string{
		strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret),
		dropQuotes(strconv.Quote(secret)), dropQuotes(strconv.QuoteToASCII(secret)),
		insideJSON(secret, true), insideJSON(secret, false), string(plain.JSON([]byte(insideJSON(secret, false)))),
		html.EscapeString(secret),
		url.QueryEscape(secret), url.PathEscape(secret), percent(url.QueryEscape(secret)), percent(url.PathEscape(secret)),
	}
}

// insideJSON returns secret as it appears inside a JSON string.
func insideJSON(secret string, escapeHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if e.Encode(secret) != nil {
		return secret
	}
	return dropQuotes(strings.TrimSuffix(b.String(), "\n"))
}

// dropQuotes drops the quotes around a string.
func dropQuotes(quoted string) string { return quoted[1 : len(quoted)-1] }

// percent converts the percent escapes of a URL to lower case.
func percent(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// insideBase64 returns the part of the base64 of a text that depends on secret alone. The secret
// begins before bytes after a multiple of three bytes.
func insideBase64(enc *base64.Encoding, secret string, before int) string {
	whole := enc.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, before), secret...))
	first := (before*8 + 5) / 6 // the first character without a bit of the preceding bytes
	last := (before + len(secret)) * 8 / 6
	return whole[min(first, last):last]
}
