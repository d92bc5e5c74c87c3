package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

var benchNow = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)

// plainPoll returns the events of a poll without news.
func plainPoll() []state.Event {
	return []state.Event{
		state.SourceRead{Source: state.Mail, Cursor: &state.Cursor{Mailbox: "box", Validity: 7, Next: 42, Complete: benchNow}},
		state.SourceRead{Source: state.Mesh}, state.NudgeFiles{}, state.Polled{},
	}
}

// stateWithInbox returns the state of an agent with n messages in its inbox.
func stateWithInbox(n int) state.State {
	var events []state.Event
	for i := range n {
		key := fmt.Sprintf("mail:0123456789abcdef.7.%d", i)
		events = append(events, state.Arrived{
			Message: state.Message{Key: key, Source: state.Mail, From: "op@example.com", Operator: true, At: benchNow, Payload: PayloadName(MessagesDir, key, ".eml")},
			Digest:  hashHex(key),
		})
	}
	return state.Step(state.New("goulard3120", "seed"), append(events, state.Polled{}), statetest.Policy(), benchNow)
}

// sizes are numbers of waiting messages: zero, a usual number, and the maximum.
var sizes = []int{0, 6, 1000}

func BenchmarkStepPlainPoll(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			s, events, p := stateWithInbox(n), plainPoll(), statetest.Policy()
			b.ReportAllocs()
			for b.Loop() {
				state.Step(s, events, p, benchNow)
			}
		})
	}
}

func commit(b *testing.B, st *Store, change func(state.State) state.State) {
	b.Helper()
	_, err := st.Commit(context.Background(), benchNow, func(s state.State, _ Recovery) (state.State, error) { return change(s), nil })
	check(b, err)
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			st := &Store{Dir: filepath.Join(b.TempDir(), "agent"), Agent: "goulard3120"}
			commit(b, st, func(state.State) state.State { return stateWithInbox(n) })
			events, p := plainPoll(), statetest.Policy()
			for b.Loop() {
				commit(b, st, func(s state.State) state.State { return state.Step(s, events, p, benchNow) })
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			st := &Store{Dir: filepath.Join(b.TempDir(), "agent"), Agent: "goulard3120"}
			commit(b, st, func(state.State) state.State { return stateWithInbox(n) })
			commit(b, st, func(s state.State) state.State { return state.Step(s, plainPoll(), statetest.Policy(), benchNow) })
			b.ReportAllocs()
			for b.Loop() {
				if _, err := st.Read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
