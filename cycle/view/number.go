package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Short numbers name the rows of lists: 12 is a message in the inbox, q3 an item in quarantine,
// f2 a mail that is not fetched yet (docs/decisions/0020-ids-and-numbers.md).
const (
	quarantineMark = "q"
	unfetchedMark  = "f"
	HookMark       = "h"
)

// numbersRead limits how many bytes of the history are read for numbers.
const numbersRead = 256 << 20

// Key returns the key that a number or a key names. It returns any other text unchanged, as a
// key without a message. The number of a removed row stays valid as long as the history has it.
func (r Reader) Key(which string) (string, error) {
	s, err := r.Store.Read()
	if err != nil {
		return "", err
	}
	return KeyOf(r.Store, s, which)
}

// KeyOf is Key for a state that was read before.
func KeyOf(st *store.Store, s state.State, which string) (string, error) {
	for _, mark := range []struct {
		letter string
		kind   state.LineKind
	}{{quarantineMark, state.LineGate}, {unfetchedMark, state.LineNumber}} {
		digits, marked := strings.CutPrefix(strings.ToLower(which), mark.letter)
		n, err := strconv.ParseUint(digits, 10, 64)
		if !marked || err != nil || n == 0 {
			continue
		}
		l, ok, err := numberedLine(st, s, mark.kind, n)
		if err != nil || !ok {
			return which, err
		}
		return l.Key, nil
	}
	n, err := strconv.ParseUint(which, 10, 64)
	if err != nil || n == 0 {
		return which, nil
	}
	msg, ok, err := s.FindMessage(st.History(state.LineMessage), func(m state.Message) bool { return m.Seq == n })
	if err != nil || !ok {
		return which, err
	}
	return msg.Key, nil
}

// numberedLine returns the line of a kind that assigned the number n. Numbers rise.
func numberedLine(st *store.Store, s state.State, kind state.LineKind, n uint64) (found state.Line, ok bool, err error) {
	err = numberLines(st, s, kind, func(l state.Line) bool {
		if l.Number == n {
			found, ok = l, true
		}
		return l.Number > n
	})
	return found, ok, err
}

// numberLines calls take with the numbered lines of a kind, the newest first, until take
// returns false.
func numberLines(st *store.Store, s state.State, kind state.LineKind, take func(state.Line) bool) error {
	for _, l := range slices.Backward(s.Lines) {
		if l.Kind == kind && l.Number > 0 && !take(l) {
			return nil
		}
	}
	for l, err := range st.Newest(numbersRead, kind) {
		if err != nil {
			return fmt.Errorf("read history: %w", err)
		}
		if l.Number > 0 && !take(l) {
			return nil
		}
	}
	return nil
}

// quarantineNumbers returns the numbers of the items with these keys.
func quarantineNumbers(st *store.Store, s state.State, keys map[string]bool) (map[string]uint64, error) {
	numbers := map[string]uint64{}
	if len(keys) == 0 {
		return numbers, nil
	}
	err := numberLines(st, s, state.LineGate, func(l state.Line) bool {
		if keys[l.Key] && numbers[l.Key] == 0 {
			numbers[l.Key] = l.Number
		}
		return len(numbers) < len(keys) && l.Number > 1
	})
	return numbers, err
}

// Numeral returns a number as the lists show it, or nil for 0.
func Numeral(mark string, n uint64) *string {
	if n == 0 {
		return nil
	}
	text := mark + strconv.FormatUint(n, 10)
	return &text
}
