package fleettrial_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

// boss is who writes to the agents and gets their reports.
const boss = "boss"

// newServers starts three servers for the boss and the agents.
func newServers(t testing.TB, handles ...string) *fleettest.Engine {
	return fleettest.StartCluster(t, append([]string{boss}, handles...)...)
}

// agent is an agent on two hosts, alpha and beta, and its boss.
type agent struct {
	t       testing.TB
	handle  string
	engine  *fleettest.Engine
	desk    *desk
	hosts   []*host
	life    string // the file in which the agents note that they live
	written []string
}

// settingUp has a place for each agent that is made at the same time.
var settingUp = make(chan struct{}, 2)

// newAgent makes an agent on the hosts alpha, which has the seat, and beta. Its turns take some
// tenths of a second. No cron runs yet.
func newAgent(t testing.TB, e *fleettest.Engine, d *desk, handle string, tenths int) *agent {
	t.Helper()
	settingUp <- struct{}{}
	defer func() { <-settingUp }()
	a := newHosts(t, e, d, handle, tenths, "alpha", "beta")
	a.hosts[0].run("fleet", "join")
	a.hosts[0].run("poll") // it installs the crontab line
	a.hosts[1].run("init") // it joins and installs the line
	return a
}

// newHosts makes the directories of an agent's hosts.
func newHosts(t testing.TB, e *fleettest.Engine, d *desk, handle string, tenths int, names ...string) *agent {
	t.Helper()
	dir := t.TempDir()
	a := &agent{t: t, handle: handle, engine: e, desk: d, life: filepath.Join(dir, "life")}
	for _, name := range names {
		a.add(filepath.Join(dir, name), name, tenths)
	}
	return a
}

// add adds a host.
func (a *agent) add(dir, name string, tenths int) *host {
	a.t.Helper()
	w := newWire(a.t, a.engine.Servers)
	mesh := fmt.Sprintf("[mesh]\nurl = %q\nkey_file = \"key\"\npeers = [%q]\n[mesh.keys]\n%s = %q\n", w.url(), boss, boss, a.engine.Users[boss].Public)
	h := newHost(a.t, dir, a.handle, name, mesh, a.life, tenths)
	h.wire = w
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(a.engine.Users[a.handle].Seed+"\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	a.hosts = append(a.hosts, h)
	return h
}

// copyTable gives a host the crontab line of another one.
func (a *agent) copyTable(from, to *host) {
	a.t.Helper()
	table, err := os.ReadFile(filepath.Join(from.dir, "crontab.table"))
	if err == nil {
		err = os.WriteFile(filepath.Join(to.dir, "crontab.table"), []byte(strings.ReplaceAll(string(table), from.dir, to.dir)), 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// load returns the agent of a host, wired as the program wires it.
func load(t testing.TB, dir string) *cycle.Agent {
	t.Helper()
	l := &config.Loader{
		Environ:    []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")},
		Account:    func() (account.Account, error) { return account.Account{Home: dir, Known: true}, nil },
		Executable: func() (string, error) { return program, nil },
		Version:    "trial", Now: time.Now, Secrets: new(secret.Known),
	}
	a, err := l.Load(filepath.Join(dir, "agent.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// order sends the agent a message, and returns its number.
func (a *agent) order(ctx context.Context) string {
	a.t.Helper()
	number := fmt.Sprintf("%s.%d", a.handle, len(a.written))
	a.written = append(a.written, number)
	a.desk.send(ctx, a.t, a.handle, number)
	return number
}

// holder returns the host that has the seat, as far as it knows, and its term; nil: none.
func (a *agent) holder() (h *host, term uint64) {
	for _, c := range a.hosts {
		if s := c.seat(); s.Holds && s.Head.Term > term {
			h, term = c, s.Head.Term
		}
	}
	return h, term
}

// check checks that each order was answered once, and that no two turns of an agent overlap.
func (a *agent) check() {
	a.t.Helper()
	a.checkReports()
	for _, o := range overlaps(signs(a.t, a.life)) {
		a.t.Error(o)
	}
}

// checkReports checks that each order was answered once, after one turn.
func (a *agent) checkReports() {
	a.t.Helper()
	for _, number := range a.written {
		if got := a.desk.reports(number); len(got) != 1 {
			a.t.Errorf("order %s has %d reports: %q", number, len(got), got)
		}
	}
	h, _ := a.holder()
	if h == nil {
		a.t.Errorf("nobody holds the seat of %s", a.handle)
		return
	}
	tasks := map[string]int{}
	for l, err := range h.store().History() {
		if err != nil {
			a.t.Fatal(err)
		}
		if l.Kind == state.LineTask {
			tasks[l.Key]++
		}
	}
	for _, number := range a.written {
		if key := (mesh.Message{From: boss, ID: number}).Key(); tasks[key] != 1 {
			a.t.Errorf("order %s has %d turns that ended", number, tasks[key])
		}
	}
	if audit, err := h.store().Audit(); err != nil || len(audit.Breaks) > 0 {
		a.t.Errorf("the history of %s has breaks: %v, %v", a.handle, audit.Breaks, err)
	}
}

// overlaps returns the pairs of agents that lived at the same time.
func overlaps(all []sign) (found []string) {
	type life struct {
		sign
		end time.Duration
	}
	var lives []life
	for _, s := range all {
		if n := slices.IndexFunc(lives, func(l life) bool { return l.host == s.host && l.pid == s.pid }); n >= 0 {
			lives[n].end = s.at
			continue
		}
		lives = append(lives, life{s, s.at})
	}
	for n, a := range lives {
		for _, b := range lives[n+1:] {
			if a.at < b.end && b.at < a.end {
				found = append(found, fmt.Sprintf("%s on %s lived from %v to %v, and %s on %s from %v to %v", a.order, a.host, a.at, a.end, b.order, b.host, b.at, b.end))
			}
		}
	}
	return found
}

// desk is the mailbox of the boss.
type desk struct {
	client *natsmesh.Client

	mu  sync.Mutex
	got map[string]map[string]string // the texts of reports by their ids, by the number of the order
}

// newDesk collects the reports until the test ends.
func newDesk(t testing.TB, e *fleettest.Engine) *desk {
	t.Helper()
	d := &desk{client: e.Client(boss), got: map[string]map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			d.collect(ctx, t)
		}
	}()
	return d
}

// collect takes the reports that come within a second.
func (d *desk) collect(ctx context.Context, t testing.TB) {
	wait, cancel := context.WithTimeout(ctx, time.Second)
	_, _ = d.client.Watch(wait, time.Second)
	cancel()
	box, err := d.client.Take(ctx)
	if err != nil {
		return // the next call asks again
	}
	for _, m := range box.Messages {
		d.note(t, m)
		_ = d.client.Ack(ctx, m.ID) // a message that comes again is known
	}
}

// note counts a report.
func (d *desk) note(t testing.TB, m mesh.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.got[m.Correlation] == nil {
		d.got[m.Correlation] = map[string]string{}
	}
	if before, known := d.got[m.Correlation][m.ID]; known && before != m.Text {
		t.Errorf("report %s says %q, and then %q", m.ID, before, m.Text)
	}
	d.got[m.Correlation][m.ID] = m.Text
}

// reports returns the reports of an order.
func (d *desk) reports(number string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Values(d.got[number]))
}

// send sends an order.
func (d *desk) send(ctx context.Context, t testing.TB, to, number string) {
	t.Helper()
	m := mesh.Message{ID: number, To: to, Kind: mesh.KindAsk, Text: "order " + number}
	if _, err := d.client.Send(ctx, m); err != nil {
		t.Fatalf("send %s: %v", number, err)
	}
}
