package turn

import (
	"os"
	"path/filepath"

	"agentstateloop/internal/osfile"
)

const answerName = "answer.txt"

// spool collects an answer of any length. It keeps the beginning in memory. A longer answer also
// goes to a file, from its first byte, up to maxFile bytes.
type spool struct {
	path    string
	maxMem  int
	maxFile int64
	mem     []byte
	n       int64 // bytes written, kept or dropped
	file    *os.File
	err     error // of the file; the text in memory stays valid
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
		s.file, s.err = osfile.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if s.err != nil {
			return
		}
		s.put(string(s.mem[:kept]), 0)
	}
	s.put(b, s.n-int64(len(b)))
}

// put appends b to the file, up to the bound. b begins at offset at of the answer.
func (s *spool) put(b string, at int64) {
	room := max(0, s.maxFile-at)
	if s.err == nil && room > 0 {
		_, s.err = s.file.WriteString(b[:min(int64(len(b)), room)])
	}
}

// truncated reports whether part of the answer was dropped.
func (s *spool) truncated() bool { return s.n > s.maxFile || s.err != nil }

// close returns the text in memory and, if the answer is longer, the file's name.
func (s *spool) close() (text, file string) {
	if s.file == nil {
		return string(s.mem), ""
	}
	s.file.Close()
	return string(s.mem), filepath.Base(s.path)
}

// reset discards the answer.
func (s *spool) reset() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.path)
	}
	s.mem, s.n, s.file, s.err = nil, 0, nil, nil
}
