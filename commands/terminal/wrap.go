package terminal

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Wrap returns text with lines of at most so many columns, broken at blanks and
// between Chinese characters. What is broken off begins below the text of its line:
// behind its indent, or behind the label or the columns with which the line begins. A
// word that is longer than a line stays whole. With 0 columns, outside
// a terminal, the text stays as it is.
func Wrap(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.TrimSuffix(line, "\n"), ""
		if len(body) < len(line) {
			end = "\n"
		}
		b.WriteString(wrapLine(body, columns, hanging(body, columns)))
		b.WriteString(end)
	}
	return b.String()
}

// WrapHanging is Wrap of one line. What is broken off begins with indent blanks.
func WrapHanging(line string, columns, indent int) string {
	if columns <= 0 {
		return line
	}
	return wrapLine(line, columns, min(indent, columns/2))
}

// hanging returns the indent for what is broken off a line: where its text begins,
// behind a label as in "subject: " and behind columns, which two blanks separate.
func hanging(line string, columns int) int {
	leading := len(line) - len(strings.TrimLeft(line, " "))
	indent, at := leading, leading
	for at < len(line) {
		gap := strings.Index(line[at:], "  ")
		if gap < 0 {
			break
		}
		at += gap
		at += len(line[at:]) - len(strings.TrimLeft(line[at:], " "))
		if cells := Cells(line[:at]); cells <= columns/2 && at < len(line) {
			indent = cells
		}
	}
	if label, rest, found := strings.Cut(line, ": "); found && indent == leading && isLabel(label) {
		indent = len(label) + len(": ") + len(rest) - len(strings.TrimLeft(rest, " "))
	}
	return min(indent, columns/2)
}

// isLabel reports whether text is one word with which a line such as "subject: …"
// begins.
func isLabel(text string) bool {
	return text != "" && len(text) <= 12 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") == ""
}

// piece is a part of a line that is not broken, and the blanks before it.
type piece struct {
	blanks string
	text   string
}

// wrapLine breaks a line that is too long. What is broken off begins with indent blanks,
// or with fewer, if its first word needs the place.
func wrapLine(line string, columns, indent int) string {
	if Cells(line) <= columns {
		return line
	}
	var b strings.Builder
	used, empty := 0, true
	for _, p := range pieces(line) {
		width := Cells(p.text)
		if !empty && used+len(p.blanks)+width > columns {
			used, p.blanks = max(0, min(indent, columns-width)), ""
			b.WriteString("\n" + strings.Repeat(" ", used))
		}
		b.WriteString(p.blanks + p.text)
		used += len(p.blanks) + width
		empty = false
	}
	return b.String()
}

// pieces returns the words of a line, and each wide character as a piece of its own. A
// line that begins with blanks keeps them.
func pieces(line string) []piece {
	var all []piece
	for line != "" {
		word := strings.TrimLeft(line, " ")
		blanks := line[:len(line)-len(word)]
		if i := strings.IndexByte(word, ' '); i >= 0 {
			word = word[:i]
		}
		line = line[len(blanks)+len(word):]
		all = append(all, wordPieces(blanks, word)...)
	}
	return all
}

func wordPieces(blanks, word string) []piece {
	if isASCII(word) {
		return []piece{{blanks, word}}
	}
	var all []piece
	wide, state := true, -1
	for rest := word; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if last := len(all) - 1; last >= 0 && !wide && width < 2 {
			all[last].text += cluster
		} else {
			all = append(all, piece{blanks, cluster})
		}
		blanks, wide = "", width > 1
	}
	return all
}
