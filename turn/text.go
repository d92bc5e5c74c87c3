package turn

import (
	"strings"
	"unicode/utf8"
)

// maxLastLine bounds, in bytes, a line that is quoted in a reason.
const maxLastLine = 300

// clean makes text fit for a mail and a terminal: valid UTF-8, with no control
// characters but line feed and tab, and no white space around it.
func clean(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}

// head returns the beginning of s: at most n bytes, without a partial character.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// tail keeps the last bytes written to it.
type tail struct {
	max int
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.buf = append(t.buf, b[max(0, len(b)-t.max):]...)
	t.buf = t.buf[max(0, len(t.buf)-t.max):]
	return len(b), nil
}

func (t *tail) String() string { return clean(string(t.buf)) }

// lastLine returns the last line of s, truncated to maxLastLine.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return head(s[strings.LastIndexByte(s, '\n')+1:], maxLastLine)
}
