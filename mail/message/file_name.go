package message

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

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
	name = shortName(name, maxFileName)
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

// shortName returns a name of at most most bytes, cut before its extension.
func shortName(name string, most int) string {
	if len(name) <= most {
		return name
	}
	ext := ""
	if i := strings.LastIndexByte(name, '.'); i > 0 && len(name)-i <= maxKeptExtension {
		ext = name[i:]
	}
	return strings.TrimSpace(plain.Cut(name[:len(name)-len(ext)], most-len(ext))) + ext
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
		ofType = fmt.Sprintf(";\r\n name=\"%s\"", strings.Join(encodedWords(shortName(name, maxWords)), "\r\n "))
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
