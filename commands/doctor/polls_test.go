package doctor

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/state"
)

// TestNoMailHintsWithoutMail checks that an agent without mail gets no hint about mail.
func TestNoMailHintsWithoutMail(t *testing.T) {
	now := time.Now()
	for _, hasMail := range []bool{true, false} {
		found := pollsCheck{config: new(config.Config), state: state.New("a", "seed"), now: func() time.Time { return now }, hasMail: hasMail}.run(t.Context())
		if got := strings.Contains(found[0].Hint, "mail"); got != hasMail || !strings.Contains(found[0].Hint, "--dry-run") {
			t.Errorf("with mail %v: %q", hasMail, found[0].Hint)
		}
	}
}

// TestChecksCountedOnce checks that each check is counted and listed once, by its worst level.
func TestChecksCountedOnce(t *testing.T) {
	found := []Finding{good("a", "fine"), bad(Warn, "a", "h", "odd"), good("b", "fine"), good("b", "also"), bad(Error, "c", "h", "bad"), bad(Warn, "c", "h", "odd"), bad(Info, "d", "h", "look"), good("d", "fine")}
	var out bytes.Buffer
	if err := Print(&terminal.Output{Stdout: &out}, found, Trouble); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "1 check is ok: b\n") || !strings.Contains(got, "1 check is worth a look: d;") {
		t.Errorf("printed:\n%s", got)
	}
	for level, want := range map[Level]int{OK: 1, Info: 1, Warn: 1, Error: 1} {
		if got := Count(found, level); got != want {
			t.Errorf("%s: %d checks, want %d", level, got, want)
		}
	}
}

// TestPollFindings checks the findings about the state and the clock. Each finding that
// is not ok has a hint.
func TestPollFindings(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		set  func(*state.State)
		want string // level and check of each finding that is not ok
	}{
		{"all is well", func(*state.State) {}, ""},
		{"never polled", func(s *state.State) { s.NextDue = time.Time{} }, "info polls"},
		{"a minute late", func(s *state.State) { s.NextDue = now.Add(-time.Minute) }, ""},
		{"an hour late", func(s *state.State) { s.NextDue = now.Add(-time.Hour) }, "warn polls"},
		{"halted", func(s *state.State) { s.HaltedMesh = true }, "warn halt"},
		{"a credential fails", func(s *state.State) { s.Credentials = map[string]state.Credential{"imap": {Failures: 1}} }, "warn credentials"},
		{"quarantined", func(s *state.State) { s.Quarantined = 1 }, "info quarantine"},
		{"lost", func(s *state.State) { s.Undelivered = make([]state.Effect, 2) }, "warn outbox"},
		{"two machines", func(s *state.State) { s.Elsewhere.Sign = state.Sign{Host: "mars", At: now.Add(-time.Hour)} }, "warn machines"},
		{"two machines the day before", func(s *state.State) { s.Elsewhere.Sign = state.Sign{Host: "mars", At: now.Add(-25 * time.Hour)} }, ""},
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
