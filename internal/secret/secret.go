package secret

import (
	"bytes"
	"cmp"
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
)

// hidden stands in a text for what was a secret.
const hidden = "***"

// shortestSecret is how long, in bytes, a value must be to be looked for in
// texts at large: a shorter one would be found where nobody wrote it.
const shortestSecret = 8

// Known are the secrets that this process has read, so that no text repeats
// one (DESIGN 10): a server may echo what it was sent, and an agent print its
// key. A nil *Known knows none. The methods may be called side by side.
type Known struct {
	mu    sync.Mutex
	named map[string][]string // the last two values of each secret
	forms []string            // every disguise of every value, the longest first
}

// Learn notes the present value of a secret. name tells it from others, such as
// "imap" or the file it stands in; its value before this one stays known, since
// an answer may still repeat it.
func (s *Known) Learn(name, value string) {
	if s == nil || len(value) < shortestSecret {
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
	for _, values := range s.named {
		for _, v := range values {
			s.forms = append(s.forms, Disguises(v)...)
		}
	}
	// One within another must not be taken out of it first.
	slices.SortFunc(s.forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s.forms = slices.Compact(s.forms)
}

// Redact puts *** for every known secret of eight bytes and more in text, in
// whatever disguise (see Disguises).
func (s *Known) Redact(text string) string {
	if s == nil {
		return text
	}
	return redact(text, s.disguises())
}

// disguises gives a slice that nobody changes.
func (s *Known) disguises() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forms
}

func redact(text string, forms []string) string {
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, hidden)
	}
	return text
}

// Reader gives what r gives, redacted. A secret that comes in pieces is found,
// too: what may be the beginning of one waits for what follows.
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
	ready   string // to be given
	held    string // may be the beginning of a secret
	err     error
}

func (r *redacting) Read(p []byte) (int, error) {
	for r.ready == "" && r.err == nil {
		var n int
		n, r.err = r.from.Read(r.chunk)
		forms := r.secrets.disguises()
		text := redact(r.held+string(r.chunk[:n]), forms)
		keep := 0
		if r.err == nil {
			keep = begun(text, forms)
		}
		r.ready, r.held = text[:len(text)-keep], text[len(text)-keep:]
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	if n == 0 && len(p) > 0 {
		return 0, r.err
	}
	return n, nil
}

// begun is the length of the longest end of text with which a form begins.
func begun(text string, forms []string) int {
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

// Writer redacts what is written to w, each Write by itself.
func (s *Known) Writer(w io.Writer) io.Writer { return redactor{w, s} }

type redactor struct {
	to      io.Writer
	secrets *Known
}

// Write returns len(p) if all of it, redacted, was written.
func (r redactor) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.to, r.secrets.Redact(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Guarded is f for a goroutine of its own. A panic of f ends the process, as it
// would without, but the report that the runtime prints of it holds no known
// secret: the value of a panic may be what a server said. The stack in it is
// that of f.
func (s *Known) Guarded(f func()) func() {
	return func() {
		if report := s.crash(f); report != "" {
			panic(report)
		}
	}
}

// crash runs f, and tells of its panic; "" if there was none. It is a function
// of its own, because the runtime would print a value that is recovered and
// replaced in one.
func (s *Known) crash(f func()) (report string) {
	defer func() {
		if v := recover(); v != nil {
			report = s.Redact(fmt.Sprintf("%v\n\n%s", v, debug.Stack()))
		}
	}()
	f()
	return ""
}

// Disguises gives the forms in which a text may repeat a secret of any length
// but none: as it is; within quotes of IMAP, Go, JSON or HTML; in a URL; in hex;
// and in base64, with whatever stands before and after it, as in the logins of
// SASL and HTTP.
func Disguises(secret string) []string {
	if secret == "" {
		return nil
	}
	forms := []string{
		secret,
		strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret),
		inner(strconv.Quote(secret)), inner(strconv.QuoteToASCII(secret)),
		inTheMiddle(secret, true), inTheMiddle(secret, false),
		html.EscapeString(secret),
		url.QueryEscape(secret), url.PathEscape(secret), percent(url.QueryEscape(secret)), percent(url.PathEscape(secret)),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for before := range 3 {
		forms = append(forms, within(base64.StdEncoding, secret, before), within(base64.URLEncoding, secret, before))
	}
	slices.Sort(forms)
	// What of a short secret does not depend on its neighbours may be next to nothing.
	return slices.DeleteFunc(slices.Compact(forms), func(form string) bool { return form != secret && len(form) < min(len(secret), shortestSecret) })
}

// inTheMiddle is secret as it stands in a JSON string.
func inTheMiddle(secret string, escapeHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if e.Encode(secret) != nil {
		return secret
	}
	return inner(strings.TrimSuffix(b.String(), "\n"))
}

// inner drops the quotes around a string.
func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// percent writes the escapes of a URL in lower case.
func percent(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// within is the part of the base64 of a text that depends on secret alone, if
// secret begins before bytes after a multiple of three.
func within(enc *base64.Encoding, secret string, before int) string {
	whole := enc.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, before), secret...))
	first := (before*8 + 5) / 6 // the first character without a bit of what is before
	last := (before + len(secret)) * 8 / 6
	return whole[min(first, last):last]
}
