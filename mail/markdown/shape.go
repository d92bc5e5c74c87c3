package markdown

import (
	"strings"
	"unicode/utf8"
)

// maxMarks is the maximum number of marks in a paragraph, or in lines without an empty line
// between them. The time to match marks grows with the square of their number.
const maxMarks = 3000

// readable reports whether text is UTF-8 that a person may have written. Goldmark takes long to
// parse other text.
func readable(text string) bool {
	marks := 0
	for line := range strings.Lines(text) {
		start := strings.TrimLeft(line, "> \t")
		if strings.Count(line[:len(line)-len(start)], ">") > maxDepth {
			return false
		}
		if strings.TrimSpace(line) == "" {
			marks = 0
		}
		for _, b := range []byte(line) {
			switch b {
			case '*', '_', '[', ']', '~', '`', '<', ':':
				marks++
			}
		}
		if marks > maxMarks {
			return false
		}
	}
	return utf8.ValidString(text)
}

// aligned reports whether lines are columns or a drawing: at least two lines have several
// blanks between words, a tab, or box-drawing characters. Two blanks after a sentence do not
// count, because many writers type them.
func aligned(lines string) bool {
	n := 0
	for line := range strings.Lines(lines) {
		if hasColumns(strings.TrimSpace(line)) {
			n++
		}
	}
	return n >= 2
}

func hasColumns(line string) bool {
	if strings.HasPrefix(line, "+-") || strings.Contains(line, "\t") {
		return true
	}
	for at := 0; ; {
		i := strings.Index(line[at:], "  ")
		if i < 0 {
			break
		}
		at += i
		if at > 0 && !strings.ContainsRune(".!?:", rune(line[at-1])) {
			return true
		}
		for at < len(line) && line[at] == ' ' {
			at++
		}
	}
	return strings.ContainsFunc(line, func(r rune) bool { return r >= 0x2500 && r <= 0x259f })
}
