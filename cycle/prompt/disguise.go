package prompt

import (
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// brokenBy goes behind the bracket of what could pass for a tag of ours.
const brokenBy = `\`

// defuse breaks up whatever in a text could pass for a tag of ours, opening or
// closing, and the boundary, should the text hold it. A model reads over what a
// comparison of bytes stops at. So a tag is found in the text as a reader may take
// it: compatibility characters, accents, letters and brackets that look alike,
// character references of HTML, white space and what cannot be seen make no
// difference. Tag characters, by which a text can hold another that nobody sees, are
// dropped. Invalid UTF-8 becomes U+FFFD.
func (f Fences) defuse(text string) string { return f.breakBoundary(breakTags(text)) }

// breakTags is what defuse does in every prompt alike.
func breakTags(text string) string {
	text = dropTagCharacters(text)
	var out strings.Builder
	from := 0
	for at := 0; at < len(text); {
		opens, size := opening(text[at:])
		at += size
		if opens && spellsTag(text[at:]) {
			out.WriteString(text[from:at])
			out.WriteString(brokenBy)
			from = at
		}
	}
	out.WriteString(text[from:])
	return out.String()
}

// breakBoundary breaks up the boundary in a text.
func (f Fences) breakBoundary(text string) string {
	if f.Boundary == "" {
		return text
	}
	return strings.ReplaceAll(text, f.Boundary, f.Boundary[:1]+brokenBy+f.Boundary[1:])
}

// Alters reports whether a text would not stand in a fence as it is.
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

// tagNames are the tags of our fences, as spellsTag reads them.
var tagNames = [...]string{
	tagMessage, tagMemory, tagHistory, tagAsked, tagAnswered, tagSummary, tagReport, tagSaid, tagFields, tagFiles, "resultfields", "systemmessage",
}

// maxTagName is the length of the longest of them.
const maxTagName = len("systemmessage")

// opening reports whether text begins with an opening bracket, or with what could
// pass for one. size is the length of what it has looked at.
func opening(text string) (opens bool, size int) {
	if text[0] == '&' {
		seen, size := glyph(text)
		return strings.ContainsFunc(seen, isOpening), size
	}
	r, size := utf8.DecodeRuneInString(text)
	return r == '<' || r >= utf8.RuneSelf && isOpening(r), size
}

// spellsTag reports whether a text that stands behind an opening bracket begins with
// the name of a tag of ours, closing or not. It reads up to the next bracket at most,
// so that looking behind each bracket costs no more than reading the text once.
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

// glyph returns how a reader may take the first character of a text that is not
// empty, or the character reference that it begins with: decomposed, in lower case,
// without accents, and as the ASCII letter that it looks like. size is its length in
// the text.
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
	case unicode.Is(unicode.Cf, r): // often many of them
		return text[:size], size
	}
	return fold(text[:size]), size
}

// maxReference is more than any character reference of HTML has, in bytes.
const maxReference = 40

// reference reads the character reference of HTML that a text begins with. It accepts
// what a browser accepts: leading zeros, no semicolon after a number or after lt, and
// an ampersand that is a reference itself.
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

// fold returns the letters that a text decomposes to, in lower case, without marks,
// each as the ASCII letter that it looks like.
func fold(text string) string {
	var seen strings.Builder
	for _, r := range norm.NFKD.String(text) {
		switch {
		case unicode.IsMark(r), r == '(', r == ')': // ⒜ decomposes to (a)
		case r == 'ß', r == 'ẞ':
			seen.WriteString("ss")
		case r == 'Η': // the capitals of eta and upsilon look like other letters than the small ones
			seen.WriteByte('h')
		case r == 'Υ':
			seen.WriteByte('y')
		default:
			seen.WriteRune(lookalike(unicode.ToLower(unicode.ToUpper(r))))
		}
	}
	return seen.String()
}

// isOpening reports whether a character is an opening angle bracket, or looks like
// one.
func isOpening(r rune) bool {
	return strings.ContainsRune("<＜﹤≮〈\u2329《⟨⟪‹«❮❬❰⧼⦑⦓⦕⦉⟬ᐸᚲ𝈶˂≺⊀≪⋖⪡⋘⪻≤≰⩽≲≴⪅︿︽", r)
}

// readOver reports whether a reader passes over a character behind the bracket of a
// tag or, if within is true, between the letters of its name. A backslash is not
// passed over: a tag that has one is broken up already.
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

// lookalikes are the letters of our tags, each with others in lower case that look
// like it and do not decompose to it.
var lookalikes = [...]string{
	"aаɑαᴀ∂ꭺⲁ", "dԁꮷᑯꓒᴅɗđ", "eеεєᴇⅇҽɛǝəⲉ", "gɡցᶃɢǥɠ", "hһհꮒʜħɦꓧн", "iіιɪıɩӏⲓ", "kкκᴋⲕ",
	"mмμϻᴍɱⲙ", "nոռпɴƞηⲛ", "oоοօᴏσⲟഠ໐", "pрρᴘⲣϸ", "rгʀᴦɾⲅꭇ", "sѕꜱʂꮪƽⲋ", "tтτᴛŧⲧ", "uυսᴜʋц",
	"wԝաᴡωшɯ", "yуүγʏყⲩ",
}

// lookalike returns the ASCII letter that a character passes for, or the character
// itself.
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
