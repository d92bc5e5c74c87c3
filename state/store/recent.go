package store

import (
	"bytes"
	"sync"
)

// recent is the state that was last read or written, with the bytes of its file. The
// same bytes need not be decoded again: a runner that works through a thousand
// messages reads its own state four times for each. Only the bytes count, never the
// file's name, time or size, so that no commit of another process is missed.
type recent struct {
	mu    sync.Mutex
	data  []byte
	state stored
}

// of returns the state of data if it was kept last.
func (r *recent) of(data []byte) (stored, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(data) == 0 || !bytes.Equal(data, r.data) {
		return stored{}, false
	}
	return r.state.copy(), true
}

// keep keeps the state of data.
func (r *recent) keep(data []byte, s stored) {
	// Invalid UTF-8 is written as this character: decoded, the text differs.
	if bytes.Contains(data, []byte(`\ufffd`)) {
		data = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data, r.state = data, s.copy()
}
