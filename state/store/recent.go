package store

import (
	"bytes"
	"io/fs"
	"os"
	"sync"

	"agentstateloop/internal/members"
)

// recent is the state that was last read or written, with its file. As long as the name of
// the state is that of this file, it need not be read again: a runner that works through a
// thousand messages reads its own state eight times for each. The file is held open, so that no
// other file can be taken for it: every commit makes a new one, and the number of a file is free
// only when nobody holds it. Its time and size count as well, for people who write into it.
//
// What is kept is shared with all who have read or written it. Nobody changes a state but
// Step, which copies it first.
type recent struct {
	mu    sync.Mutex
	file  *os.File // nil: nothing is kept
	info  fs.FileInfo
	state stored

	memo  *members.Memo // of the state, if this process has written it
	spare []byte        // the bytes of the memo before, to be written over
}

// of returns the state of the file at path if it was kept last.
func (r *recent) of(path string) (stored, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return stored{}, false
	}
	info, err := os.Lstat(path)
	if err != nil || !os.SameFile(info, r.info) || !info.ModTime().Equal(r.info.ModTime()) || info.Size() != r.info.Size() {
		return stored{}, false
	}
	return r.state, true
}

// keep keeps the state that was read from f or written to it, and takes f over. data is
// what f holds.
func (r *recent) keep(f *os.File, data []byte, s stored, memo *members.Memo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.file.Close()
	}
	info, err := f.Stat()
	// Invalid UTF-8 is written as this character: decoded, the text differs.
	if err != nil || bytes.Contains(data, []byte(`\ufffd`)) {
		f.Close()
		r.file, r.memo = nil, nil
		return
	}
	r.spare = r.memo.Bytes()
	r.file, r.info, r.state, r.memo = f, info, s, memo
}

// encode is encodeState, with what is remembered of the last state.
func (r *recent) encode(s *stored) ([]byte, *members.Memo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, memo, err := encodeState(r.spare[:0], s, r.memo)
	r.spare = nil
	return data, memo, err
}
