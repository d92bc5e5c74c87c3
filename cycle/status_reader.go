package cycle

import (
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// StatusReader returns the status of an agent repeatedly.
type StatusReader struct {
	reader Reader
	stamp  store.Stamp
	state  state.State
	read   bool
}

// StatusReader returns a reader of the agent's status, for a caller that watches it.
func (r Reader) StatusReader() *StatusReader { return &StatusReader{reader: r} }

// Status returns the status as of now. It reads the state only if its file has changed
// since the last time.
func (r *StatusReader) Status() (Status, error) {
	stamp, err := r.reader.Store.Stamp()
	if err != nil {
		return Status{}, err
	}
	if !r.read || !stamp.Same(r.stamp) {
		if r.state, err = r.reader.Store.Read(); err != nil {
			return Status{}, err
		}
		r.stamp, r.read = stamp, true
	}
	return r.reader.StatusOf(r.state), nil
}
