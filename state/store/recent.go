package store

import (
	"bytes"
	"sync"

	"agentstateloop/state"
)

// recent is the state that was read or written last, with the bytes of its file.
// Whoever reads the same bytes again need not decode them: a runner that drains
// a thousand messages reads its own state four times for each. It is the bytes
// that tell, never the file's name, time or size, so that no other process's
// commit can be missed.
type recent struct {
	mu    sync.Mutex
	data  []byte
	state state.State
}

// of gives the state of these bytes if they are the last known.
func (r *recent) of(data []byte) (state.State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(data) == 0 || !bytes.Equal(data, r.data) {
		return state.State{}, false
	}
	return r.state.Copy(), true
}

// keep remembers the state of these bytes.
func (r *recent) keep(data []byte, s state.State) {
	// Text that is no UTF-8 is written as this: decoded, it is not what it was.
	if bytes.Contains(data, []byte(`\ufffd`)) {
		data = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data, r.state = data, s.Copy()
}
