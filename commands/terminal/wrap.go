package terminal

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Wrap breaks text into lines of at most the given number of columns. It breaks at blanks and
// between Chinese characters. A continuation line is indented to the text of its line: after the
// line's own indent, label or columns. A word longer than a line stays whole. With 0 columns,
// outside a terminal, the text is unchanged.
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

// WrapHanging is Wrap for one line. Continuation lines are indented by indent blanks.
func WrapHanging(line string, columns, indent int) string {
	if columns <= 0 {
		return line
	}
	return wrapLine(line, columns, min(indent, columns/2))
}

// hanging returns the indent of a line's continuation lines: the start of its text, after a label
// such as "subject: " and after columns separated by two blanks.
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

// isLabel reports whether text is a word that can begin a line such as "subject: …".
func isLabel(text string) bool {
	return text != "" && len(text) <= 12 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") == ""
}

// piece is an unbreakable part of a line, with the blanks before it.
type piece struct {
	blanks string
	text   string
}

// wrapLine breaks a line that is too long. It indents continuation lines by indent blanks, or by
// fewer if their first word needs the space.
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

// pieces returns the words of a line, and each wide character as a separate piece. It keeps the
// blanks at the start of the line.
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
