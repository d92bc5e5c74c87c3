package turn

import (
	"os"
	"path/filepath"

	"agentstateloop/internal/osfile"
)

const answerName = "answer.txt"

// spool gathers an answer of any length. Its beginning is in memory. Once it is
// longer than that, all of it, up to a bound, is in a file.
type spool struct {
	path    string
	maxMem  int
	maxFile int64
	mem     []byte
	n       int64 // bytes written, kept or not
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
		s.file, s.err = osfile.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if s.err != nil {
			return
		}
		s.put(string(s.mem[:kept]), 0)
	}
	s.put(b, s.n-int64(len(b)))
}

// put appends b, which begins at offset at of the answer, up to the bound.
func (s *spool) put(b string, at int64) {
	room := max(0, s.maxFile-at)
	if s.err == nil && room > 0 {
		_, s.err = s.file.WriteString(b[:min(int64(len(b)), room)])
	}
}

// truncated reports whether some of the answer was not kept.
func (s *spool) truncated() bool { return s.n > s.maxFile || s.err != nil }

// close returns what is in memory and, if that is not all, the file's name.
func (s *spool) close() (text, file string) {
	if s.file == nil {
		return string(s.mem), ""
	}
	s.file.Close()
	return string(s.mem), filepath.Base(s.path)
}

// reset discards what was gathered.
func (s *spool) reset() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.path)
	}
	s.mem, s.n, s.file, s.err = nil, 0, nil, nil
}
