package store

import (
	"bytes"
	"io/fs"
	"os"
	"sync"

	"agentstateloop/internal/members"
)

// recent caches the state last read or written, with its file. As long as the state's name still
// refers to this file, the state need not be read again: a runner that works through a thousand
// messages reads its own state eight times for each. The cache holds the file open, so that no
// other file can be mistaken for it: every commit makes a new file, and the system reuses an inode
// number only after the file is closed. The file's time and size are compared too, in case a person
// edits it.
//
// The cached state is shared by all its readers and writers. Only Step changes a state, and it
// copies the state first.
type recent struct {
	mu    sync.Mutex
	file  *os.File // nil if the cache is empty
	info  fs.FileInfo
	state stored

	memo  *members.Memo // the memo of the state, if this process wrote it
	spare []byte        // the buffer of the previous memo, for reuse
}

// of returns the cached state, if the cache holds the file at path.
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

// keep caches the state that was read from f or written to it, and takes ownership of f. data is
// the content of f.
func (r *recent) keep(f *os.File, data []byte, s stored, memo *members.Memo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.file.Close()
	}
	info, err := f.Stat()
	// Invalid UTF-8 is encoded as this character, so the decoded text would differ.
	if err != nil || bytes.Contains(data, []byte(`\ufffd`)) {
		f.Close()
		r.file, r.memo = nil, nil
		return
	}
	r.spare = r.memo.Bytes()
	r.file, r.info, r.state, r.memo = f, info, s, memo
}

// encode is encodeState with the memo and buffer of the cached state.
func (r *recent) encode(s *stored) ([]byte, *members.Memo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, memo, err := encodeState(r.spare[:0], s, r.memo)
	r.spare = nil
	return data, memo, err
}
