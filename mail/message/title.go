package message

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"agentstateloop/internal/plain"
)

// This file reads the sender's name for a file. Programs write it in many ways: quoted or not,
// as encoded words (RFC 2047), by RFC 2231 in any charset, in pieces, or as raw bytes in the
// charset of their machine.

// maxTitle is the maximum length of a title, in bytes, which is that of a file name.
const maxTitle = 255

// titleOf returns the name of a file in the fields of its part, as one line, or "".
// Content-Disposition takes precedence, and within it the form of RFC 2231. charsets are the
// candidates for raw bytes.
func titleOf(disposition, contentType []byte, charsets []string) string {
	for _, of := range []struct {
		value []byte
		keys  [2]string
	}{{disposition, [2]string{"filename", "name"}}, {contentType, [2]string{"name", "filename"}}} {
		params := parameters(wholeWords(rawText(of.value, charsets)))
		for _, key := range of.keys {
			if title := shortTitle(oneLine(named(params, key), maxParsed)); title != "" {
				return title
			}
		}
	}
	return ""
}

// wholeWords returns a value unchanged, or decoded if a program has encoded all of it like
// text, as Python's email.mime does.
func wholeWords(v string) string {
	if strings.HasPrefix(v, "=?") {
		return decodeTitle(v)
	}
	return v
}

// shortTitle cuts a title that is too long before its extension.
func shortTitle(title string) string {
	if len(title) <= maxTitle {
		return title
	}
	ext := path.Ext(title)
	if len(ext) > maxKeptExtension {
		ext = ""
	}
	const cut = "…"
	return plain.Cut(title, maxTitle-len(cut)-len(ext)) + cut + ext
}

// parameter is a parameter of a structured value. Its name is in lower case.
type parameter struct{ name, value string }

// parameters parses the parameters of a value, more leniently than RFC 2045: a value may have
// blanks without being quoted, and quotes within its quotes. In quotes a backslash is literal
// unless a quote or another backslash follows, as in the paths that some programs write.
func parameters(v string) (all []parameter) {
	_, rest, _ := strings.Cut(plain.Cut(v, maxParsed), ";")
	for rest != "" {
		i := strings.IndexAny(rest, "=;")
		if i < 0 {
			return all
		}
		name := strings.ToLower(strings.TrimSpace(rest[:i]))
		quoted := rest[i] == '='
		rest = rest[i+1:]
		if !quoted {
			continue
		}
		var value string
		rest = strings.TrimLeft(rest, " \t")
		if strings.HasPrefix(rest, `"`) {
			value, rest = quotedValue(rest[1:])
		} else {
			value, rest, _ = strings.Cut(rest, ";")
			value = strings.TrimSpace(value)
		}
		all = append(all, parameter{name, value})
	}
	return all
}

// quotedValue returns the text before the quote that ends a value, and the text after the next
// ";". Without such a quote the value ends at a ";".
func quotedValue(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
		case s[i] == '"':
			behind := strings.TrimLeft(s[i+1:], " \t")
			if behind == "" || behind[0] == ';' || behind[0] == '(' {
				_, rest, _ = strings.Cut(behind, ";")
				return b.String(), rest
			}
		}
		b.WriteByte(s[i])
	}
	value, rest, _ = strings.Cut(s, ";")
	return value, rest
}

// named returns the value of a parameter in any of its forms: extended, in pieces
// (RFC 2231), or simple with encoded words.
func named(all []parameter, key string) string {
	find := func(name string) (string, bool) {
		i := slices.IndexFunc(all, func(p parameter) bool { return p.name == name })
		if i < 0 {
			return "", false
		}
		return all[i].value, true
	}
	if v, ok := find(key + "*"); ok {
		if title := extended(v, true); title != "" {
			return title
		}
	}
	if title := pieces(all, key+"*"); title != "" {
		return title
	}
	v, _ := find(key)
	if title := extended(v, false); title != "" {
		return title // the star is missing
	}
	return decodeTitle(v)
}

// pieces joins the pieces of a value (RFC 2231 section 3), each of which may be encoded.
func pieces(all []parameter, prefix string) string {
	type piece struct {
		value   string
		encoded bool
	}
	byNumber := map[string]piece{}
	for _, p := range all {
		number, ok := strings.CutPrefix(p.name, prefix)
		if number, encoded := strings.CutSuffix(number, "*"); ok && number != "" {
			if _, twice := byNumber[number]; !twice {
				byNumber[number] = piece{p.value, encoded}
			}
		}
	}
	label, anyEncoded := "", false
	var b strings.Builder
	for i := 0; ; i++ {
		p, ok := byNumber[strconv.Itoa(i)]
		if !ok && i == 0 {
			continue // some begin with 1
		}
		if !ok {
			break
		}
		if p.encoded && b.Len() == 0 && strings.Count(p.value, "'") >= 2 {
			first := strings.SplitN(p.value, "'", 3)
			label, p.value = first[0], first[2]
		}
		if p.encoded {
			anyEncoded, p.value = true, unescape(p.value)
		}
		b.WriteString(p.value)
	}
	if !anyEncoded {
		return decodeTitle(b.String())
	}
	return inCharset(b.String(), label)
}

