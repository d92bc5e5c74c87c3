package state_test

import (
	"testing"
	"time"

	"agentstateloop/state"
)

// TestRetryHasItsOrigin checks that the history says of each kind of retry that it was ordered on the
// page, and that the message then waits for its turn.
func TestRetryHasItsOrigin(t *testing.T) {
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	row := func(change func(*state.Message)) state.Message {
		m := state.Message{Key: "mail:1", Source: state.Mail, From: "you@example.com", Operator: true, Status: state.Deferred, Reason: "later", At: now, NextRetryAt: now.Add(time.Hour)}
		change(&m)
		return m
	}
	for name, message := range map[string]state.Message{
		"a deferred message": row(func(*state.Message) {}),
		"a held message":     row(func(m *state.Message) { m.Held, m.Status = true, state.Queued }),
		"a wakeup":           row(func(m *state.Message) { m.Source, m.Kind, m.MadeBy = state.Self, state.KindReminder, "t0" }),
		"one that was over":  row(func(m *state.Message) { m.Status, m.NextRetryAt = state.Consumed, time.Time{} }),
	} {
		for _, origin := range []string{"", state.OnPage} {
			s := state.State{}
			if message.Status != state.Consumed {
				s.Inbox = []state.Message{message}
			}
			s = state.Step(s, []state.Event{state.Retried{Message: message, Origin: origin}}, state.Policy{}, now)
			said := 0
			for _, l := range s.Lines {
				if l.What == state.WordRetried && l.Key == message.Key && l.Reason == state.OnPage {
					said++
				}
			}
			want := map[string]int{"": 0, state.OnPage: 1}[origin]
			if said != want {
				t.Errorf("%s, origin %q: %d lines say it, want %d: %+v", name, origin, said, want, s.Lines)
			}
			if m, ok := s.Message(message.Key); !ok || m.Held || m.NextRetryAt.After(now) {
				t.Errorf("%s: the message is %+v", name, m)
			}
		}
	}
}
