package cycle

import (
	"errors"
	"fmt"
	"strconv"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// ErrNoMessage means that the inbox and the history both lack the message.
var ErrNoMessage = errors.New("message not found")

// FindMessage returns a message by its key or its number, from the inbox or, if it has left the
// inbox, from the history. The error wraps ErrNoMessage if both lack it.
func (r Reader) FindMessage(which string) (state.Message, error) {
	s, err := r.Store.Read()
	if err != nil {
		return state.Message{}, err
	}
	return findMessage(r.Store, s, which)
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

// findMessage is FindMessage for a state that was read before.
func findMessage(st *store.Store, s state.State, which string) (state.Message, error) {
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