// extended decodes CHARSET'LANGUAGE'ESCAPED (RFC 2231 section 4), or returns "". says is true
// if the parameter's name marks the value as encoded. Then an unknown charset is accepted.
func extended(v string, says bool) string {
	parts := strings.SplitN(v, "'", 3)
	if len(parts) < 3 {
		if says {
			return inCharset(unescape(v), "")
		}
		return ""
	}
	text := unescape(parts[2])
	if says {
		return inCharset(text, parts[0])
	}
	if parts[0] == "" || text == parts[2] {
		return ""
	}
	text, _ = decodeCharset([]byte(text), parts[0])
	return text
}

// unescape decodes the escapes %XX of a value. A malformed escape stays.
func unescape(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			if c, ok := unhex([]byte(s[i+1:])); ok {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// inCharset decodes s, whose declared charset is label.
func inCharset(s, label string) string {
	if text, ok := decodeCharset([]byte(s), label); ok {
		return text
	}
	return rawText([]byte(s), nil)
}

// decodeCharset decodes b from a charset, and reports whether the charset is known and all of b
// is text in it.
func decodeCharset(b []byte, label string) (string, bool) {
	label = strings.ToLower(strings.TrimSpace(label))
	if utf8Label(label) {
		return string(b), utf8.Valid(b)
	}
	if wide, ok := wideCharsetOf(label); ok {
		s := wide.decode(b)
		return s, len(b)%wide.width == 0 && !strings.ContainsRune(s, utf8.RuneError)
	}
	known := encodingOf(label)
	if known == nil {
		return "", false
	}
	s, err := known.NewDecoder().Bytes(b)
	return string(s), err == nil && !bytes.ContainsRune(s, utf8.RuneError)
}

// rawText returns the bytes of a header as text: as UTF-8 if they are valid UTF-8, otherwise in
// the first of charsets in which all of them are text, otherwise as Windows-1252. It recognizes
// ISO-2022-JP by its escapes.
func rawText(b []byte, charsets []string) string {
	if bytes.Contains(b, []byte("\x1b$")) {
		if s, ok := decodeCharset(b, "iso-2022-jp"); ok {
			return s
		}
	}
	if utf8.Valid(b) {
		return string(b)
	}
	for _, label := range charsets {
		if s, ok := decodeCharset(b, label); ok {
			return s
		}
	}
	s, err := charmap.Windows1252.NewDecoder().Bytes(b)
	if err != nil {
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return string(s)
}

// maxTitleCharsets is the maximum number of words of a title in a charset that must be opened.
// A mail may have a thousand titles.
const maxTitleCharsets = 3

// decodeTitle decodes the encoded words of a simple value. Some programs cut a name into
// words in the middle of a character, so neighbours in one charset are joined first.
func decodeTitle(v string) string {
	if !strings.Contains(v, "=?") {
		return v
	}
	v = joinWords(plain.Cut(v, maxDecoded/2)) // more than maxTitle bytes need
	if title, err := wordDecoder(maxTitleCharsets).DecodeHeader(v); err == nil {
		return title
	}
	return v
}

// joinWords joins neighbouring encoded words of one charset and encoding.
func joinWords(s string) string {
	words := strings.Fields(strings.ReplaceAll(s, "?==?", "?= =?"))
	joined := words[:0]
	for _, w := range words {
		if n := len(joined); n > 0 {
			if both, ok := joinTwo(joined[n-1], w); ok {
				joined[n-1] = both
				continue
			}
		}
		joined = append(joined, w)
	}
	return strings.Join(joined, " ")
}

func joinTwo(a, b string) (string, bool) {
	one, two := wordParts(a), wordParts(b)
	if one == nil || two == nil || !strings.EqualFold(one[0], two[0]) || !strings.EqualFold(one[1], two[1]) {
		return "", false
	}
	text := one[2] + two[2]
	if strings.EqualFold(one[1], "b") {
		x, errX := base64.StdEncoding.DecodeString(one[2])
		y, errY := base64.StdEncoding.DecodeString(two[2])
		if errX != nil || errY != nil {
			return "", false
		}
		text = base64.StdEncoding.EncodeToString(append(x, y...))
	}
	return "=?" + one[0] + "?" + one[1] + "?" + text + "?=", true
}

// wordParts returns charset, encoding and text of an encoded word, or nil.
func wordParts(w string) []string {
	inner, begins := strings.CutPrefix(w, "=?")
	inner, ends := strings.CutSuffix(inner, "?=")
	parts := strings.Split(inner, "?")
	if !begins || !ends || len(parts) != 3 {
		return nil
	}
	return parts
}
