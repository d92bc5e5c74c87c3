package natsfaults_test

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// sums are what a check has counted.
type sums struct {
	messages, reports int // that were sent, and came
	lost              int // with the engine
}

// check compares what left all outboxes with what came into all inboxes, as the histories
// have it. Each message that a sender's outbox counts as sent is in the inbox of its
// recipient once, and has had one turn; what came was sent.
func (w *world) check() (s sums) {
	w.t.Helper()
	sent := map[string]map[string]letter{} // by recipient and key
	for _, m := range w.members {
		sent[m.Handle] = map[string]letter{}
	}
	for _, m := range w.members {
		rows := map[string]state.Effect{}
		for _, l := range m.history(w.t, state.LineEffect, state.LineDelivery) {
			switch {
			case l.Kind == state.LineEffect && l.Effect != nil && l.Effect.Channel == state.ByMesh:
				rows[l.ID] = *l.Effect
			case l.Kind == state.LineDelivery && l.What == "sent":
				if e, ok := rows[l.ID]; ok {
					sent[e.To][mesh.Message{From: m.Handle, ID: e.ID}.Key()] = letter{m.Handle, e.ID}
				}
			case l.Kind == state.LineDelivery:
				w.t.Errorf("%s: row %s: %s: %s", m.Handle, l.ID, l.What, l.Reason)
			}
		}
	}
	for _, m := range w.members {
		w.checkInbox(m, sent[m.Handle], &s)
	}
	return s
}

// checkInbox checks what came to an agent, of what was sent to it.
func (w *world) checkInbox(m *member, sent map[string]letter, s *sums) {
	came, turns, reported := map[string]int{}, map[string]int{}, map[string]int{}
	for _, l := range m.history(w.t, state.LineMessage, state.LineTask, state.LineEdge, state.LineNote, state.LineEnded, state.LineGate) {
		switch {
		case l.Kind == state.LineGate, l.Kind == state.LineEnded:
			w.t.Errorf("%s: %s %s %s: %s", m.Handle, l.Kind, l.What, l.Key, l.Reason)
		case !strings.HasPrefix(l.Key, "mesh:"):
		case l.Kind == state.LineMessage:
			came[l.Key]++
		case l.Kind == state.LineTask:
			turns[l.Key]++
		case l.Kind == state.LineNote || l.What == "report" && l.To == m.Handle:
			reported[l.Key]++
		}
	}
	for key, n := range came {
		if n != 1 || turns[key] != 1 {
			w.t.Errorf("%s: %s is in the inbox %d times, and had %d turns", m.Handle, key, n, turns[key])
		}
	}
	for key, n := range reported {
		if n != 1 {
			w.t.Errorf("%s: report %s came in %d times", m.Handle, key, n)
		}
	}
	for key, l := range sent {
		if came[key]+reported[key] > 0 {
			continue
		}
		if at := w.books.kept[l]; w.loss.IsZero() || at.After(w.loss) {
			w.t.Errorf("%s: %s of %s is lost: the engine acknowledged it at %s", m.Handle, l.id, l.from, at.Format(time.TimeOnly))
		} else {
			s.lost++
		}
	}
	for _, found := range []map[string]int{came, reported, turns} {
		for key := range found {
			if _, ok := sent[key]; !ok {
				w.t.Errorf("%s: %s came, and nobody has sent it", m.Handle, key)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for number, n := range m.begun {
		if n != 1 {
			w.t.Errorf("%s: the turn of %s was begun %d times", m.Handle, number, n)
		}
	}
	s.messages += len(came)
	s.reports += len(reported)
}

// history returns lines of the history of an agent.
func (m *member) history(t *testing.T, kinds ...state.LineKind) (lines []state.Line) {
	for l, err := range m.Store.History(kinds...) {
		if err != nil {
			t.Error(err)
			break
		}
		lines = append(lines, l)
	}
	return lines
}
