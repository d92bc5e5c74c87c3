package prompt

import (
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// breaker is inserted after the opening bracket of a possible tag.
const breaker = `\`

// defuse breaks up each possible tag of ours in a text, opening or closing, and each copy of the
// boundary. A model may recognize a tag that a comparison of bytes misses. So defuse reads the
// text as a reader may see it. It treats compatibility characters, accents, look-alike letters
// and brackets, and HTML character references as the plain characters. It skips white space and
// invisible characters. It drops tag characters, which can hide a second text in a text. Invalid
// UTF-8 becomes U+FFFD.
func (f Fences) defuse(text string) string { return f.breakBoundary(breakTags(text)) }

// breakTags is the part of defuse that does not depend on the prompt.
func breakTags(text string) string {
	text = dropTagCharacters(text)
	var out strings.Builder
	from := 0
	for at := 0; at < len(text); {
		opens, size := opening(text[at:])
		at += size
		if opens && spellsTag(text[at:]) {
			out.WriteString(text[from:at])
			out.WriteString(breaker)
			from = at
		}
	}
	out.WriteString(text[from:])
	return out.String()
}

// breakBoundary breaks up each copy of the boundary in a text.
func (f Fences) breakBoundary(text string) string {
	if f.Boundary == "" {
		return text
	}
	return strings.ReplaceAll(text, f.Boundary, f.Boundary[:1]+breaker+f.Boundary[1:])
}

// Alters reports whether a fence would change a text.
func Alters(text string) bool { return Fences{}.defuse(text) != text }

// dropTagCharacters drops the invisible copies of ASCII at U+E0000.
func dropTagCharacters(text string) string {
	return strings.Map(func(r rune) rune {
		if 0xE0000 <= r && r <= 0xE007F {
			return -1
		}
		return r
	}, text)
}

// tagNames are the tags of our fences, in the spelling of spellsTag.
var tagNames = [...]string{
	tagMessage, tagMemory, tagHistory, tagAsked, tagAnswered, tagSummary, tagReport, tagSaid, tagFields, tagFiles, "resultfields", "systemmessage",
}

// maxTagName is the length of the longest tag name.
const maxTagName = len("systemmessage")

// opening reports whether text begins with an opening bracket, or a look-alike of one. size is
// the length of the inspected text.
func opening(text string) (opens bool, size int) {
	if text[0] == '&' {
		seen, size := glyph(text)
		return strings.ContainsFunc(seen, isOpening), size
	}
	r, size := utf8.DecodeRuneInString(text)
	return r == '<' || r >= utf8.RuneSelf && isOpening(r), size
}

// spellsTag reports whether a text after an opening bracket begins with the name of one of our
// tags, closing or not. It reads no further than the next bracket, so checking every bracket
// costs no more than reading the text once.
func spellsTag(text string) bool {
	var name []byte
	for len(text) > 0 && len(name) < maxTagName {
		seen, size := glyph(text)
		text = text[size:]
		for _, r := range seen {
			switch {
			case 'a' <= r && r <= 'z':
				name = append(name, byte(r))
				if slices.Contains(tagNames[:], string(name)) {
					return true
				}
				if !slices.ContainsFunc(tagNames[:], func(tag string) bool { return strings.HasPrefix(tag, string(name)) }) {
					return false
				}
			case isOpening(r), !readOver(r, len(name) > 0):
				return false
			}
		}
	}
	return false
}

// glyph returns the first character of a non-empty text, or the character reference at its
// beginning, as a reader may see it: decomposed, in lower case, without accents, and as the
// ASCII letter that it looks like. size is its length in the text.
func glyph(text string) (seen string, size int) {
	r, size := utf8.DecodeRuneInString(text)
	if r == '&' {
		if meant, size, ok := reference(text); ok {
			return fold(meant), size
		}
	}
	switch {
	case r < utf8.RuneSelf:
		return string(unicode.ToLower(r)), size
	case unicode.Is(unicode.Cf, r): // a text may hold very many of these
		return text[:size], size
	}
	return fold(text[:size]), size
}

// maxReference exceeds the length in bytes of every named character reference of HTML.
const maxReference = 40

// reference reads the HTML character reference at the beginning of a text. It accepts the same
// input as a browser: leading zeros, no semicolon after a number or after lt, and an ampersand
// that is itself a reference.
func reference(text string) (meant string, size int, ok bool) {
	size = 1
	for strings.HasPrefix(text[size:], "amp;") {
		size += len("amp;")
	}
	rest := text[size:]
	end := 0
	for end < len(rest) && (rest[end] == '#' && end == 0 || isAlphanumeric(rest[end])) {
		end++
	}
	name, closed := rest[:end], end < len(rest) && rest[end] == ';'
	switch {
	case strings.HasPrefix(name, "#"):
		hex := strings.HasPrefix(strings.ToLower(name), "#x")
		digits := 1
		if hex {
			digits = 2
		}
		for digits < len(name) && (hex && isHex(name[digits]) || '0' <= name[digits] && name[digits] <= '9') {
			digits++
		}
		size += digits
		if digits == end && closed {
			size++
		}
		number := strings.TrimLeft(strings.TrimLeft(name[:digits], "#xX"), "0")
		if len(number) == 0 || len(number) > 8 {
			return "", 0, false
		}
		prefix := "&#"
		if hex {
			prefix = "&#x"
		}
		return html.UnescapeString(prefix + number + ";"), size, true
	case closed && end < maxReference:
		if meant = html.UnescapeString("&" + name + ";"); !strings.HasPrefix(meant, "&") {
			return meant, size + end + 1, true
		}
	}
	if len(name) >= 2 && strings.EqualFold(name[:2], "lt") {
		return "<", size + 2, true
	}
	return "", 0, false
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// fold decomposes a text, and returns its letters in lower case, without marks, each as the
// ASCII letter that it looks like.
func fold(text string) string {
	var seen strings.Builder
	for _, r := range norm.NFKD.String(text) {
		switch {
		case unicode.IsMark(r), r == '(', r == ')': // ⒜ decomposes to (a)
		case r == 'ß', r == 'ẞ':
			seen.WriteString("ss")
		case r == 'Η': // capital eta and upsilon look like other letters than in lower case
			seen.WriteByte('h')
		case r == 'Υ':
			seen.WriteByte('y')
		default:
			seen.WriteRune(lookalike(unicode.ToLower(unicode.ToUpper(r))))
		}
	}
	return seen.String()
}

// isOpening reports whether a character is an opening angle bracket, or looks like one.
func isOpening(r rune) bool {
	return strings.ContainsRune("<＜﹤≮〈\u2329《⟨⟪‹«❮❬❰⧼⦑⦓⦕⦉⟬ᐸᚲ𝈶˂≺⊀≪⋖⪡⋘⪻≤≰⩽≲≴⪅︿︽", r)
}

// readOver reports whether a reader skips a character after the bracket of a tag or, if within
// is true, between the letters of its name. A reader does not skip a backslash: a tag with one
// is already broken up.
func readOver(r rune, within bool) bool {
	switch {
	case r == '/', unicode.IsSpace(r):
		return true
	case r == '-', r == '_':
		return within
	case r < ' ', r == 0x7f:
		return true
	case r < utf8.RuneSelf:
		return false
	}
	return strings.ContainsRune("ノ丿Ⳇⳇ〳㇓", r) || unicode.In(r, unicode.C, unicode.M, unicode.P, unicode.S, unicode.Z,
		unicode.Other_Default_Ignorable_Code_Point) || !unicode.IsPrint(r)
}

// lookalikes are the letters of our tags. Each is followed by the lower-case characters that
// look like it and do not decompose to it.
var lookalikes = [...]string{
	"aаɑαᴀ∂ꭺⲁ", "dԁꮷᑯꓒᴅɗđ", "eеεєᴇⅇҽɛǝəⲉ", "gɡցᶃɢǥɠ", "hһհꮒʜħɦꓧн", "iіιɪıɩӏⲓ", "kкκᴋⲕ",
	"mмμϻᴍɱⲙ", "nոռпɴƞηⲛ", "oоοօᴏσⲟഠ໐", "pрρᴘⲣϸ", "rгʀᴦɾⲅꭇ", "sѕꜱʂꮪƽⲋ", "tтτᴛŧⲧ", "uυսᴜʋц",
	"wԝաᴡωшɯ", "yуүγʏყⲩ",
}

// lookalike returns the ASCII letter that a character looks like, or the character itself.
func lookalike(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case '🅐' <= r && r <= '🅩': // white on a black circle
		return 'a' + r - '🅐'
	case '🅰' <= r && r <= '🆉': // white on a black square
		return 'a' + r - '🅰'
	case '🇦' <= r && r <= '🇿': // the letters of flags
		return 'a' + r - '🇦'
	}
	for _, same := range lookalikes {
		if strings.ContainsRune(same, r) {
			return rune(same[0])
		}
	}
	return r
}
