package plain

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxFileName is the maximum length of a file name, in bytes, on the systems that we know.
const maxFileName = 255

// FileName returns a foreign name in the form that a file of ours can have, and reports whether
// the name is safe. It keeps the name, in any script, except that blanks become single spaces,
// and that accents are composed (NFC). It repairs no other fault; such a file needs a name of
// ours.
//
// A safe name does not lead out of its folder. It does not begin with a dot, a dash or a tilde.
// It shows all of its characters in their order. Of the characters that a shell acts on outside
// of quotes, it contains only spaces, brackets and "#".
func FileName(name string) (string, bool) {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, breaksLine) {
		return "", false
	}
	name = norm.NFC.String(strings.Join(strings.Fields(name), " "))
	if name == "" || len(name) > maxFileName {
		return "", false
	}
	letters := false
	before := rune(0)
	for i, r := range name {
		after, size := utf8.DecodeRuneInString(name[i+utf8.RuneLen(r):])
		if size == 0 {
			after = 0
		}
		if !inFileName(before, r, after) {
			return "", false
		}
		letters = letters || unicode.In(r, unicode.L, unicode.N, unicode.So)
		before = r
	}
	return name, letters
}

func breaksLine(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) }

// inFileName reports whether a file name may contain the character r between two others. before
// or after is 0 at an end of the name.
func inFileName(before, r, after rune) bool {
	switch {
	case before == 0 && (strings.ContainsRune(".-~ ", r) || unicode.IsMark(r)):
		return false
	case after == 0 && strings.ContainsRune(". ", r):
		return false
	case r < utf8.RuneSelf:
		return r == ' ' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("._-+,=@#%~()[]", r)
	case r == zeroWidthJoiner, r == zeroWidthNonJoiner:
		return joins(before) && joins(after)
	case r == emojiStyle:
		return unicode.In(before, unicode.S, unicode.N) || strings.ContainsRune("‼⁉〰〽", before)
	case unseen(r), strings.ContainsRune(slashes, r):
		return false
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
}

const (
	zeroWidthNonJoiner = '\u200c'
	emojiStyle         = '\ufe0f' // shows the character before it as a picture

	slashes = "⁄∕╱╲⟋⟍⧵⧸⧹∖⼃〳〵﹨／＼"
)

// joins reports whether a joiner may be next to a character. Joiners are part of the spelling
// of Arabic, Persian and the scripts of India, and of emoji.
func joins(r rune) bool {
	return r == emojiStyle || unicode.In(r, unicode.So, unicode.Sk, unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian,
		unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu,
		unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan) ||
		strings.ContainsRune("♀♂⚕⚖✈❤", r)
}

// unseen reports whether r is an invisible character beyond ASCII, or not a character at all.
func unseen(r rune) bool {
	return r == unicode.ReplacementChar || r == '\ufffc' || r == '\u2800' || r == '\U0001d159' || !unicode.IsGraphic(r) ||
		unicode.In(r, unicode.Z, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// FileNames gives names to the files of one folder. All of them differ, even on a file system
// that ignores case, or the ways to write an accent.
type FileNames struct {
	taken map[string]bool
	next  map[string]int // by name: the number that the next file of that name gets
}

// Add returns the name of the next file: the sender's name if it is safe (see FileName), with a
// number if an earlier file has that name ("a-2.csv"); otherwise ours. It does not keep a
// sender's name in the form of ours, "attachment-1.csv". So files that are added with different
// names of ours never collide.
func (n *FileNames) Add(senders, ours string) string {
	if n.taken == nil {
		n.taken, n.next = map[string]bool{}, map[string]int{}
	}
	name, ok := FileName(senders)
	if !ok || likeOurs(name) {
		name = ours
	}
	folded := foldName(name)
	if !n.taken[folded] {
		n.taken[folded] = true
		return name
	}
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for i := max(2, n.next[folded]); ; i++ {
		numbered := fmt.Sprintf("%s-%d%s", stem, i, ext)
		if len(numbered) > maxFileName {
			return n.Add("", ours)
		}
		if again := foldName(numbered); !n.taken[again] {
			n.taken[again] = true
			n.next[folded] = i + 1
			return numbered
		}
	}
}

// likeOurs reports whether a name has the form of our names, "attachment-1.csv".
func likeOurs(name string) bool {
	number, ok := strings.CutPrefix(foldName(name), "attachment-")
	return ok && number != "" && number[0] >= '0' && number[0] <= '9'
}

// foldName maps all names that a file system, or a reader, may mistake for one another to one
// name.
func foldName(name string) string {
	folded := strings.Map(func(r rune) rune {
		if r == zeroWidthJoiner || r == zeroWidthNonJoiner || r == emojiStyle {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, norm.NFKC.String(name))
	return norm.NFKC.String(strings.ReplaceAll(folded, "ß", "ss"))
}
