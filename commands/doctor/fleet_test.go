package doctor

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state/store"
)

const fleetHost = "[fleet]\nhost = %q\n"

// load returns the agent of the fixture, on a host with that version of the program.
func (a *natsFixture) load(version string) *cycle.Agent {
	a.t.Helper()
	loader := &config.Loader{
		Account:    func() (account.Account, error) { return account.Account{Home: a.dir, Known: true}, nil },
		Executable: func() (string, error) { return "/bin/false", nil },
		Now:        time.Now, Secrets: &secret.Known{}, Version: version,
	}
	agent, err := loader.Load(filepath.Join(a.dir, "agent.toml"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(agent.Close)
	return agent
}

// TestFleetFindings checks the findings about an agent on several hosts, with a real server.
func TestFleetFindings(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "goulard3120", "dorlange3120")
	peer := fmt.Sprintf(peerConfig, e.Users["dorlange3120"].Public)
	const offline = `info peers: not online`
	alpha, beta := newNATSFixture(t, e), newNATSFixture(t, e)
	well := peer + fmt.Sprintf(fleetHost, "alpha")

	alpha.expect("not joined", well,
		`error fleet: \[fleet\] is set, but this host, alpha, has not joined; run .agentstateloop fleet join.`,
		`ok fleet: the servers have no state of @goulard3120 yet`, offline)
	if _, err := alpha.load("1.0").Seat.Join(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	alpha.expect("joined", well,
		`ok fleet: this host, alpha, acts \(term 1\); its lease of 2m30s ends in 2m`,
		`ok fleet: the state in the servers has [\d.]+ (bytes|KiB)`, `ok fleet: a read of the state in the servers takes`,
		`info fleet: no other host of @goulard3120 was seen within a week; copy agent.toml`, offline)

	beta.findings(peer + fmt.Sprintf(fleetHost, "beta"))
	standby := beta.load("9.9")
	if _, err := standby.Seat.Join(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := standby.Poll(t.Context(), cycle.PollOptions{}); !isStandby(err) {
		t.Fatal(err)
	}
	standby.Close() // sends the row of beta
	alpha.expect("another version", well,
		`warn fleet: beta runs version 9\.9, and this host ; seen .*; install the same version on both`, offline)
	beta.expect("standby", peer+fmt.Sprintf(fleetHost, "beta"),
		`ok fleet: alpha acts \(term 1\), with a lease of 2m30s, and gave a sign \d+s ago; this host, beta, is a standby`, offline)

	e.Ask("STREAM.DELETE."+fleet.HistoryStream, struct{}{}, nil)
	alpha.expect("no stream", well, `error fleet: no answer from `+fleet.HistoryStream+` \(`, `warn fleet: beta runs`, offline)
	e.Create()

	denied := regexp.MustCompile(`(?m)^.*"(\$KV\.asl-head\.goulard|asl\.hist\.goulard|asl\.file\.goulard|\$JS\.API\.DIRECT\.GET\.(KV_asl-head|ASL_HIST|ASL_FILE)\.).*\n`)
	e.Configure(func(text string) string { return denied.ReplaceAllString(text, "") })
	alpha.expect("no rights", well,
		`error fleet: the key lacks the rights for several hosts: it may not publish to \$KV\.asl-head\.goulard3120; .*; print a new server configuration`,
		`error fleet: .* the key lacks a right: .*; see the other lines about the mesh`, offline)
}

func isStandby(err error) bool {
	_, standby := errors.AsType[*seat.StandbyError](err)
	return standby
}

// TestFleetHeads checks the findings about a head that a person has to look at.
func TestFleetHeads(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "goulard3120")
	a := newNATSFixture(t, e)
	well := fmt.Sprintf(fleetHost, "alpha")
	a.findings(well)
	if _, err := a.load("").Seat.Join(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	admin := e.Conn("")
	if _, err := admin.Request(t.Context(), "$KV.asl-head.goulard3120", []byte("{}\n"), nil); err != nil {
		t.Fatal(err)
	}
	a.expect("unsigned", well, `error fleet: the state in the servers is not signed by the key of @goulard3120; find out`)
	e.Ask("STREAM.PURGE."+fleet.HeadStream, struct{}{}, nil)
	a.expect("forgotten", well, `error fleet: the servers have no state of @goulard3120; run .agentstateloop fleet join --replace. on the host that acted last`)
}

// TestSeatFindings checks the level and the words for each state of a seat.
func TestSeatFindings(t *testing.T) {
	now := time.Now()
	c := fleetCheck{agent: &cycle.Agent{Handle: "goulard3120", Seat: &seat.Seat{Host: "alpha", Handle: "goulard3120"}}, now: func() time.Time { return now }}
	lease := 150 * time.Second
	for name, test := range map[string]struct {
		view seat.View
		want string
	}{
		"holder":     {seat.View{Joined: true, Here: true, Known: true, Holder: "alpha", Term: 3, Lease: lease, Left: time.Minute}, `ok this host, alpha, acts \(term 3\); its lease of 2m30s ends in 1m`},
		"cut off":    {seat.View{Joined: true, Here: true, Known: true, CutOff: true, Term: 3, Lease: lease, Ago: 5 * time.Minute}, `error CUT OFF: this host, alpha, has not reached the servers since .* \(term 3\)`},
		"booted":     {seat.View{Joined: true, Here: true, CutOff: true, Term: 3, Lease: lease}, `warn .* no poll has reached the servers since`},
		"standby":    {seat.View{Joined: true, Known: true, Holder: "beta", Term: 3, Lease: lease, Ago: time.Minute}, `ok beta acts \(term 3\), with a lease of 2m30s, and gave a sign 1m ago; this host, alpha, is a standby`},
		"silent":     {seat.View{Joined: true, Known: true, Holder: "beta", Term: 3, Lease: lease, Ago: 5 * time.Minute}, `warn beta acts \(term 3\), but has been silent for 5m`},
		"released":   {seat.View{Joined: true, Known: true, Term: 3}, `warn no host acts: the seat was released \(term 3\)`},
		"started":    {seat.View{Joined: true, Holder: "beta", Term: 3, Lease: lease}, `ok beta acts \(term 3\); this host, alpha, is a standby, and has not looked since it started`},
		"trouble":    {seat.View{Joined: true, Trouble: seat.Forgot, Text: "THE SERVERS HAVE LOST IT"}, `error THE SERVERS HAVE LOST IT`},
		"not joined": {seat.View{Trouble: seat.NotJoined, Text: "THIS HOST"}, `error \[fleet\] is set, but this host, alpha, has not joined`},
	} {
		if f := c.seat(test.view); !regexp.MustCompile("^" + test.want).MatchString(string(f.Level) + " " + f.Text) {
			t.Errorf("%s: %s %s", name, f.Level, f.Text)
		}
	}
	for bytes, want := range map[int]Level{seat.WarnHead: OK, seat.WarnHead + 1: Warn} {
		if f := size(seat.View{Size: bytes}); f.Level != want {
			t.Errorf("%d bytes: %s %s", bytes, f.Level, f.Text)
		}
	}
	away := []mesh.HostSeen{{Host: "beta", SeenAt: now, Away: true, Version: "1"}, {Host: "gamma", SeenAt: now}}
	if found := c.others(away); len(found) != 2 || found[0].Level != Warn || found[1].Level != OK {
		t.Errorf("%+v", found)
	}
}

// TestFleetSettingFindings checks what is said about lease and auto in [fleet].
func TestFleetSettingFindings(t *testing.T) {
	for _, test := range []struct {
		seat seat.Seat
		mode string
		want string
	}{
		{seat.Seat{Lease: seat.DefaultLease, Auto: true}, cycle.ModeCrontab, ""},
		{seat.Seat{Lease: seat.DefaultLease - 1, Auto: true}, cycle.ModeCrontab, "warn"},
		{seat.Seat{Lease: seat.MinLease, Auto: true}, cycle.ModeNone, ""},
		{seat.Seat{Lease: seat.MinLease}, cycle.ModeSystemd, "warn info"},
	} {
		var levels []string
		for _, f := range (fleetCheck{agent: &cycle.Agent{Seat: &test.seat}, mode: test.mode}).settings() {
			levels = append(levels, string(f.Level))
		}
		if got := strings.Join(levels, " "); got != test.want {
			t.Errorf("%v, %s: %s", test.seat.Lease, test.mode, got)
		}
	}
}

// TestUnreadableBootClock checks that doctor names a host whose clock cannot measure a lease.
func TestUnreadableBootClock(t *testing.T) {
	s := &seat.Seat{
		Host: "alpha", Store: &store.Store{Dir: t.TempDir()},
		Clock: func() (string, time.Duration, error) { return "", 0, errors.New("open boot_id: permission denied") },
	}
	found := fleetCheck{agent: &cycle.Agent{Seat: s, Mesh: &cycle.Mesh{Carrier: &natsmesh.Client{}}}, now: time.Now}.run(t.Context())
	if len(found) != 1 || found[0].Level != Error || !strings.Contains(found[0].Text, "boot clock: open boot_id: permission denied") {
		t.Errorf("%+v", found)
	}
}
