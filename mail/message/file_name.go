package message

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

// The names that senders gave their files come first. Programs write a name in every way:
// quoted or not, as encoded words (RFC 2047), by RFC 2231 in any charset, in pieces, as
// raw bytes in the charset of their machine. mime.ParseMediaType drops a name that is not
// quoted as it should be, or is in another charset than UTF-8.

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
			if title := shortTitle(oneLine(parameter(params, key), maxParsed)); title != "" {
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
func shortTitle(title string) string { return shortName(title, maxTitle, "…") }

// parameter returns the value of a parameter in any of its forms: extended, in pieces
// (RFC 2231), or simple with encoded words.
func parameter(params map[string]string, key string) string {
	simple := params[key]
	return cmp.Or(extended(params[key+"*"], true), pieces(params, key+"*"), extended(simple, false), decodeTitle(simple))
}

// pieces joins the pieces of a value (RFC 2231 section 3). Each may be encoded, and the first
// encoded one may begin with the charset.
func pieces(params map[string]string, prefix string) string {
	var all strings.Builder // encoded
	encoded := false
	for i := 0; ; i++ {
		key := prefix + strconv.Itoa(i)
		piece, ok := params[key+"*"]
		if ok && all.Len() > 0 {
			piece = strings.ReplaceAll(piece, "'", "%27") // which would end a charset
		}
		encoded = encoded || ok
		if !ok {
			piece, ok = params[key]
			piece = url.PathEscape(piece)
		}
		if !ok && i > 0 { // some programs begin with 1
			break
		}
		all.WriteString(piece)
	}
	if !encoded {
		return decodeTitle(unescape(all.String()))
	}
	return extended(all.String(), true)
}

// extended decodes CHARSET'LANGUAGE'ESCAPED (RFC 2231 section 4), or returns "". It
// accepts another form and an unknown charset if starred is true: the name of the parameter
// says that its value is extended.
func extended(v string, starred bool) string {
	parts := strings.SplitN(v, "'", 3)
	if len(parts) < 3 {
		parts = []string{"", "", v}
	}
	text := unescape(parts[2])
	if starred {
		return inCharset(text, parts[0])
	}
	if parts[0] == "" || text == parts[2] {
		return ""
	}
	text, _, _ = decodeCharset([]byte(text), parts[0])
	return text
}

// unescape replaces the escapes %XX of a value by their bytes. Any other "%" stays.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c, ok := unhex(s[i+1:]); ok && s[i] == '%' {
			b.WriteByte(c)
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// inCharset decodes s from the charset named label, or as rawText if it is not text in it.
func inCharset(s, label string) string {
	if text, _, whole := decodeCharset([]byte(s), label); whole {
		return text
	}
	return rawText([]byte(s), nil)
}

// rawText returns the bytes of a header as text: as UTF-8 if they are valid UTF-8, otherwise in
// the first of charsets in which all of them are text, otherwise as Windows-1252. It recognizes
// ISO-2022-JP by its escapes.
func rawText(b []byte, charsets []string) string {
	all := append([]string{"utf-8"}, charsets...)
	if bytes.Contains(b, []byte("\x1b$")) {
		all = append([]string{"iso-2022-jp"}, all...)
	}
	for _, label := range all {
		if s, _, whole := decodeCharset(b, label); whole {
			return s
		}
	}
	return windows1252(b)
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

// maxFileName is the maximum length of a file name in a header, in bytes: a system takes 255,
// and programs that save a file twice add to its name.
const maxFileName = 240

// FileName returns the name of file number n of a mail, in any script: the last element of name
// as one line of valid UTF-8. It drops control characters, invisible characters and characters
// that change the direction of writing. Two joiners stay, because several scripts and many
// emoji need them. A name that is too long loses its middle, so that its extension stays. If
// all of the name is dropped, FileName returns one of ours.
func FileName(name string, n int) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r), r == zeroWidthNonJoiner, r == zeroWidthJoiner:
			return r
		}
		return -1
	}, strings.ToValidUTF8(name, "\uFFFD"))
	name = strings.Join(strings.Fields(name), " ")
	name = shortName(name, maxFileName, "")
	if strings.Trim(name, ". \u200c\u200d") == "" {
		return fmt.Sprintf("attachment-%d", n)
	}
	return name
}

