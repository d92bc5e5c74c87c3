package turn

import (
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const answerName = "answer.txt"

// spool gathers an answer of any length: its beginning in memory, and all of
// it, up to a bound, in a file once it is longer than that.
type spool struct {
	path    string
	maxMem  int
	maxFile int64
	mem     []byte
	n       int64 // bytes given, kept or not
	file    *os.File
	err     error // of the file; what is in memory is good all the same
}

func (s *spool) write(b string) {
	s.n += int64(len(b))
	room := s.maxMem - len(s.mem)
	kept := len(s.mem)
	s.mem = append(s.mem, b[:min(len(b), room)]...)
	if s.n <= int64(s.maxMem) || s.err != nil {
		return
	}
	if s.file == nil {
		s.file, s.err = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if s.err != nil {
			return
		}
		s.put(string(s.mem[:kept]), 0)
	}
	s.put(b, s.n-int64(len(b)))
}

// put appends what comes at offset at, up to the bound.
func (s *spool) put(b string, at int64) {
	room := max(0, s.maxFile-at)
	if s.err == nil && room > 0 {
		_, s.err = s.file.WriteString(b[:min(int64(len(b)), room)])
	}
}

// cut says whether some of the answer was not kept.
func (s *spool) cut() bool { return s.n > s.maxFile || s.err != nil }

// close gives what is in memory and, if that is not all, the file's name.
func (s *spool) close() (text, file string) {
	if s.file == nil {
		return string(s.mem), ""
	}
	s.file.Close()
	return string(s.mem), filepath.Base(s.path)
}

// reset forgets what was gathered.
func (s *spool) reset() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.path)
	}
	s.mem, s.n, s.file, s.err = nil, 0, nil, nil
}

// clean makes text fit for a mail and a terminal: valid UTF-8, line feeds, no
// other control characters but tab, no blank space around it.
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

// head is the beginning of s, at most n bytes and no half characters.
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

// lastLine is the last line of s, cut to a length fit for a reason.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return head(s[strings.LastIndexByte(s, '\n')+1:], 300)
}
