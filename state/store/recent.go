package store

import (
	"bytes"
	"sync"

	"agentstateloop/state"
)

// recent is the state that was last read or written, with the bytes of its file. The
// same bytes need not be decoded again: a runner that works through a thousand
// messages reads its own state four times for each. Only the bytes count, never the
// file's name, time or size, so that no commit of another process is missed.
type recent struct {
	mu    sync.Mutex
	data  []byte
	state state.State
}

// of returns the state of data if it was kept last.
func (r *recent) of(data []byte) (state.State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(data) == 0 || !bytes.Equal(data, r.data) {
		return state.State{}, false
	}
	return r.state.Copy(), true
}

// keep keeps the state of data.
func (r *recent) keep(data []byte, s state.State) {
	// Invalid UTF-8 is written as this character: decoded, the text differs.
	if bytes.Contains(data, []byte(`\ufffd`)) {
		data = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data, r.state = data, s.Copy()
}
