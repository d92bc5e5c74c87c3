package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/state"
	"agentstateloop/turn"
)

func TestLimits(t *testing.T) {
	letters := func(n int64) string { return strings.Repeat("é", int(n)) }
	limittest.Run(t, []limittest.Limit{
		{Const: "maxText", Max: 4096, Within: func(_ *testing.T, n int64) bool { return tame(Agent{Handle: letters(n)}, nil).Handle == letters(n) }},
		{Const: "entryText", Max: 500, Within: func(_ *testing.T, n int64) bool {
			return entryOf(nil, state.Line{}, func() (string, string) { return letters(n), "" }).Text == letters(n)
		}},
		{Const: "maxMessages", Max: 100, Within: func(_ *testing.T, n int64) bool {
			_, more := messages(slices.Repeat([]view.InboxRow{{Status: view.RowFetching}}, int(n)), state.State{}, state.Policy{}, morning)
			return more == 0
		}},
		{Const: "maxPlanned", Max: 50, Within: func(_ *testing.T, n int64) bool {
			_, more := planned(view.Status{Self: view.StatusSelf{Wakeups: make([]view.Wakeup, n)}}, time.Time{})
			return more == 0
		}},
		{Const: "maxSteps", Max: 20, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			var feed bytes.Buffer
			for i := range n {
				json.NewEncoder(&feed).Encode(turn.Step{N: int(i), Kind: turn.StepText})
			}
			if err := os.WriteFile(filepath.Join(dir, "feed.jsonl"), feed.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			var s steps
			s.read(dir)
			return len(s.last) == int(n)
		}},
		{Const: "recentEntries", Max: 50, Within: func(t *testing.T, n int64) bool {
			s := newStage(t)
			for i := range n {
				_, err := s.agent.Tell(context.Background(), "you", fmt.Sprint(i))
				s.check(err)
			}
			return len(s.document().History) == int(n)
		}},
		{Const: "maxQuarantined", Max: 50, Within: func(t *testing.T, n int64) bool {
			s := newStage(t)
			for i := range n {
				s.keep(fmt.Sprint("mail:", i), "Subject: x\r\n\r\nx")
			}
			return s.document().More.Quarantine == 0
		}},
		{Const: "quarantinedText", Max: 2000, Within: func(t *testing.T, n int64) bool {
			s := newStage(t)
			s.keep("mail:1", "Content-Type: text/plain; charset=utf-8\r\n\r\n"+letters(n))
			return s.document().Quarantine[0].Text == letters(n)
		}},
	})
}

// keep puts a mail into quarantine, without the history.
func (s *stage) keep(key, raw string) {
	s.t.Helper()
	before, err := s.agent.Store.Read()
	s.check(err)
	in := quarantine.NewIntake(quarantine.Folder{Store: s.agent.Store}, s.agent.Store, before, s.agent.Now, func(state.Source, string) bool { return true })
	v := quarantine.Verdict{Key: key, Source: state.Mail, From: "eve@" + strings.ReplaceAll(key, ":", "") + ".net", Gate: "trust", Reason: "not signed", At: s.now.Add(-time.Minute)}
	unkept, err := in.Keep(v, "", int64(len(raw)), strings.NewReader(raw))
	s.check(err)
	if unkept {
		s.t.Fatal("the quarantine is full")
	}
}