// These join letters, or keep them apart, and are invisible.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// maxWords is the maximum number of bytes of a file name in encoded words, and wordBytes that
// of one word.
const (
	wordBytes = 45
	maxWords  = 3 * wordBytes
)

// maxKeptExtension is the maximum length of an extension, with its dot, that a shortened name
// keeps.
const maxKeptExtension = 20

// shortName returns a name of at most most bytes. It cuts a longer one before its extension,
// and puts mark there.
func shortName(name string, most int, mark string) string {
	if len(name) <= most {
		return name
	}
	ext := path.Ext(name)
	if len(ext) > maxKeptExtension {
		ext = ""
	}
	end := mark + ext
	return strings.TrimSpace(plain.Cut(name[:len(name)-len(ext)], most-len(end))) + end
}

// nameParameters returns the parameters of Content-Type and of Content-Disposition that name a
// file, each with the preceding line end (docs/decisions/0042-formatted-mail-and-file-names.md).
// ofDisposition has the name by RFC 2231. ofType is for programs that do not read RFC 2231, and
// has the form that most mail programs write there: the name, as encoded words (RFC 2047) if
// necessary. It has at most three words, because a program that does not know encoded words
// either saves the file under this text.
func nameParameters(name string) (ofType, ofDisposition string) {
	if quotable(name) {
		ofType = fmt.Sprintf(";\r\n name=\"%s\"", name)
	} else {
		ofType = fmt.Sprintf(";\r\n name=\"%s\"", strings.Join(encodedWords(shortName(name, maxWords, "")), "\r\n "))
	}
	return ofType, fileNameParameter(name)
}

// maxParameter is the maximum number of characters of a value on one line, if the value then
// needs at most maxContinued lines: several programs put the tenth line before the second.
const (
	maxParameter = 60
	maxContinued = 8
)

// fileNameParameter returns the parameter filename: quoted if all readers read that alike,
// otherwise by RFC 2231 section 4. A long value is continued by section 3, and cut between
// characters.
func fileNameParameter(name string) string {
	quoted := quotable(name)
	if quoted && len(name) <= maxParameter {
		return fmt.Sprintf(";\r\n filename=\"%s\"", name)
	}
	part, encode := "", func(r rune) string { return string(r) }
	if !quoted {
		part, encode = "UTF-8''", percentEncoded
	}
	length := 0
	for _, r := range name {
		length += len(encode(r))
	}
	width := max(maxParameter, length/maxContinued+len(percentEncoded(utf8.MaxRune)))
	var parts []string
	for _, r := range name {
		c := encode(r)
		if len(part)+len(c) > width {
			parts, part = append(parts, part), ""
		}
		part += c
	}
	parts = append(parts, part)
	var b strings.Builder
	for i, part := range parts {
		switch {
		case quoted:
			fmt.Fprintf(&b, ";\r\n filename*%d=\"%s\"", i, part)
		case len(parts) == 1:
			fmt.Fprintf(&b, ";\r\n filename*=%s", part)
		default:
			fmt.Fprintf(&b, ";\r\n filename*%d*=%s", i, part)
		}
	}
	return b.String()
}

// quotable reports whether all readers read a name in quotes alike: it is ASCII, without the
// sequences that only some programs unquote or decode.
func quotable(name string) bool {
	for _, r := range name {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\%`, r) {
			return false
		}
	}
	return !strings.Contains(name, "=?") && !strings.Contains(name, "''")
}

// percentEncoded returns a character in the encoding of RFC 2231 section 7.
func percentEncoded(r rune) string {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
		return string(r)
	}
	var b strings.Builder
	for _, c := range utf8.AppendRune(nil, r) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// encodedWords returns s as encoded words in base64 (RFC 2047) of at most wordBytes bytes each,
// cut between characters.
func encodedWords(s string) (words []string) {
	for s != "" {
		word := plain.Cut(s, wordBytes)
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString([]byte(word))+"?=")
		s = s[len(word):]
	}
	return words
}
