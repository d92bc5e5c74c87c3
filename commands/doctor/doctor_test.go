package doctor

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
)

// TestStamps: what the stamps on mail say about the settings. A name is
// suggested only where all mail bears it, because a sender can write any.
func TestStamps(t *testing.T) {
	server := mail.Filter{Require: mail.RequireDMARC, AuthservID: "mx.example.org"}
	dkim := mail.Filter{Require: mail.RequireDMARC, Verify: mail.VerifyDKIM}
	asking := mail.Filter{Require: mail.RequireDMARC, AuthservID: "mx.example.org", Fallback: true}
	refused := []mail.Trial{{ForUs: true, Gate: mail.GateTrust, Reason: "the first field is not of it"}}
	good := []mail.Trial{{ForUs: true}, {}}
	for _, tt := range []struct {
		name   string
		filter mail.Filter
		trials []mail.Trial
		stamps []string
		level  Level
		want   string // of the first finding
		hint   string
	}{
		{"proved", server, good, nil, OK, "2 of your last 2 mails proved by mx.example.org", ""},
		{"proved, and not called", server, good[1:], nil, OK, "put @goulard3120 into the subject", ""},
		{"proved by signature", dkim, good, nil, OK, "by a DKIM signature", ""},
		{"another name on all", server, refused, []string{"mx.other.net", "MX.other.net", "mx.other.net"}, Warn, "would be rejected", `set authserv_id = "mx.other.net"`},
		{"another name on too few", server, refused, []string{"mx.evil.net", "mx.evil.net"}, Warn, "would be rejected", `verify = "dkim"`},
		{"another name on some", server, refused, []string{"mx.evil.net", "", "mx.evil.net"}, Warn, "would be rejected", `verify = "dkim"`},
		{"our name, and no pass", server, refused, []string{"mx.example.org", "mx.example.org", "mx.example.org"}, Warn, "would be rejected", "did not pass"},
		{"no proof, and you are asked", asking, refused, []string{"mx.other.net", "MX.other.net", "mx.other.net"}, Warn, "have confirmed it", `set authserv_id = "mx.other.net"`},
		{"no signature", dkim, refused, []string{"x", "x", "x"}, Warn, "would be rejected", "must sign"},
		{"a bounce", server, []mail.Trial{{Gate: mail.GateBounce, Reason: "r"}}, nil, Info, "would be rejected (bounce): r", "by hand"},
		{"none of the operator", server, nil, []string{"", ""}, Info, "none of the last mails is yours", "send the agent a mail"},
		{"nothing is looked at", mail.Filter{Require: mail.RequireFrom}, good, nil, Skipped, "looks at none", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := stampsCheck{filter: tt.filter, probe: mail.Probe{Trials: tt.trials, AuthservIDs: tt.stamps}, handle: "goulard3120"}
			got := c.findings()[0]
			if got.Level != tt.level || !strings.Contains(got.Text, tt.want) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("got %+v; want %s with %q, hint %q", got, tt.level, tt.want, tt.hint)
			}
		})
	}
}

// TestPolls: what the state says is a finding, with a hint unless it is ok.
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
		{"lost", func(s *state.State) { s.Undeliverable = 2 }, "warn outbox"},
		{"the clock was set back", func(s *state.State) { s.LastStep = now.Add(time.Hour) }, "warn clock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state.New("a", "seed")
			s.LastStep, s.NextDue = now.Add(-time.Minute), now.Add(time.Minute)
			tt.set(&s)
			clock := func() time.Time { return now }
			checks := []check{pollsCheck{state: s, now: clock}, clockCheck{lastStep: s.LastStep, now: clock}}
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
			if got := strings.Join(wrong, ", "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
