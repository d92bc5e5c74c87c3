package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// TestStatusFields: every field of docs/protocol.md, "Status" is there for an agent
// of which nothing is known yet: null, never absent.
func TestStatusFields(t *testing.T) {
	a, err := testLoader().Load(writeConfig(t, smallConfig+"[schedule]\nmode = \"none\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	a.Store.Dir = t.TempDir()
	s, err := a.View().Status()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (&terminal.Output{Stdout: &out}).JSON(s); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(out.String()), &fields); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"last_mail", "last_answer", "questions", "next_wakeup", "outbox.holds", "agent", "phase", "phase_since", "next_due", "deadline", "halted", "halted_by", "last_look", "offline", "tier",
		"inbox.waiting", "inbox.deferred", "inbox.quarantined", "outbox.waiting", "outbox.undeliverable",
		"turn.status", "turn.id", "turn.epoch", "turn.lifecycle", "turn.state", "turn.tool", "turn.waiting_tool_count",
		"turn.since", "turn.last_output", "turn.kill_at", "turn.kill_for", "turn.resume_by", "turn.cost_usd", "asleep", "sleep_until",
		"self.wakeups", "self.turns", "self.limit", "credentials", "schedule.wanted", "schedule.installed", "schedule.error", "spend.day_usd", "spend.month_usd",
	} {
		at := fields
		parts := strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			at, _ = at[part].(map[string]any)
		}
		if _, ok := at[parts[len(parts)-1]]; !ok {
			t.Errorf("%s is absent:\n%s", path, out.String())
		}
	}
	if fields["credentials"] == nil {
		t.Error("credentials is null, and should be an object")
	}
}

// TestStatusWatch: a status is shown once, and again when it changes, until the
// context ends.
func TestStatusWatch(t *testing.T) {
	a, err := testLoader().Load(writeConfig(t, smallConfig+"[schedule]\nmode = \"none\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	a.Store.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	shown := make(chan view.Status, 10)
	done := make(chan error)
	go func() {
		w := watch{a.View().StatusReader().Status, func() bool { return false }}
		done <- w.onChange(ctx, func(s view.Status) error { shown <- s; return nil })
	}()
	if s := <-shown; s.Halted {
		t.Error("HALTED before it was")
	}
	if _, err := a.Halt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if s := <-shown; !s.Halted {
		t.Error("shown again, though nothing had changed")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(shown) > 0 {
		t.Errorf("%d times too often", len(shown))
	}
}

// TestFullOutput: output that cannot be written is an error, in every command.
func TestFullOutput(t *testing.T) {
	var stderr strings.Builder
	if code := Run(t.Context(), []string{name, "--help"}, nil, full{}, &stderr, nil); code != exitError {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(stderr.String(), "no space left") || !strings.Contains(stderr.String(), "hint: the command did its work") {
		t.Errorf("stderr %q", stderr.String())
	}
}

// full is a writer like a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestWatchRestoresTheTerminal checks that the terminal has its cursor and its text
// back, however the watch ends.
func TestWatchRestoresTheTerminal(t *testing.T) {
	at := func(n int) func() int { return func() int { return n } }
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		want   error
		panics bool
	}{
		"an interrupt": {},
		"a panic":      {panics: true},
		"an error":     {want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out strings.Builder
			o := &terminal.Output{Stdout: &out, Columns: at(80), Rows: at(24)}
			screen, _ := o.Screen("xterm")
			n := 0
			w := watch{unread: func() bool { return false }, status: func() (view.Status, error) {
				switch n++; {
				case n == 1:
				case c.panics:
					panic("in the middle")
				case c.want != nil:
					return view.Status{}, c.want
				default:
					cancel()
				}
				return view.Status{}, nil
			}}
			func() {
				defer func() {
					if v := recover(); (v != nil) != c.panics {
						t.Errorf("panic: %v", v)
					}
				}()
				if err := w.onScreen(ctx, screen, func(view.Status) string { return "status" }); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
			}()
			if text := out.String(); !strings.Contains(text, "status") || !strings.HasSuffix(text, "\x1b[?7h\x1b[?25h\x1b[?1049l") || strings.Count(text, "\x1b[?1049h") != 1 {
				t.Errorf("written: %q", text)
			}
		})
	}
}

// TestAgentsOfManyHosts checks that status --all names the hosts of each agent, and says
// of which of them nothing was seen lately, also on a narrow terminal.
func TestAgentsOfManyHosts(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	h := agentTable{others: []mesh.Presence{
		{Handle: "boreas", Phase: state.IDLE, Asleep: true, SeenAt: ago(time.Minute), Hosts: []mesh.HostSeen{{Host: "alpha", SeenAt: ago(time.Minute)}}},
		{Handle: "dorlange3120", Phase: state.ACTIVE, Tier: state.TierCritical, SeenAt: ago(time.Second), Hosts: []mesh.HostSeen{
			{Host: "alpha", SeenAt: ago(time.Second)}, {Host: "beta", SeenAt: ago(2 * time.Minute)}, {Host: "gamma", SeenAt: ago(2 * time.Hour), Away: true}}},
		{Handle: "gone", Phase: state.ACTIVE, Asleep: true, SeenAt: ago(3 * time.Hour), Away: true, Hosts: []mesh.HostSeen{{Host: "beta", SeenAt: ago(3 * time.Hour), Away: true}}},
		{Handle: "http", Phase: state.PREP, SeenAt: ago(time.Minute)},
	}}
	for columns, want := range map[int]string{
		0: `
@boreas        IDLE    seen 08:59:00       via the mesh on alpha, asleep
@dorlange3120  ACTIVE  seen 08:59:59       via the mesh on alpha and beta, critical, gamma last seen 07:00:00
@gone          AWAY    last seen 06:00:00  via the mesh on beta
@http          PREP    seen 08:59:00       via the mesh
`,
		80: `
@boreas        IDLE    seen 08:59:00       via the mesh on alpha, asleep
@dorlange3120  ACTIVE  seen 08:59:59       via the mesh on alpha and beta,
                                           critical, gamma last seen 07:00:00
@gone          AWAY    last seen 06:00:00  via the mesh on beta
@http          PREP    seen 08:59:00       via the mesh
`,
	} {
		var out bytes.Buffer
		if err := h.print(&terminal.Output{Stdout: &out, Columns: func() int { return columns }}, now); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + out.String(); got != want {
			t.Errorf("%d columns:%s\nwant%s", columns, got, want)
		}
	}
	data, err := json.Marshal(presencesOf(h.others))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"away":true,"hosts":[{"host":"beta",`, `"handle":"http","callsign":"","phase":"PREP","asleep":false,"tier":"",`, `"away":false,"hosts":[]}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("lacks %s\n%s", want, data)
		}
	}
}

// TestMeshOutageReportedOnce checks that two agents of a mesh that does not answer cause
// one error.
func TestMeshOutageReportedOnce(t *testing.T) {
	agent := func(handle string) *cycle.Agent {
		return &cycle.Agent{Handle: handle, Mesh: &cycle.Mesh{Carrier: &mesh.Client{URL: "http://127.0.0.1:1", Handle: handle}, Handle: handle}}
	}
	_, err := otherPresences(t.Context(), []*cycle.Agent{agent("alpha"), agent("beta")})
	if err == nil || strings.Count(err.Error(), "mesh: ") != 1 {
		t.Errorf("the error is %v", err)
	}
}
