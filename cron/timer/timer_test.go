package timer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/cron"
	"agentstateloop/internal/testkit/timertest"
)

// newManager puts a service manager into PATH, with nothing else but a shell's tools.
func newManager(t *testing.T) timertest.Manager {
	t.Helper()
	m, err := timertest.New(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", m.Bin()+":/usr/bin:/bin")
	return m
}

func newTimer(m timertest.Manager, kind string) Timer {
	return Timer{Kind: kind, Agent: "goulard3120", Binary: "/opt/100%/agentstateloop", Config: "/etc/a.toml", Home: m.Home}
}

func active(t *testing.T, m timertest.Manager) []string {
	t.Helper()
	names, err := m.Active()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestInstallAndRemove checks the life of the units under each service manager.
func TestInstallAndRemove(t *testing.T) {
	for _, kind := range []string{Systemd, Launchd} {
		t.Run(kind, func(t *testing.T) {
			m := newManager(t)
			u := newTimer(m, kind)
			foreign := filepath.Join(m.Home, systemdFolder, "agentstateloop-goulard3120x.timer")
			if err := write(File{foreign, "foreign"}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time, the timer is installed already
				if err := errors.Join(u.Write(), u.Enable(t.Context())); err != nil {
					t.Fatal(err)
				}
				if got := active(t, m); !slices.Equal(got, []string{u.Name()}) {
					t.Fatalf("active: %q", got)
				}
			}
			if on, err := u.Active(t.Context()); !on || err != nil {
				t.Errorf("Active returned %v, %v", on, err)
			}
			found, err := u.Installed()
			if want := u.paths(); err != nil || !slices.Equal(found, want) {
				t.Errorf("installed: %q, %v, want %q", found, err, want)
			}
			removed, err := u.Remove(t.Context())
			if err != nil || !slices.Equal(removed, found) {
				t.Errorf("removed: %q, %v", removed, err)
			}
			if found, err := u.Installed(); len(found) > 0 || err != nil {
				t.Errorf("left: %q, %v", found, err)
			}
			if got := active(t, m); len(got) > 0 {
				t.Errorf("still active: %q", got)
			}
			if _, err := os.Stat(foreign); err != nil {
				t.Errorf("a foreign unit: %v", err)
			}
			if on, err := u.Active(t.Context()); on || err != nil {
				t.Errorf("Active returned %v, %v after the removal", on, err)
			}
		})
	}
}

// TestNothingToRemove checks that no process is started for an agent without a timer.
func TestNothingToRemove(t *testing.T) {
	m := newManager(t)
	if removed, err := newTimer(m, "").Remove(t.Context()); len(removed) > 0 || err != nil {
		t.Errorf("removed %q, %v", removed, err)
	}
	if calls, _ := m.Calls(); !slices.Equal(calls, []string{""}) {
		t.Errorf("calls: %q", calls)
	}
}

// TestWithoutManager checks the errors if the service manager is missing, cannot be reached, or
// hangs. Remove removes the files nevertheless.
func TestWithoutManager(t *testing.T) {
	for _, test := range []struct {
		fault string
		want  error
		text  string
	}{
		{timertest.NoBus, ErrNoBus, "No medium found"},
		{timertest.Deny, nil, "Access denied"},
		{timertest.Hang, nil, "timed out"},
		{"missing", ErrNoProgram, "executable file not found"},
	} {
		for _, kind := range []string{Systemd, Launchd} {
			t.Run(test.fault+" "+kind, func(t *testing.T) {
				m := newManager(t)
				u := newTimer(m, kind)
				if err := errors.Join(u.Write(), u.Enable(t.Context()), m.Fail(test.fault)); err != nil {
					t.Fatal(err)
				}
				if test.fault == "missing" {
					t.Setenv("PATH", t.TempDir())
				}
				u.Timeout = 100 * time.Millisecond
				err := u.Enable(t.Context())
				check := func(what string, err error) {
					t.Helper()
					if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
						t.Errorf("%s: %v", what, err)
					}
				}
				check("Enable", err)
				removed, err := u.Remove(t.Context())
				if kind == Systemd || test.fault != timertest.Deny { // launchctl print fails for a job that is not loaded, too
					check("Remove", err)
				}
				if found, _ := u.Installed(); len(found) > 0 || !slices.Contains(removed, u.path()) {
					t.Errorf("removed %q, left %q", removed, found)
				}
			})
		}
	}
}

// TestPackagedTimer checks that an enabled timer of the template units counts as the timer of its
// configuration alone: nothing is written next to it, and Remove disables it.
func TestPackagedTimer(t *testing.T) {
	m := newManager(t)
	u := newTimer(m, Systemd)
	u.Config = filepath.Join(m.Home, ".config/agentstateloop/my.toml")
	instance := filepath.Join(m.Home, systemdFolder, wantsFolder, "agentstateloop-poll@my.timer")
	if got := u.Missing(); got == "" {
		t.Error("nothing is missing")
	}
	if err := write(File{instance, ""}); err != nil {
		t.Fatal(err)
	}
	if got := u.Missing(); got != "" || u.Running() != "agentstateloop-poll@my.timer" {
		t.Errorf("missing %q, running %q", got, u.Running())
	}
	other := u
	other.Config = filepath.Join(m.Home, ".config/agentstateloop/other.toml")
	if got := other.Missing(); got == "" || other.Running() != other.Name() {
		t.Errorf("another agent: missing %q, running %q", got, other.Running())
	}
	if err := u.Write(); err != nil {
		t.Error(err)
	}
	if found, err := u.Installed(); err != nil || !slices.Equal(found, []string{instance}) {
		t.Errorf("installed: %q, %v", found, err)
	}
	if removed, _ := u.Remove(t.Context()); !slices.Equal(removed, []string{instance}) {
		t.Errorf("removed: %q", removed)
	}
	if calls, _ := m.Calls(); !slices.Contains(calls, "systemctl --user disable --now agentstateloop-poll@my.timer") {
		t.Errorf("calls: %q", calls)
	}
}

// TestWords checks the quotes in the output of systemctl. The samples are those of systemd 252.
func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                    nil,
		"A=1\nPATH=/usr/bin:/bin\n":           {"A=1", "PATH=/usr/bin:/bin"},
		`PATH=/bin "TOOL=my tool" B=2` + "\n": {"PATH=/bin", "TOOL=my tool", "B=2"},
		`"A=say \"x\" \$HOME"`:                {`A=say "x" $HOME`},
		`A=$'it\'s' B=$'x y'`:                 {"A=it's", "B=x y"},
		"EMPTY=\n":                            {"EMPTY="},
		`A="it's" 'B="x y' C=1`:               {"A=it's", `B="x y`, "C=1"},
	} {
		if got := words(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestPolledBy finds the agents that have any file of a timer, with the configuration that it
// polls, and ignores other units.
func TestPolledBy(t *testing.T) {
	home := t.TempDir()
	for _, path := range []string{
		".config/systemd/user/agentstateloop-one.timer", ".config/systemd/user/agentstateloop-one.service",
		".config/systemd/user/timers.target.wants/agentstateloop-two.timer", "Library/LaunchAgents/agentstateloop.three.plist",
		".config/systemd/user/agentstateloop.service", ".config/systemd/user/agentstateloop-poll@.timer", ".config/systemd/user/other.timer",
	} {
		if err := write(File{filepath.Join(home, path), "[Service]\n"}); err != nil {
			t.Fatal(err)
		}
	}
	want := []cron.Polled{{Agent: "one"}, {Agent: "two"}, {Agent: "three"}}
	if got := PolledBy(home); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, name := range append(slices.Clone(oddNames), "=$'x", "&lt;", "--config") {
		home, want := t.TempDir(), []cron.Polled(nil)
		for _, kind := range []string{Systemd, Launchd} {
			u := Timer{Kind: kind, Agent: "one", Binary: "/opt/my 100% tools/agentstateloop", Config: "/etc/" + kind + name + "/a.toml", Home: home}
			if err := u.Write(); err != nil {
				t.Fatal(err)
			}
			want = append(want, cron.Polled{Agent: u.Agent, Config: u.Config})
		}
		if got := PolledBy(home); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
