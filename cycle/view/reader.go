package view

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Reader reads one agent for people and programs. It changes nothing, and asks no server.
type Reader struct {
	Handle string
	Store  *store.Store
	Policy *state.Policy
	Now    func() time.Time
	Turn   *turn.Config // nil with runner "none"
	Mesh   string       // the address of the mesh, or ""

	ReadsMail   bool // a mailbox is configured
	ProvesMail  bool // the gate of mail proves senders
	Unscheduled bool // the agent has no schedule of its own

	Quarantine quarantine.Folder
	Headlines  *Headlines    // of the last Listing; nil: Listing reads each payload
	CheckEvery time.Duration // how often AwaitNudge reads the state, times five

	Fleet func() *StatusFleet // nil: the agent lives on this host alone

	// Schedule compares the crontab lines that a state asks for with the installed ones.
	Schedule func(state.State) StatusSchedule
}

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

// ErrNoMessage means that the inbox and the history both lack the message.
var ErrNoMessage = errors.New("message not found")

// FindMessage returns a message by its key or its number, from the inbox or, if it has left the
// inbox, from the history. The error wraps ErrNoMessage if both lack it.
func (r Reader) FindMessage(which string) (state.Message, error) {
	s, err := r.Store.Read()
	if err != nil {
		return state.Message{}, err
	}
	return FindMessage(r.Store, s, which)
}

// PrincipalOf returns the principal that a turn answers or has answered, or "" if the turn is
// unknown.
func (r Reader) PrincipalOf(turnID string) (state.Principal, error) {
	msg, known, err := r.CauseOf(turnID)
	if err != nil || !known {
		return "", err
	}
	return msg.Principal(), nil
}

// CauseOf returns the message that caused a turn. known is false if no such turn exists.
func (r Reader) CauseOf(turnID string) (msg state.Message, known bool, err error) {
	s, err := r.Store.Read()
	if err != nil {
		return state.Message{}, false, err
	}
	if msg, ok := s.MessageOfTurn(turnID); ok {
		return msg, true, nil
	}
	for l, err := range r.Store.History(state.LineTask) {
		if err != nil {
			return state.Message{}, false, fmt.Errorf("read history: %w", err)
		}
		if l.TurnID == turnID && l.Row != nil {
			return *l.Row, true, nil
		}
	}
	return state.Message{}, false, nil
}

// FindMessage is FindMessage for a state that was read before.
func FindMessage(st *store.Store, s state.State, which string) (state.Message, error) {
	number, _ := strconv.ParseUint(which, 10, 64)
	history := st.History(state.LineMessage, state.LineTask, state.LineEnded)
	msg, ok, err := s.FindMessage(history, func(m state.Message) bool {
		return m.Key == which || number != 0 && m.Seq == number
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: %q", ErrNoMessage, which)
	}
	return msg, err
}
