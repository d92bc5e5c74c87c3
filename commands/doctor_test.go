package commands

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// What the stamps on mail say about the settings. A name is suggested only
// where all mail bears it: a sender can write any.
func TestCheckStamps(t *testing.T) {
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
		level  string
		want   string // of the first finding
		hint   string
	}{
		{"proved", server, good, nil, levelOK, "2 of your last 2 mails proved by mx.example.org", ""},
		{"proved, and not called", server, good[1:], nil, levelOK, "put @goulard3120 into the subject", ""},
		{"proved by signature", dkim, good, nil, levelOK, "by a DKIM signature", ""},
		{"another name on all", server, refused, []string{"mx.other.net", "MX.other.net", "mx.other.net"}, levelWarn, "would be refused", `set authserv_id = "mx.other.net"`},
		{"another name on too few", server, refused, []string{"mx.evil.net", "mx.evil.net"}, levelWarn, "would be refused", `verify = "dkim"`},
		{"another name on some", server, refused, []string{"mx.evil.net", "", "mx.evil.net"}, levelWarn, "would be refused", `verify = "dkim"`},
		{"our name, and no pass", server, refused, []string{"mx.example.org", "mx.example.org", "mx.example.org"}, levelWarn, "would be refused", "was not content"},
		{"no proof, and you are asked", asking, refused, []string{"mx.other.net", "MX.other.net", "mx.other.net"}, levelWarn, "have answered for it", `set authserv_id = "mx.other.net"`},
		{"no signature", dkim, refused, []string{"x", "x", "x"}, levelWarn, "would be refused", "must sign"},
		{"a bounce", server, []mail.Trial{{Gate: mail.GateBounce, Reason: "r"}}, nil, levelInfo, "would be refused (bounce): r", "by hand"},
		{"none of the operator", server, nil, []string{"", ""}, levelInfo, "none of the last mails is yours", "send the agent a mail"},
		{"nothing is looked at", mail.Filter{Require: mail.RequireFrom}, good, nil, levelSkipped, "looks at none", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &patient{program: testProgram(), agent: &cycle.Agent{Handle: "goulard3120"}}
			got := d.checkStamps(tt.filter, mail.Probe{Trials: tt.trials, AuthservIDs: tt.stamps})[0]
			if got.Level != tt.level || !strings.Contains(got.Text, tt.want) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("got %+v; want %s with %q, hint %q", got, tt.level, tt.want, tt.hint)
			}
		})
	}
}

// What the state tells.
func TestCheckState(t *testing.T) {
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
			d := &patient{program: &program{loader: &config.Loader{Now: func() time.Time { return now }}}, agent: &cycle.Agent{}, state: s}
			var wrong []string
			for _, f := range append(d.checkState(t.Context()), d.checkClock(t.Context())...) {
				if f.Level != levelOK {
					wrong = append(wrong, f.Level+" "+f.Check)
				}
				if f.Level != levelOK && f.Hint == "" {
					t.Errorf("no hint: %+v", f)
				}
			}
			if got := strings.Join(wrong, ", "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
