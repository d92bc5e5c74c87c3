package cycle_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

const foreignLines = "# mine\n*/5 * * * * backup %d\n\n@reboot x\n"

func TestCrontabLineFollowsPhase(t *testing.T) {
	h := newFixture(t)
	check(t, os.WriteFile(h.table, []byte(foreignLines), 0o600))
	h.wantLine("*/30 * * * *", func() { h.poll() })
	check(t, h.agent.Ring("test", ""))
	h.wantLine("*/1 * * * *", func() { h.poll() })
	h.wantLine("*/1 * * * *", func() { h.pollAfter(4 * time.Minute) })
	h.wantLine("*/30 * * * *", func() { h.pollAfter(time.Minute) })

	table, err := os.ReadFile(h.table)
	check(t, err)
	if !bytes.HasPrefix(table, []byte(foreignLines)) {
		t.Errorf("foreign lines changed:\n%s", table)
	}
}

// wantLine fails unless our line has these fields after do.
func (h *fixture) wantLine(want string, do func()) {
	h.t.Helper()
	do()
	if got := h.crontabFields(); got != want {
		h.t.Fatalf("the line is %q, want %q", got, want)
	}
}

func TestEditedCrontabLineIsRepaired(t *testing.T) {
	h := newAwakeFixture(t)
	check(t, os.WriteFile(h.table, []byte(foreignLines), 0o600)) // our line is gone
	h.wantLine("*/30 * * * *", func() { h.pollAfter(30 * time.Minute) })
	// A change of phase repairs it at once.
	check(t, os.WriteFile(h.table, []byte(foreignLines+"7 7 * * * x # agentstateloop "+handle+"\n"), 0o600))
	check(t, h.agent.Ring("test", ""))
	h.wantLine("*/1 * * * *", func() { h.poll() })
}

// The crontab is read when its line should change, and twice an hour.
func TestSteadyPollStartsNoCrontab(t *testing.T) {
	h := newFixture(t)
	calls := h.countCrontab()
	h.poll()
	h.wantLine("*/30 * * * *", func() { h.poll() })
	before := calls()
	for range 20 {
		h.pollAfter(time.Minute)
	}
	if after := calls(); after != before || before == 0 {
		t.Errorf("%d crontab processes at first, %d more in 20 polls", before, after-before)
	}
	h.pollAfter(10 * time.Minute)
	if calls() == before {
		t.Error("after 30 minutes nobody has looked at the table")
	}
}

// countCrontab counts every start of the crontab program.
func (h *fixture) countCrontab() (calls func() int) {
	h.t.Helper()
	log := filepath.Join(h.blueprint.Dir, "crontab.calls")
	h.crontab("echo \"$@\" >>'" + log + "'")
	return func() int {
		data, err := os.ReadFile(log)
		if errors.Is(err, fs.ErrNotExist) {
			return 0
		}
		check(h.t, err)
		return bytes.Count(data, []byte("\n"))
	}
}

// crontab puts lines of shell in front of the crontab program. "exit 0"
// replaces the program.
func (h *fixture) crontab(lines string) {
	h.t.Helper()
	path := filepath.Join(h.blueprint.Dir, "crontab-in-front")
	check(h.t, testkit.WriteProgram(path, "#!/bin/sh\n"+lines+"\nexec '"+h.blueprint.Crontab+"' \"$@\"\n"))
	h.agent.Schedule.Table.Command = path
}

