// Package message reads and writes the bytes of mails. It opens no file and no connection, and
// it does not trust the content of a mail.
//
//	Header     the header of a mail, read leniently
//	Fields     its raw fields, read leniently or strictly
//	Content    the text and the attachments of a mail, and the text without quoted
//	           history and signatures
//	Draft      a mail of ours, rendered to exact bytes
package message

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agentstateloop/internal/plain"

	"golang.org/x/text/encoding/charmap"
)

// The limits on the data that a header may put into state.json.
const (
	MaxHeader     = 256 << 10 // bytes of a header that are read
	maxSubject    = 1000      // bytes, decoded
	maxFroms      = 20        // From fields whose addresses are read
	maxParsed     = 8 << 10   // bytes of a From field or of parameters that are parsed
	maxValue      = 100       // bytes of another field, decoded
	maxReturnPath = 200       // bytes
	maxMessageID  = 500       // bytes; a longer one is ignored
	maxReferences = 50        // the first and the latest are kept
)

// Header is the header of a mail, read leniently. It is not proved.
type Header struct {
	From       string   // the first address, bare, in lower case; "" if absent
	Froms      []string // every address of every From field, in the same form
	FromFields int      // the number of From fields
	Subject    string   // decoded, one line
	MessageID  string   // with its angle brackets; "" if absent
	InReplyTo  string   // the first id in it, with brackets
	References []string // oldest first; the ids of In-Reply-To if the field is missing

	// The fields for the gate, decoded to one line each; "" if absent.
	AutoSubmitted  string
	Automatic      bool   // Auto-Submitted is present, and is not "no"
	AutoReply      string // X-Autoreply and similar fields, as "name: value"
	Precedence     string
	PrecedenceWord string // in lower case, without comments
	ListID         string // List-Id or List-Post
	ReturnPath     string // "<>" is the null path of a bounce
	MediaType      string // of Content-Type, lower case, without parameters
	Agent          string // X-AgentStateLoop: the handle of the sending agent
	Place          string // X-AgentStateLoop-Place: the state that sent it

	// stable is a hash of the fields that all copies of one mail share. Only the sender can
	// change them, because they are signed.
	stable string
}

// Answered returns the Message-IDs that a mail refers to, the nearest first.
func (h Header) Answered() []string {
	ids := slices.Clone(h.References)
	slices.Reverse(ids)
	return append([]string{h.InReplyTo}, ids...)
}

// Continues reports whether the mail says that it continues a thread.
func (h Header) Continues() bool { return h.InReplyTo != "" || len(h.References) > 0 }

// Field is one header field, unfolded.
type Field struct{ Name, Value string }

