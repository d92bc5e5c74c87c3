package state

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

var benchNow = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)

// plainPoll is what a poll that found nothing tells the machine.
func plainPoll() []Event {
	return []Event{
		Looked{Source: Mail, Cursor: &Cursor{Mailbox: "box", Validity: 7, Next: 42, Complete: benchNow}},
		Looked{Source: Mesh}, NudgeFiles{}, Polled{},
	}
}

// waiting is an agent in whose inbox n messages wait.
func waiting(n int) State {
	var events []Event
	for i := range n {
		key := fmt.Sprintf("mail:0123456789abcdef.7.%d", i)
		events = append(events, Arrived{
			Message: Message{Key: key, Source: Mail, From: "op@example.com", Operator: true, At: benchNow, Payload: PayloadName(MessagesDir, key, ".eml")},
			Digest:  hashHex(key),
		})
	}
	return Step(New("goulard3120", "seed"), append(events, Polled{}), testPolicy(), benchNow)
}

// sizes are numbers of messages that wait: an empty state, an ordinary one, and
// the most there may be.
var sizes = []int{0, 6, 1000}

func BenchmarkStepPlainPoll(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			s, events, p := waiting(n), plainPoll(), testPolicy()
			b.ReportAllocs()
			for b.Loop() {
				Step(s, events, p, benchNow)
			}
		})
	}
}

func commit(b *testing.B, st *Store, change func(State) State) {
	b.Helper()
	_, err := st.Commit(context.Background(), benchNow, func(s State, _ Recovery) (State, error) { return change(s), nil })
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			st := &Store{Dir: filepath.Join(b.TempDir(), "agent"), Agent: "goulard3120"}
			commit(b, st, func(State) State { return waiting(n) })
			events, p := plainPoll(), testPolicy()
			for b.Loop() {
				commit(b, st, func(s State) State { return Step(s, events, p, benchNow) })
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			st := &Store{Dir: filepath.Join(b.TempDir(), "agent"), Agent: "goulard3120"}
			commit(b, st, func(State) State { return waiting(n) })
			commit(b, st, func(s State) State { return Step(s, plainPoll(), testPolicy(), benchNow) })
			b.ReportAllocs()
			for b.Loop() {
				if _, err := st.Read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