// An unusable crontab is shown in the status, and mail is answered nevertheless
// (docs/protocol.md, "The crontab").
func TestCrontabFailureIsReported(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{
		"unreadable":  `echo "crontab: cannot open it" >&2; exit 1`,
		"hanging":     `echo "$*" >>"$0.calls"; exec sleep 60`,
		"not allowed": `echo "You are not allowed to use this program (crontab)" >&2; exit 1`,
		"garbage":     `[ "$1" = -l ] && exec head -c 100 /dev/zero; exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			h.agent.Schedule.Table.Timeout = 300 * time.Millisecond
			h.crontab(lines)
			h.receive(letter{id: "<one@example.com>"})
			if r := h.poll(); r.Turns != 1 || r.After != state.PREP {
				t.Errorf("report: %+v", r)
			}
			h.wantSent("ack reply")
			if calls, err := os.ReadFile(h.agent.Schedule.Table.Command + ".calls"); err == nil && string(calls) != "-l\n" {
				t.Errorf("a crontab that hangs was called more than once in a poll:\n%s", calls)
			}
			status := h.status()
			if status.Schedule.Error == nil || status.Schedule.Wanted == nil || *status.Schedule.Wanted != "*/1 * * * *" {
				t.Errorf("schedule: %+v", status.Schedule)
			}

			h.agent.Schedule.Table.Command, h.agent.Schedule.Table.Timeout = h.blueprint.Crontab, 0
			h.wantLine("*/1 * * * *", func() { h.pollAfter(time.Minute) })
			if status, err := h.agent.View().Status(); err != nil || status.Schedule.Error != nil {
				t.Errorf("after it works: %+v, %v", status.Schedule, err)
			}
		})
	}
}

func TestUninstallLastsUntilTransition(t *testing.T) {
	h := newAwakeFixture(t)
	check(t, os.WriteFile(h.table, append([]byte(foreignLines), mustRead(t, h.table)...), 0o600))
	_, _, err := h.agent.Uninstall(t.Context())
	check(t, err)
	h.wantLine("", func() {})
	h.receive(letter{id: "<one@example.com>"})
	calls := h.countCrontab()
	h.wantLine("", func() { h.pollAfter(31 * time.Minute) })
	if calls() != 0 {
		t.Error("the table was looked at")
	}
	if got := mustRead(t, h.table); string(got) != foreignLines {
		t.Errorf("foreign lines changed:\n%s", got)
	}
	h.order(state.ACTIVE, false)
	h.wantLine("*/1 * * * *", func() { h.poll() })
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return data
}

// The line names the binary that first installed it, as long as that exists:
// trying another build does not move the agent.
func TestCrontabBinaryIsPinned(t *testing.T) {
	h := newFixture(t)
	h.agent.Schedule.Binary = "/bin/sh"
	h.poll()
	h.agent.Schedule.Binary = "/bin/cat"
	check(t, h.agent.Ring("test", ""))
	h.wantLine("*/1 * * * *", func() { h.poll() })
	if table := mustRead(t, h.table); !bytes.Contains(table, []byte("'/bin/sh'")) {
		t.Errorf("the pinned binary was left:\n%s", table)
	}

	h = newFixture(t)
	h.agent.Schedule.Binary = "/nonexistent/agentstateloop"
	h.poll()
	h.agent.Schedule.Binary = "/bin/cat"
	check(t, h.agent.Ring("test", ""))
	h.poll()
	if table := mustRead(t, h.table); !bytes.Contains(table, []byte("'/bin/cat'")) {
		t.Errorf("a binary that is gone is still named:\n%s", table)
	}
}

// A build in the folder for temporary files is never pinned.
func TestTemporaryBinaryIsNotInstalled(t *testing.T) {
	h := newFixture(t)
	h.agent.Schedule.Binary = filepath.Join(os.TempDir(), "go-build1", "agentstateloop")
	h.wantLine("", func() { h.poll() })
	if s := h.state(); s.Schedule.Error == "" || s.Schedule.Binary != "" {
		t.Errorf("schedule: %+v", s.Schedule)
	}
}

func TestModesWithoutCrontab(t *testing.T) {
	for _, mode := range []string{cycle.ModeSystemd, cycle.ModeLaunchd, cycle.ModeFixed, cycle.ModeNone} {
		h := newFixture(t)
		h.agent.Schedule.Mode = mode
		calls := h.countCrontab()
		check(t, h.agent.Ring("test", ""))
		h.wantLine("", func() { h.poll() })
		if calls() != 0 {
			t.Errorf("mode %s: crontab was started", mode)
		}
	}
}

// A transition that is committed while a cycle projects its line is seen by
// that cycle before it ends. Cron might not poll for another half hour.
func TestTransitionDuringCycleMovesLine(t *testing.T) {
	h := newAwakeFixture(t)
	h.whileAcknowledging(func(other *cycle.Agent) {
		_, err := other.Order(t.Context(), state.ACTIVE, "", false)
		check(t, err)
		if _, err := other.Poll(t.Context(), cycle.PollOptions{}); !errors.Is(err, cycle.ErrBusy) {
			t.Errorf("the other poll: %v, want busy", err)
		}
	})
	h.wantLine("*/1 * * * *", func() { h.poll() })
}

// An uninstall wins against a cycle that was about to write the line.
func TestUninstallDuringCycleLasts(t *testing.T) {
	h := newAwakeFixture(t)
	check(t, h.agent.Ring("test", "")) // so that the cycle has a line to write
	h.whileAcknowledging(func(other *cycle.Agent) {
		_, _, err := other.Uninstall(t.Context())
		check(t, err)
	})
	h.wantLine("", func() { h.poll() })
	h.wantLine("", func() { h.pollAfter(31 * time.Minute) })
}

// whileAcknowledging posts a message that needs no turn. It calls do, as
// another process, while the next cycle acknowledges the message: after its
// commit, and before it reads the crontab.
func (h *fixture) whileAcknowledging(do func(other *cycle.Agent)) {
	h.t.Helper()
	h.post(mesh.Message{ID: "m1", Text: "for your information", Kind: mesh.KindNotice})
	hook := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			h.onMesh.Store(nil)
			do(h.blueprint.agent(h.clock.Now))
		}
	})
	h.onMesh.Store(&hook)
}

// If the line cannot be written, cron would come back only in half an hour. One
// poll then stays and cycles each minute until the phase is IDLE.
func TestPollStaysWhileLineIsStuck(t *testing.T) {
	dir := t.TempDir()
	command, table, err := crontest.Write(dir)
	check(t, err)
	b := blueprint{Dir: dir, Crontab: command, Binary: "/usr/local/bin/agentstateloop", ScheduleMode: cycle.ModeCrontab}
	synctest.Test(t, func(t *testing.T) {
		agent := b.agent(time.Now)
		agent.Mail, agent.Mesh, agent.Turn = nil, nil, nil
		agent.Policy.HasMail, agent.Policy.HasMesh = false, false
		_, err := agent.Poll(t.Context(), cycle.PollOptions{Stay: true}) // IDLE: returns at once
		check(t, err)
		before := mustRead(t, table)

		in := filepath.Join(dir, "in-front")
		check(t, testkit.WriteProgram(in, "#!/bin/sh\n[ \"$1\" = - ] && { echo 'disk full' >&2; exit 1; }\nexec '"+command+"' \"$@\"\n"))
		agent.Schedule.Table.Command = in
		began := time.Now()
		check(t, agent.Ring("test", ""))
		_, err = agent.Poll(t.Context(), cycle.PollOptions{Stay: true})
		check(t, err)

		s, err := agent.Store.Read()
		check(t, err)
		if s.Phase != state.IDLE || time.Since(began) < agent.Policy.PrepTimeout {
			t.Errorf("left in %s after %v, want IDLE after %v or more", s.Phase, time.Since(began), agent.Policy.PrepTimeout)
		}
		polls := strings.Count(string(mustRead(t, filepath.Join(agent.Store.Dir, "log"))), "poll: ")
		if polls < 6 {
			t.Errorf("%d polls in five minutes", polls)
		}
		if after := mustRead(t, table); !bytes.Equal(before, after) {
			t.Errorf("the table became:\n%s", after)
		}
	})
}

// Only one process stays. None stays if the line is stuck at the short
// interval, because cron then comes back by itself.
func TestOnlyOnePollStays(t *testing.T) {
	h := newAwakeFixture(t)
	lock, err := h.agent.Store.TryLock(store.LingerLock)
	check(t, err)
	defer lock.Unlock()
	h.crontab(`[ "$1" = - ] && exit 1`)
	check(t, h.agent.Ring("test", ""))
	_, err = h.agent.Poll(t.Context(), cycle.PollOptions{Stay: true})
	check(t, err)
	h.wantPhase(state.PREP)
}

func TestPollDoesNotStayAtShortInterval(t *testing.T) {
	h := newAwakeFixture(t)
	check(t, h.agent.Ring("test", ""))
	h.wantLine("*/1 * * * *", func() { h.poll() })
	h.crontab(`[ "$1" = - ] && exit 1`)
	h.clock.advance(6 * time.Minute)
	_, err := h.agent.Poll(t.Context(), cycle.PollOptions{Stay: true})
	check(t, err)
	h.wantPhase(state.IDLE)
	if lines := cron.Find(mustRead(t, h.table), handle); len(lines) != 1 || !strings.HasPrefix(lines[0], "*/1 ") {
		t.Errorf("installed: %q", lines)
	}
	// --if-due does not use the network until the half hour is over.
	r, err := h.agent.Poll(t.Context(), cycle.PollOptions{IfDue: true, Stay: true})
	check(t, err)
	if r.Skipped == "" {
		t.Errorf("polled though nothing is due: %+v", r)
	}
}

// `init` installs the line without a poll, even after an `uninstall` or a manual edit, and
// reports errors.
func TestInstall(t *testing.T) {
	h := newFixture(t)
	check(t, os.WriteFile(h.table, []byte(foreignLines), 0o600))
	install := func() state.State {
		t.Helper()
		s, err := h.agent.Install(t.Context())
		check(t, err)
		return s
	}
	h.wantLine("*/30 * * * *", func() { install() })
	check(t, os.WriteFile(h.table, []byte(foreignLines), 0o600))
	h.wantLine("*/30 * * * *", func() { install() })
	_, _, err := h.agent.Uninstall(t.Context())
	check(t, err)
	h.wantLine("", func() { h.poll() })
	h.wantLine("*/30 * * * *", func() { install() })
	if line, err := h.agent.Job(h.state()).Line(); err != nil || line != h.state().Schedule.Installed {
		t.Errorf("the line asked for is %q, %v; installed is %q", line, err, h.state().Schedule.Installed)
	}

	h.agent.Schedule.Table.Command = filepath.Join(t.TempDir(), "none")
	if s := install(); !strings.Contains(s.Schedule.Error, "crontab program not found") {
		t.Errorf("without a crontab program the state has %q", s.Schedule.Error)
	}
}