// ParseHeader parses a header from its raw bytes, with or without the body after it. It never
// fails: it skips malformed lines, drops NULs and reads an unknown charset as Windows-1252.
func ParseHeader(raw []byte) Header {
	var h Header
	sum := sha256.New()
	var inReplyTo, autoReply []string
	for _, f := range Fields(raw) {
		v := f.Value
		switch f.Name {
		case "from":
			if h.FromFields++; h.FromFields <= maxFroms {
				h.Froms = append(h.Froms, senders(v)...)
			}
		case "subject":
			if h.Subject == "" {
				h.Subject = oneLine(decodeWords(v), maxSubject)
			}
		case "message-id":
			if h.MessageID == "" {
				h.MessageID = first(messageIDs(v))
			}
		case "in-reply-to":
			inReplyTo = append(inReplyTo, ThreadIDs(v)...)
		case "references":
			h.References = append(h.References, ThreadIDs(v)...)
		case "auto-submitted":
			// Of several fields, one that is not "no" counts.
			automatic := strings.TrimSpace(v) != "" && Keyword(v) != "no"
			if h.AutoSubmitted == "" || automatic && !h.Automatic {
				h.AutoSubmitted = oneLine(v, maxValue)
			}
			h.Automatic = h.Automatic || automatic
		case "x-auto-response-suppress": // Exchange sends it with its own mail, and with absence notes
			if v := Lower(v); strings.Contains(v, "all") || strings.Contains(v, "oof") || strings.Contains(v, "autoreply") {
				autoReply = append(autoReply, f.Name+": "+oneLine(f.Value, maxValue))
			}
		case "x-autoreply", "x-autorespond", "x-autoresponder", "x-ms-exchange-inbox-rules-loop":
			autoReply = append(autoReply, f.Name+": "+oneLine(v, maxValue))
		case "precedence":
			// Of several fields, one about many recipients or about an automatic reply counts.
			if word := Keyword(v); h.Precedence == "" || slices.Contains(impersonal, word) && !slices.Contains(impersonal, h.PrecedenceWord) {
				h.Precedence, h.PrecedenceWord = oneLine(v, maxValue), word
			}
		case "list-id", "list-post":
			h.ListID = cmp.Or(h.ListID, f.Name+": "+oneLine(v, maxValue))
		case "return-path":
			if IsNullPath(v) {
				h.ReturnPath = "<>"
			}
			h.ReturnPath = cmp.Or(h.ReturnPath, oneLine(v, maxReturnPath))
		case "content-type":
			if t, _ := mediaType(v); h.MediaType == "" || t == "multipart/report" {
				h.MediaType = t
			}
		case "x-agentstateloop":
			h.Agent = cmp.Or(h.Agent, oneLine(v, maxValue))
		case "x-agentstateloop-place":
			h.Place = cmp.Or(h.Place, oneLine(v, maxValue))
		}
		switch f.Name {
		case "from", "date", "subject", "message-id":
			io.WriteString(sum, f.Name+":"+strings.Join(strings.Fields(v), " ")+"\n")
		}
	}
	h.From = first(h.Froms)
	h.InReplyTo = first(inReplyTo)
	if len(h.References) == 0 {
		h.References = inReplyTo // RFC 5322 section 3.6.4
	}
	h.References = thin(h.References, maxReferences)
	h.AutoReply = first(autoReply)
	h.stable = hex.EncodeToString(sum.Sum(nil)[:12])
	return h
}

// Fields splits raw into header fields, with names in lower case, up to the first empty line.
// It skips lines that are not fields.
func Fields(raw []byte) []Field {
	return fieldsAs(raw, headerText)
}

// rawFields is Fields with the bytes of each value unchanged, except that NULs are dropped.
func rawFields(raw []byte) []Field {
	return fieldsAs(raw, func(b []byte) string {
		return string(bytes.ReplaceAll(bytes.TrimSpace(b), []byte{0}, nil))
	})
}

func fieldsAs(raw []byte, text func([]byte) string) []Field {
	if len(raw) > MaxHeader {
		raw = raw[:MaxHeader]
	}
	var fields []Field
	var value []byte // of the last field, which a folded line may continue
	open := false    // a folded line belongs to the field before it
	for line := range bytes.Lines(raw) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			if open {
				value = append(append(value, ' '), text(line)...)
			}
			continue
		}
		name, rest, ok := bytes.Cut(line, []byte(":"))
		name = bytes.TrimRight(name, " \t")
		open = ok && len(name) > 0 && !bytes.ContainsAny(name, " \t\x00")
		if open {
			fields = append(setValue(fields, value), Field{Name: strings.ToLower(string(name))})
			value = append(value[:0], text(rest)...)
		}
	}
	return setValue(fields, value)
}

// setValue sets the value of the last field, once it is complete. So a value of ten thousand
// folded lines is not copied ten thousand times.
func setValue(fields []Field, value []byte) []Field {
	if len(fields) > 0 {
		fields[len(fields)-1].Value = string(value)
	}
	return fields
}

// headerText returns a line of the value of a field: trimmed, without NULs, and converted to
// UTF-8 if a mailer wrote raw bytes of another charset.
func headerText(b []byte) string {
	b = bytes.ReplaceAll(bytes.TrimSpace(b), []byte{0}, nil)
	if utf8.Valid(b) {
		return string(b)
	}
	return windows1252(b)
}

