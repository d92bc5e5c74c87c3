package listen

import (
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// scan looks at nudges/ if the folder cannot be watched.
func TestUnwatchedFolder(t *testing.T) {
	a := &cycle.Agent{
		Handle: "goulard3120", Config: "/home/you/agent.toml",
		Store:    &store.Store{Dir: filepath.Join(t.TempDir(), "state"), Agent: "goulard3120"},
		Policy:   state.Policy{IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute, Location: time.UTC},
		Schedule: cycle.Schedule{Mode: cycle.ModeNone}, Now: time.Now,
	}
	if _, err := a.Poll(t.Context(), cycle.PollOptions{}); err != nil {
		t.Fatal(err)
	}
	l := &Listener{Agents: []*cycle.Agent{a}, Logf: func(string, ...any) {}}
	p, err := l.claim(a)
	if err != nil {
		t.Fatal(err)
	}
	defer l.stop(p)
	p.unwatched, l.serving, l.nudgeWatcher = true, []*servedAgent{p}, &nudgeWatcher{listener: l}
	go l.scan(t.Context())
	if err := a.Ring("test", ""); err != nil {
		t.Fatal(err)
	}
	<-p.requested
}
