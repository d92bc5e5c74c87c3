package turn

import (
	"strings"

	"agentstateloop/internal/plain"
)

// maxLastLine bounds a line that a reason quotes, in bytes.
const maxLastLine = 300

// clean makes text fit for a mail and a terminal: the lines of plain.Text without surrounding
// white space. A lone carriage return, as progress bars print it, does not begin a line.
func clean(text string) string {
	return strings.TrimSpace(plain.Text(strings.ReplaceAll(text, "\r", "")))
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
	return plain.Cut(s[strings.LastIndexByte(s, '\n')+1:], maxLastLine)
}