// wordDecoder returns a decoder of encoded words (RFC 2047) in any known
// charset. It reads an unknown charset as Windows-1252, so that a strange name
// does not hide a subject.
//
// Opening a charset may take a tenth of a millisecond, and a flood has thousands of mails. So a
// value may open at most most charsets.
func wordDecoder(most int) *mime.WordDecoder {
	opened := 0
	return &mime.WordDecoder{CharsetReader: func(label string, r io.Reader) (io.Reader, error) {
		if wide, ok := wideCharsetOf(label); ok {
			text, err := io.ReadAll(r)
			return strings.NewReader(wide.decode(text)), err
		}
		if opened++; opened <= most {
			if known := encodingOf(label); known != nil {
				return known.NewDecoder().Reader(r), nil
			}
		}
		return charmap.Windows1252.NewDecoder().Reader(r), nil
	}}
}

const (
	maxDecoded  = 4 << 10 // bytes of a value whose encoded words are decoded
	maxCharsets = 60      // words of it in a charset that must be opened
)

func decodeWords(s string) string {
	if len(s) > maxDecoded {
		s = plain.Cut(s, maxDecoded)
	}
	if dec, err := wordDecoder(maxCharsets).DecodeHeader(s); err == nil {
		return dec
	}
	return s
}

// ThreadIDs finds the ids in In-Reply-To or References, even if a program has folded an id in
// the middle or encoded it like text. Both happen to long ids like ours.
func ThreadIDs(v string) []string {
	if !strings.Contains(v, "<") && strings.Contains(v, "=?") {
		v = decodeWords(v)
	}
	if !strings.ContainsAny(v, " \t") {
		return messageIDs(v)
	}
	var b strings.Builder
	for v != "" {
		end := strings.IndexByte(v, '>') + 1
		if end == 0 {
			end = len(v)
		}
		id := v[:end]
		if open := strings.LastIndexByte(id, '<'); open >= 0 && strings.Contains(id[open:], "@") {
			id = id[:open] + strings.Join(strings.Fields(id[open:]), "")
		}
		b.WriteString(id)
		v = v[end:]
	}
	return messageIDs(b.String())
}

// messageIDs finds the ids in s, with their brackets. It skips ids that could break a header or
// are too long.
func messageIDs(s string) []string {
	var ids []string
	for {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			return ids
		}
		s = s[i:]
		j := strings.IndexByte(s, '>')
		if j < 0 {
			return ids
		}
		// A stray bracket before the id does not hide it.
		k := strings.LastIndexByte(s[:j], '<')
		if id := s[k : j+1]; validMessageID(id) {
			ids = append(ids, id)
		}
		s = s[j+1:]
	}
}

// validMessageID reports whether id is a Message-ID with its brackets that can
// be repeated in a header of ours.
func validMessageID(id string) bool {
	if len(id) < 3 || len(id) > maxMessageID || id[0] != '<' || id[len(id)-1] != '>' {
		return false
	}
	for _, r := range id[1 : len(id)-1] {
		if r <= ' ' || r > '~' || r == '<' || r == '>' {
			return false
		}
	}
	return true
}

// thin returns the first of ids and the latest ones, at most max in total.
func thin(ids []string, max int) []string {
	if len(ids) <= max {
		return ids
	}
	return append([]string{ids[0]}, slices.Clone(ids[len(ids)-max+1:])...)
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// Digest returns the same text for all copies of one mail. It consists of the Message-ID of h,
// or otherwise the time and the size, and a hash of the fields that all copies share.
func Digest(h Header, at time.Time, size int64) string {
	if h.MessageID == "" {
		return fmt.Sprintf("%d.%d+%s", at.Unix(), size, h.stable)
	}
	return h.MessageID + "+" + h.stable
}

// CutHeader reads up to and including the first empty line. It stops at the
// end, or a little beyond MaxHeader bytes.
func CutHeader(br *bufio.Reader) ([]byte, error) {
	var header []byte
	whole := true // the last line was read to its end
	for len(header) < MaxHeader {
		line, err := br.ReadSlice('\n')
		header = append(header, line...)
		empty := whole && len(bytes.TrimRight(line, "\r\n")) == 0
		whole = err == nil
		switch {
		case err == io.EOF || empty && err == nil:
			return header, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return header, err
		}
	}
	return header, nil
}
