package fleettrial_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// copyTrials are what happens to copies of a host's directory.
var copyTrials = []struct {
	name string
	run  func(*copyTrial)
}{
	{"a third host is started from a copy made during a turn", func(c *copyTrial) { c.startCopy("gamma") }},
	{"a machine is cloned during a turn, with its name", func(c *copyTrial) { c.startCopy("alpha") }},
	{"an old copy is put back on the host that acts", func(c *copyTrial) { c.putBack(c.hosts[:1]) }},
	{"old copies are put back on both hosts", func(c *copyTrial) { c.putBack(c.hosts) }},
}

// TestCopies starts copies of state directories that were made in the middle of a turn. They find
// the newer state in the servers and become standbys: no turn runs twice, and no answer leaves
// twice.
func TestCopies(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	var handles []string
	for n := range copyTrials {
		handles = append(handles, "agent"+string(rune('0'+n)))
	}
	e := newServers(t, handles...)
	d := newDesk(t, e)
	t.Run("trials", func(t *testing.T) {
		for n, trial := range copyTrials {
			t.Run(trial.name, func(t *testing.T) {
				t.Parallel()
				c := &copyTrial{newAgent(t, e, d, handles[n], 40)}
				for _, h := range c.hosts {
					h.cron()
				}
				trial.run(c)
				c.rest()
				c.check()
				c.ranOnce()
			})
		}
	})
}

// copyTrial is one of them.
type copyTrial struct{ *agent }

// inTurn gives the agent an order and waits until it works on it.
func (c *copyTrial) inTurn() (number string) {
	number = c.order(c.t.Context())
	until(c.t, takeoverMargin, "the agent works", func() bool { return c.lives(number) })
	return number
}

func (c *copyTrial) reported(number string) {
	until(c.t, lapse+orphan+2*takeoverMargin, "the report of "+number, func() bool { return len(c.desk.reports(number)) > 0 })
}

// startCopy copies the directory of alpha during a turn, and starts the copy as another host.
func (c *copyTrial) startCopy(name string) {
	first := c.inTurn()
	gamma := c.add(filepath.Join(filepath.Dir(c.hosts[0].dir), "gamma"), "gamma", shortTenths)
	c.copyTable(c.hosts[0], gamma)
	copyState(c.t, c.hosts[0].dir, gamma.dir)
	if name != gamma.name {
		gamma.rename(name)
	}
	gamma.cron()
	c.reported(first)
	c.reported(c.order(c.t.Context()))
	if s := gamma.seat(); s.Holds || s.Head.Term != 1 {
		c.t.Errorf("the copy knows: %+v", s)
	}
	if s := c.hosts[0].seat(); !s.Holds {
		c.t.Errorf("alpha knows: %+v", s)
	}
	for _, s := range signs(c.t, c.life) {
		if s.host == gamma.name {
			c.t.Fatalf("an agent works on the copy: %+v", s)
		}
	}
}

// putBack copies the directories of hosts during a turn, lets the turn and another one end, kills
// the hosts, and starts them from the copies.
func (c *copyTrial) putBack(hosts []*host) {
	first := c.inTurn()
	for _, h := range hosts {
		copyState(c.t, h.dir, filepath.Join(h.dir, "copy"))
	}
	c.reported(first)
	c.reported(c.order(c.t.Context()))
	for _, h := range hosts {
		h.kill()
	}
	for _, h := range hosts {
		if err := os.RemoveAll(filepath.Join(h.dir, "state")); err != nil {
			c.t.Fatal(err)
		}
		copyState(c.t, filepath.Join(h.dir, "copy"), h.dir)
		h.cron()
	}
	number := c.order(c.t.Context())
	until(c.t, lapse+2*pollEvery+takeoverMargin, "a host takes the seat", func() bool {
		h, term := c.holder()
		return h != nil && term == 2
	})
	c.reported(number)
}

// ranOnce checks that each order had one turn.
func (c *copyTrial) ranOnce() {
	type turn struct {
		host string
		pid  int
	}
	turns := map[string]map[turn]bool{}
	for _, s := range signs(c.t, c.life) {
		if turns[s.order] == nil {
			turns[s.order] = map[turn]bool{}
		}
		turns[s.order][turn{s.host, s.pid}] = true
	}
	for number, of := range turns {
		if len(of) != 1 {
			c.t.Errorf("order %s had %d turns: %v", number, len(of), of)
		}
	}
}

// copyState copies the state directory of one folder to another folder.
func copyState(t testing.TB, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	// Files come and go meanwhile.
	out, err := exec.Command("cp", "-a", filepath.Join(from, "state"), to).CombinedOutput()
	if err != nil && strings.Count(string(out), "\n") != strings.Count(string(out), "No such file") {
		t.Fatalf("cp: %v\n%s", err, out)
	}
}

// rename gives the host another name in the fleet.
func (h *host) rename(name string) {
	h.t.Helper()
	file := filepath.Join(h.dir, "agent.toml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), `host = "`+h.name+`"`, `host = "`+name+`"`, 1)), 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}
