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

// TestStatusWatchShowsChanges checks that a status is shown at once, and again when it changes,
// until the context ends.
func TestStatusWatchShowsChanges(t *testing.T) {
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
		t.Error("the first status is HALTED")
	}
	if _, err := a.Halt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if s := <-shown; !s.Halted {
		t.Error("shown again without a change")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(shown) > 0 {
		t.Errorf("%d times too often", len(shown))
	}
}

// TestUnwritableOutputFails checks that output that cannot be written is an error, in every command.
func TestUnwritableOutputFails(t *testing.T) {
	var stderr strings.Builder
	if code := Run(t.Context(), Build{}, []string{name, "--help"}, nil, fullDisk{}, &stderr, nil); code != exitError {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(stderr.String(), "no space left") || !strings.Contains(stderr.String(), "hint: the command did its work") {
		t.Errorf("stderr %q", stderr.String())
	}
}

// fullDisk is a writer that has no space.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestWatchRestoresTheTerminal checks that the terminal has its cursor and its text
// back after an interrupt, a panic and an error.
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

// TestStatusAllNamesHosts checks that status --all prints the hosts of each agent, and which of them
// are away, also on a narrow terminal.
func TestStatusAllNamesHosts(t *testing.T) {
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

// TestMeshOutageReportedOnce checks that the outage of a mesh with two agents is one error.
func TestMeshOutageReportedOnce(t *testing.T) {
	agent := func(handle string) *cycle.Agent {
		return &cycle.Agent{Handle: handle, Mesh: &cycle.Mesh{Carrier: &mesh.Client{URL: "http://127.0.0.1:1", Handle: handle}, Handle: handle}}
	}
	_, _, err := otherPresences(t.Context(), []*cycle.Agent{agent("alpha"), agent("beta")})
	if err == nil || strings.Count(err.Error(), "mesh: ") != 1 {
		t.Errorf("the error is %v", err)
	}
}
