package present

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// TestFleetRows checks what status says about the seat, in a row and in a few words.
func TestFleetRows(t *testing.T) {
	now := time.Date(2026, time.January, 5, 12, 0, 0, 0, time.Local)
	at := func(d time.Duration) *time.Time { t := now.Add(d); return &t }
	text := func(s string) *string { return &s }
	for _, test := range []struct {
		fleet      view.StatusFleet
		row, brief string
	}{
		{view.StatusFleet{Host: "alpha", Acts: true, Holder: text("alpha"), Term: 3, SeenAt: at(-20 * time.Second), LeaseEnd: at(130 * time.Second)},
			"fleet: this host, alpha, acts (term 3), lease left 2m10s", "acts on alpha"},
		{view.StatusFleet{Host: "alpha", Acts: true, CutOff: true, Term: 3, SeenAt: at(-5 * time.Minute), LeaseEnd: at(-150 * time.Second)},
			"CUT OFF: this host, alpha, has not reached the servers since 11:55:00 (5m ago): nothing begins here until it does, and another host may act (term 3)", "CUT OFF"},
		{view.StatusFleet{Host: "alpha", Acts: true, CutOff: true, Term: 3},
			"CUT OFF: this host, alpha, holds the seat (term 3), but nothing begins before a poll reaches the servers", "CUT OFF"},
		{view.StatusFleet{Host: "alpha", Auto: true, Holder: text("beta\x1b[2J"), Term: 7, SeenAt: at(-12 * time.Second)},
			"STANDBY: beta [2J acts (term 7, seen 12s ago); this host, alpha, takes over if beta [2J falls silent", "STANDBY, beta [2J acts"},
		{view.StatusFleet{Host: "alpha", Holder: text("beta"), Term: 7},
			"STANDBY: beta acts (term 7); this host, alpha, takes over only by `agentstateloop fleet take`", "STANDBY, beta acts"},
		{view.StatusFleet{Host: "alpha", Term: 7},
			"STANDBY: no host acts (term 7): the seat was released; the next poll of a host takes it, or `agentstateloop fleet take`", "STANDBY, no host acts"},
		{view.StatusFleet{Host: "alpha", To: text("gamma"), Term: 7},
			"STANDBY: no host acts (term 7): the seat was released to gamma", "STANDBY, no host acts"},
		{view.StatusFleet{Host: "alpha", Trouble: text("THE SERVERS HAVE LOST THE STATE OF g: look")},
			"FLEET: THE SERVERS HAVE LOST THE STATE OF g: look", "THE SERVERS HAVE LOST THE STATE OF g"},
	} {
		p := &statusPage{now: now}
		fleetRow(p.row, &test.fleet, now)
		if len(p.rows) != 1 || p.rows[0].Label+": "+p.rows[0].Text != test.row {
			t.Errorf("%+v\nwant %s", p.rows, test.row)
		}
		if trouble := strings.HasPrefix(test.row, "fleet"); p.rows[0].IsTrouble() == trouble {
			t.Errorf("%s: trouble is %v", test.row, !trouble)
		}
		if got := fleetBrief(test.fleet); got != test.brief {
			t.Errorf("in a few words: %s, want %s", got, test.brief)
		}
	}
}

// TestStandbyShowsNoPolls checks that the status of a standby does not show the polls of the host
// that acts as its own.
func TestStandbyShowsNoPolls(t *testing.T) {
	now := time.Date(2026, time.January, 5, 12, 0, 0, 0, time.Local)
	late := now.Add(-time.Hour)
	s := view.Status{Agent: "goulard3120", Phase: state.IDLE, NextDue: &late, Fleet: &view.StatusFleet{Host: "beta", Acts: true}}
	shown := func() string {
		return Status(plainFitter{}, s, "crontab", false, now) + strings.Join(Brief(s, now), ", ")
	}
	if got := shown(); strings.Count(got, "OVERDUE") != 2 {
		t.Errorf("the host that acts: %s", got)
	}
	s.Fleet.Acts = false
	if got := shown(); strings.Contains(got, "OVERDUE") || strings.Contains(got, "schedule") {
		t.Errorf("a standby: %s", got)
	}
	if s.NextDue = nil; strings.Contains(shown(), "never polled") {
		t.Errorf("a new standby: %s", shown())
	}
}

type plainFitter struct{}

func (plainFitter) Fit(line string, _ int) string      { return line }
func (plainFitter) FitWords(text string, _ int) string { return text }

// TestHostRows checks the row of each host.
func TestHostRows(t *testing.T) {
	now := time.Date(2026, time.January, 5, 12, 0, 0, 0, time.Local)
	for _, test := range []struct {
		host mesh.HostSeen
		want string
	}{
		{mesh.HostSeen{Host: "alpha", SeenAt: now, Version: "0.15.0"}, "  alpha|acts|seen 12:00:00|0.15.0"},
		{mesh.HostSeen{Host: "beta", SeenAt: now}, "  beta|standby|seen 12:00:00|unknown version"},
		{mesh.HostSeen{Host: "gamma", SeenAt: now, Away: true}, "  gamma|AWAY|seen 12:00:00|unknown version"},
	} {
		if got := strings.Join(HostRow(test.host, "alpha", now), "|"); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}
