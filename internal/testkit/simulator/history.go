package simulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// line is a line of the history. The checker uses its fields, and never the rules of package state.
type line struct{ state.Line }

// is reports whether a line is of a kind and says a word.
func (l line) is(kind state.LineKind, what state.Word) bool { return l.Kind == kind && l.What == what }

// history is the history after reading, with the lines that many checks look for.
type history struct {
	lines     []line
	tasks     map[string][]line // the ends of turns, by message key
	ends      map[string]line   // the same, by turn
	turns     map[string][]line // the lines about the attempts of a turn
	queued    map[string]line   // the line that queued an effect, by its id
	delivered map[string][]line // the lines about its delivery
	recovered bool              // the state was recovered
}

// add adds a line.
func (h *history) add(l line) {
	h.lines = append(h.lines, l)
	switch {
	case l.Kind == "task":
		h.ends[l.TurnID] = l
		h.tasks[l.Key] = append(h.tasks[l.Key], l)
		for _, other := range l.Collected {
			h.tasks[other.Key] = append(h.tasks[other.Key], l)
		}
	case l.Kind == "turn":
		h.turns[l.TurnID] = append(h.turns[l.TurnID], l)
	case l.is("effect", state.WordQueued) && l.Effect != nil:
		h.queued[l.ID] = l
	case l.Kind == "delivery":
		h.delivered[l.ID] = append(h.delivered[l.ID], l)
	case l.Kind == "recovery":
		h.recovered = true
	}
}

// lastOf returns the last line of a list, or the zero line.
func lastOf(lines []line) (l line) {
	if n := len(lines); n > 0 {
		l = lines[n-1]
	}
	return l
}

// dispatch returns the line that dispatched an attempt, or the zero line.
func (h history) dispatch(turn string, epoch uint64) (begun line) {
	for _, l := range h.turns[turn] {
		if l.What == state.WordDispatched && l.Epoch == epoch {
			begun = l
		}
	}
	return begun
}

// readHistory reads the history. It must be readable at all times.
func (w *World) readHistory() history {
	h := history{tasks: map[string][]line{}, ends: map[string]line{}, turns: map[string][]line{}, queued: map[string]line{}, delivered: map[string][]line{}}
	var lines []line
	names, _ := filepath.Glob(filepath.Join(w.stateDir(), "history-*.jsonl")) // in order
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			w.violate("state", "history: %v", err)
		}
		var before line
		for raw := range bytes.Lines(data) {
			if !bytes.HasSuffix(raw, []byte("\n")) {
				continue // torn by a crash; the next commit overwrites it
			}
			var l line
			if err := json.Unmarshal(raw, &l); err != nil {
				w.violate("state", "history: %s: %q: %v", filepath.Base(name), raw, err)
			}
			if !before.before(l) {
				w.violate("state", "history: %s: %s stands after %s", filepath.Base(name), l, before)
			}
			before = l
			lines = append(lines, l)
		}
	}
	// After the clock is set back, lines may go to the file of an earlier month.
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.Serial, b.Serial), cmp.Compare(a.N, b.N))
	})
	for _, l := range lines {
		h.add(l)
	}
	return h
}

// any reports whether the history has such a line.
func (h history) any(is func(l line) bool) bool { return slices.ContainsFunc(h.lines, is) }

// before reports whether next may follow l: (serial, n) is unique and rises.
func (l line) before(next line) bool {
	return next.Serial > l.Serial || next.Serial == l.Serial && next.N > l.N || l.Kind == ""
}

// haltedBy holds the places that have set HALT: "here" and "mesh".
type haltedBy map[string]bool

func (h haltedBy) read(l line) {
	if l.Kind == "halt" {
		h[l.From] = l.What == state.WordHalt
	}
}

func (h haltedBy) any() bool { return h["here"] || h["mesh"] }

// undeliverable reports whether an effect whose id has the prefix was given up. The
// operator is informed of that, so it excuses that the effect did not arrive.
func (h history) undeliverable(prefix string) bool {
	return h.any(func(l line) bool {
		return l.Kind == "delivery" && l.What == state.WordUndeliverable && strings.HasPrefix(l.ID, prefix) && !l.isAboutHook()
	})
}

// says reports whether a line of that kind, with a key of that ending, has a reason
// with that prefix.
func (h history) says(kind state.LineKind, ending, reason string) bool {
	return h.any(func(l line) bool {
		return l.Kind == kind && strings.HasSuffix(l.Key, ending) && strings.HasPrefix(l.Reason, reason)
	})
}

// loggedLines is the number of history lines that are logged with a broken promise.
const loggedLines = 60

// logHistory adds the end of the history to the log.
func (w *World) logHistory() {
	h := w.readHistory()
	w.logf("history:")
	for _, l := range h.lines[max(0, len(h.lines)-loggedLines):] {
		w.logf("  %s", l)
	}
}

func (l line) String() string {
	words := []string{l.id(), l.At.Format("15:04:05"), string(l.Kind)}
	for _, word := range []string{string(l.What), l.Key, l.ID, string(l.Old + "→" + l.New), l.TurnID, string(l.Outcome), l.Reason} {
		if word != "" && word != "→" {
			words = append(words, word)
		}
	}
	if l.Epoch > 0 {
		words = append(words, fmt.Sprintf("epoch %d", l.Epoch))
	}
	if l.Request != "" {
		words = append(words, "about", l.Request)
	}
	for _, other := range l.Collected {
		words = append(words, "with", other.Key)
	}
	return strings.Join(words, " ")
}

// state reads state.json. A damaged or missing file gives the zero state.
func (w *World) state() (s state.State, ok bool) { return readState(w.stateDir()) }

func readState(dir string) (s state.State, ok bool) {
	data, err := os.ReadFile(filepath.Join(dir, "state.json"))
	return s, err == nil && json.Unmarshal(data, &s) == nil
}

// known returns the keys of messages in the history and in the state. A line about a failed fetch
// or a number shows only that the mail is in the mailbox.
func (w *World) known() map[string]bool {
	h := w.readHistory()
	s, _ := w.state()
	k := map[string]bool{}
	for _, m := range s.Inbox {
		k[m.Key] = true
	}
	for _, l := range s.Lines {
		h.lines = append(h.lines, line{l})
	}
	for _, l := range h.lines {
		if l.Kind != "fetch" && l.Kind != "number" {
			k[l.Key] = true
		}
	}
	return k
}

// checkChain checks that the chain of the history has no break and holds the head that the state
// names, after every death (docs/protocol.md, "The audit chain").
func (w *World) checkChain() {
	st := &store.Store{Dir: w.stateDir(), Agent: handle}
	a, err := st.Audit()
	if err != nil {
		w.violate("chain", "%v", err)
		return
	}
	if len(a.Breaks) > 0 {
		w.violate("chain", "breaks: %v", a.Breaks)
	}
	head, err := st.Head()
	if err == nil && head.Sum != "" {
		err = a.Holds(head)
	}
	if err != nil {
		w.violate("chain", "the state has the head %v: %v", head, err)
	}
}
