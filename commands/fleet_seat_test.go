package commands

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/state/store"
)

// TestFleetJoinWithoutServers checks the advice if the servers were set up for one host, or do not
// answer.
func TestFleetJoinWithoutServers(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "goulard3120")
	dir := tempDir(t)
	writeFile(t, filepath.Join(dir, "key"), e.Users["goulard3120"].Seed+"\n")
	path := writeFile(t, filepath.Join(dir, "agent.toml"), fmt.Sprintf("[agent]\nhandle = \"goulard3120\"\nstate_dir = \"state\"\n[turn]\nrunner = \"none\"\n[timing]\nnetwork_timeout = \"2s\"\n"+
		noSchedule+"[mesh]\nurl = %q\nkey_file = \"key\"\n[fleet]\nhost = \"alpha\"\n", e.URL()))
	join := func(step, want string, code int) {
		t.Helper()
		if got, out := runInProcess(t, testProgram(), "--config", path, "fleet", "join"); got != code || !strings.Contains(out, want) {
			t.Errorf("%s: exits %d: %s", step, got, out)
		}
	}
	e.Ask("STREAM.DELETE."+fleet.HeadStream, struct{}{}, nil)
	join("no stream", "or the streams do not exist (agentstateloop fleet create)", exitError)
	e.Create()
	join("with the stream", "this host, alpha, acts (term 1)", exitDone)
	denied := regexp.MustCompile(`(?m)^.*"(\$KV\.asl-head\.goulard|\$JS\.API\.DIRECT\.GET\.KV_asl-head\.).*\n`)
	e.Configure(func(text string) string { return denied.ReplaceAllString(text, "") })
	join("no rights", "hint: `agentstateloop fleet key` shows the public key of this agent: pass it to `agentstateloop fleet plan`", exitError)
	e.Servers[0].Kill()
	join("no server", "connection refused", exitError)
}

// TestWhyTakeWaits checks the reasons that fleet take prints.
func TestWhyTakeWaits(t *testing.T) {
	p := testProgram()
	c := &call{program: p}
	a := &cycle.Agent{Handle: "goulard3120", Store: &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}}
	a.Seat = &seat.Seat{Handle: a.Handle, Host: "beta", Store: a.Store, Clock: func() (string, time.Duration, error) { return "boot", time.Hour, nil }}
	record := `{"version":1,"host":"beta","boot":"boot","seen":{"revision":3,"term":2,"host":"alpha","lease":150000000000,"first":3500000000000}}` + "\n"
	if err := a.Store.KeepIdentified(seat.RecordFile, []byte(record)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{&seat.StandbyError{Holder: "alpha", Term: 2, Ago: 89 * time.Second}, "alpha acts for @goulard3120 (term 2): asked it to release the seat, which its next poll does"},
		{&seat.StandbyError{Holder: "alpha", Term: 2, Ago: 91 * time.Second}, "alpha acts for @goulard3120 (term 2), and is silent: this host acts when 2m36s have passed without a sign of it"},
		{&seat.StandbyError{To: "gamma", Term: 2}, "the seat was released to gamma: this host acts if gamma does not"},
		{errors.New("timeout"), "the servers do not answer: timeout"},
	} {
		if got := c.whyWaits(a, test.err); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}
