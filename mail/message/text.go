package message

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

// oneLine returns s as one line of valid UTF-8 of at most max bytes. Control characters become
// blanks, and runs of blanks one blank. Unlike plain.Line it keeps invisible characters,
// because an answer repeats the subject of its thread unchanged, and a link with such a
// character breaks without it.
func oneLine(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return plain.Cut(strings.Join(strings.Fields(s), " "), max)
}

// Lower returns s in lower case. Unlike strings.ToLower it keeps a letter beyond ASCII whose
// lower case is an ASCII letter, so that a name cannot pass for another one.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if l := unicode.ToLower(r); r < utf8.RuneSelf || l >= utf8.RuneSelf {
			return l
		}
		return r
	}, s)
}

// maxQuoteDepth is the maximum number of quotation levels that are distinguished in a flowed
// line.
const maxQuoteDepth = 50

// unflow returns a text in format=flowed (RFC 3676) with each paragraph on one line. A
// quoted paragraph begins with one ">" for each level and a blank. If delsp is true, the
// blank that breaks a line is not part of the text.
func unflow(text string, delsp bool) string {
	var out strings.Builder
	first := true
	open, depth := false, 0 // the last line continues, at this depth of quotation
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		quoted := strings.TrimLeft(line, ">")
		marks := min(len(line)-len(quoted), maxQuoteDepth)
		stuffed := strings.HasPrefix(quoted, " ")
		content := strings.TrimPrefix(quoted, " ")
		signature := content == "-- "
		continues := open && depth == marks && !signature && content != "" // an empty line ends a paragraph, despite the RFC
		if !continues {
			if !first {
				out.WriteByte('\n')
			}
			first = false
			out.WriteString(strings.Repeat(">", marks))
			// A ">" written by hand must not become a quotation.
			if marks > 0 || stuffed && strings.HasPrefix(content, ">") {
				out.WriteByte(' ')
			}
		}
		open = strings.HasSuffix(content, " ") && !signature
		if open && delsp {
			content = content[:len(content)-1]
		}
		out.WriteString(content)
		depth = marks
	}
	return out.String()
}

// readable returns the text of a part whose charset is already decoded.
func (e entity) readable(s string) string {
	switch {
	case e.mediaType == "text/html":
		text, _ := htmlText(s)
		return text
	case e.mediaType == "text/enriched" || e.mediaType == "text/richtext":
		return enrichedText(s)
	case e.mediaType == "text/plain" && e.has("format", "flowed"):
		return plain.Text(unflow(s, e.has("delsp", "yes")))
	}
	return plain.Text(s)
}

// has reports whether a parameter of the media type has this value.
func (e entity) has(name, value string) bool {
	return strings.EqualFold(strings.TrimSpace(e.params[name]), value)
}

// sameWords reports whether two texts have the same words, without their quotation marks.
func sameWords(a, b string) bool { return slices.Equal(unquotedWords(a), unquotedWords(b)) }

// unquotedWords returns the words of a text without its quotation marks.
func unquotedWords(text string) []string {
	var words []string
	for line := range strings.Lines(text) {
		words = append(words, strings.Fields(strings.TrimLeft(line, "> "))...)
	}
	return words
}

// enrichedText returns the text of a part in text/enriched (RFC 1896) without its markup. In
// this format a single line end is a blank, and the first of several is left out.
func enrichedText(s string) string {
	var out strings.Builder
	s = strings.ReplaceAll(s, "\r\n", "\n")
	for s != "" {
		switch {
		case strings.HasPrefix(s, "<<"):
			out.WriteByte('<')
			s = s[2:]
		case s[0] == '<':
			command, rest, ok := strings.Cut(s[1:], ">")
			if !ok {
				out.WriteString(s)
				return plain.Text(out.String())
			}
			if s = rest; strings.EqualFold(command, "param") {
				s = afterParam(s)
			}
		case s[0] == '\n':
			lines := strings.TrimLeft(s, "\n")
			if n := len(s) - len(lines); n > 1 {
				out.WriteString(s[:n-1])
			} else {
				out.WriteByte(' ')
			}
			s = lines
		default:
			n := strings.IndexAny(s, "<\n")
			if n < 0 {
				n = len(s)
			}
			out.WriteString(s[:n])
			s = s[n:]
		}
	}
	return plain.Text(out.String())
}

// afterParam returns the text after the end of a parameter.
func afterParam(s string) string {
	const end = "</param>"
	for {
		i := strings.Index(s, "</")
		if i < 0 {
			return ""
		}
		if s = s[i:]; len(s) >= len(end) && strings.EqualFold(s[:len(end)], end) {
			return s[len(end):]
		}
		s = s[2:]
	}
}

// The lines of inline PGP (RFC 9580 section 6.2).
const (
	pgpEncrypted = "-----BEGIN PGP MESSAGE-----"
	pgpSigned    = "-----BEGIN PGP SIGNED MESSAGE-----"
	pgpSignature = "-----BEGIN PGP SIGNATURE-----"
	pgpEnd       = "-----END PGP SIGNATURE-----"
)

// withoutArmor returns a text without the lines of its inline PGP signature. problem describes
// the signature, or is "". An encrypted text is returned unchanged, and problem describes the
// encryption.
func withoutArmor(text string) (plain, problem string) {
	var out []string
	const (
		outside   = "outside"
		header    = "header"
		body      = "body"
		signature = "signature"
	)
	at := outside
	for line := range strings.SplitSeq(text, "\n") {
		bare := strings.TrimRight(line, " \t")
		switch {
		case bare == pgpEncrypted:
			return text, "the text is encrypted (PGP) and cannot be decrypted here"
		case at == outside && bare == pgpSigned:
			at, problem = header, "the text is signed with PGP, but the signature is not verified"
		case at == header && bare == "":
			at = body
		case at == body && bare == pgpSignature:
			at = signature
		case at == signature && bare == pgpEnd:
			at = outside
		case at == body:
			out = append(out, strings.TrimPrefix(line, "- "))
		case at == outside:
			out = append(out, line)
		}
	}
	if at != outside { // the signature is cut off
		return text, problem
	}
	return strings.Join(out, "\n"), problem
}
