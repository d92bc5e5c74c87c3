package doctor

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/state"
)

// TestPolls checks the findings about the state and the clock. Each finding that
// is not ok has a hint.
func TestPolls(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		set  func(*state.State)
		want string // level and check of what is not ok
	}{
		{"all is well", func(*state.State) {}, ""},
		{"never polled", func(s *state.State) { s.NextDue = time.Time{} }, "info polls"},
		{"a minute late", func(s *state.State) { s.NextDue = now.Add(-time.Minute) }, ""},
		{"an hour late", func(s *state.State) { s.NextDue = now.Add(-time.Hour) }, "warn polls"},
		{"halted", func(s *state.State) { s.HaltedMesh = true }, "warn halt"},
		{"a credential fails", func(s *state.State) { s.Credentials = map[string]state.Credential{"imap": {Failures: 1}} }, "warn credentials"},
		{"quarantined", func(s *state.State) { s.Quarantined = 1 }, "info quarantine"},
		{"lost", func(s *state.State) { s.Undelivered = make([]state.Effect, 2) }, "warn outbox"},
		{"the clock was set back", func(s *state.State) { s.LastStep = now.Add(time.Hour) }, "warn clock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state.New("a", "seed")
			s.LastStep, s.NextDue = now.Add(-time.Minute), now.Add(time.Minute)
			tt.set(&s)
			clock := func() time.Time { return now }
			checks := []check{pollsCheck{config: new(config.Config), state: s, now: clock}, clockCheck{lastStep: s.LastStep, now: clock}}
			var wrong []string
			var found []Finding
			for _, c := range checks {
				found = append(found, c.run(t.Context())...)
			}
			for _, f := range found {
				if f.Level != OK {
					wrong = append(wrong, string(f.Level)+" "+f.Check)
				}
				if f.Level != OK && f.Hint == "" {
					t.Errorf("no hint: %+v", f)
				}
			}
			if want := "the last change was 1m ago, the next poll is due in 1m"; tt.name == "all is well" && found[0].Text != want {
				t.Errorf("got %q, want %q", found[0].Text, want)
			}
			if got := strings.Join(wrong, ", "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
