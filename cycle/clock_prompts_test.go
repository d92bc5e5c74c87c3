package cycle_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/hook"
	"agentstateloop/internal/testkit"
	"agentstateloop/state"
)

// newClockFixture returns a fixture with a prompt that is due at the next full hour, and
// moves the clock there. change may change the prompt.
func newClockFixture(t *testing.T, change func(h *fixture, c *cycle.ClockPrompt)) *fixture {
	h := newClockFixtureBefore(t, change)
	h.clock.advance(21 * time.Second)
	return h
}

// newClockFixtureBefore is newClockFixture, but the prompt is due in 20 seconds.
func newClockFixtureBefore(t *testing.T, change func(h *fixture, c *cycle.ClockPrompt)) *fixture {
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	c := cycle.ClockPrompt{Name: "morning", Text: "Read the CI.", Kind: state.KindAlways}
	if change != nil {
		change(h, &c)
	}
	times, err := cron.ParseTimes("0 * * * *")
	check(t, err)
	h.agent.ClockPrompts = []cycle.ClockPrompt{c}
	h.agent.Policy.Prompts = []state.PromptPolicy{{Name: c.Name, At: "0 * * * *", CatchUp: time.Hour, Asks: c.If != nil, Next: times.Next}}
	h.poll()
	next := h.state().Prompts[0].Next
	h.clock.advance(next.Sub(h.clock.Now()) - 20*time.Second)
	h.poll()
	return h
}

// useIfScript writes the script that is the `if` program of a prompt.
func useIfScript(h *fixture, c *cycle.ClockPrompt, script string) {
	path := filepath.Join(h.t.TempDir(), "changed.sh")
	check(h.t, testkit.WriteProgram(path, "#!/bin/sh\n"+script))
	c.If = &hook.Program{Command: []string{path}, Dir: filepath.Dir(path), Env: []string{"PATH=/usr/bin:/bin"}}
}

// Many polls find a prompt due at the same time. Its program is asked once, and it has one
// turn.
func TestClockPromptFiresOnce(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"without a program": "", "with a program": "echo x >>asked; sleep 0.2\n"} {
		t.Run(name, func(t *testing.T) {
			h := newClockFixture(t, func(h *fixture, c *cycle.ClockPrompt) {
				if script != "" {
					useIfScript(h, c, script)
				}
			})
			h.playScript("echo x >>turns; echo done\n")
			var wg sync.WaitGroup
			for range 6 {
				wg.Go(func() {
					if _, err := h.agent.Poll(t.Context(), cycle.PollOptions{}); err != nil && !errors.Is(err, cycle.ErrBusy) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			h.poll()
			if got := len(h.lines(state.LineTask)); got != 1 {
				t.Errorf("%d turns", got)
			}
			if len(h.sentOf("reply")) != 1 {
				t.Errorf("mails: %s", h.kinds())
			}
			if script == "" {
				return
			}
			asked, err := os.ReadFile(filepath.Join(h.agent.ClockPrompts[0].If.Dir, "asked"))
			check(t, err)
			if string(asked) != "x\n" {
				t.Errorf("asked %q", asked)
			}
		})
	}
}

// A failing `if` program is a failed firing with a reason. The program is ended with its child
// processes.
func TestClockPromptIfProgram(t *testing.T) {
	for name, c := range map[string]struct{ script, skipped, failed string }{
		"yes":                   {"exit 0\n", "", ""},
		"no":                    {"echo all; echo is well; exit 1\n", "changed.sh reports that there is nothing to do: is well", ""},
		"no, without a word":    {"exit 1\n", "changed.sh reports that there is nothing to do", ""},
		"breaks":                {"echo first >&2; echo no network >&2; exit 2\n", "", "its `if` program, changed.sh, failed: exit status 2: no network"},
		"is killed":             {"kill -9 $$\n", "", "its `if` program, changed.sh, failed: signal: killed"},
		"hangs":                 {"sleep 1000 & echo $! >pid; wait\n", "", "its `if` program, changed.sh, ran longer than 300ms and was killed"},
		"prints without end":    {"yes\n", "", "its `if` program, changed.sh, was killed because its output exceeds 1 MiB"},
		"leaves something":      {"sleep 1000 & echo $! >pid; exit 0\n", "", ""},
		"is told what and when": {"[ \"$AGENTSTATELOOP_PROMPT\" = morning ] && date -d \"$AGENTSTATELOOP_DUE\" >/dev/null && exit 1; exit 5\n", "changed.sh reports that there is nothing to do", ""},
		"does not exist":        {"", "", "its `if` program cannot be started: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newClockFixture(t, func(h *fixture, p *cycle.ClockPrompt) {
				useIfScript(h, p, c.script)
				if p.Patience = 20 * time.Second; name == "hangs" {
					p.Patience = 300 * time.Millisecond
				}
				if c.script == "" {
					check(t, os.Remove(p.If.Command[0]))
				}
			})
			h.poll()
			var told []string
			for _, l := range h.lines(state.LinePrompt) {
				if l.What == "skipped" || l.What == "failed" {
					told = append(told, string(l.What)+": "+l.Reason)
				}
			}
			want, turns := "", 0
			switch {
			case c.skipped != "":
				want = "skipped: " + c.skipped
			case c.failed != "":
				want = "failed: " + c.failed
			default:
				turns = 1
			}
			if got := strings.Join(told, "\n"); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("the history says %q, want %q", got, want)
			}
			if got := len(h.lines(state.LineTask)); got != turns {
				t.Errorf("%d turns, want %d", got, turns)
			}
			if got := len(h.sentOf("notice")); got != 0 && c.failed == "" || got != 1 && c.failed != "" {
				t.Errorf("%d notices", got)
			}
			if pid, err := os.ReadFile(filepath.Join(h.agent.ClockPrompts[0].If.Dir, "pid")); err == nil {
				n := 0
				fmt.Sscan(string(pid), &n)
				until(t, "the end of what it has started", func() bool { return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) || isZombie(n) })
			}
		})
	}
}

// isZombie reports whether a process has ended, and nobody has asked how.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// The file of a prompt is read when it fires. An unreadable file is reported once, and the prompt
// runs again once the file can be read.
func TestClockPromptFile(t *testing.T) {
	for name, c := range map[string]struct {
		make   func(path string) error
		failed string
	}{
		"a file": {func(p string) error { return os.WriteFile(p, []byte("  Look.\n"), 0o600) }, ""},
		"a link to one": {func(p string) error {
			_ = os.WriteFile(p+".real", []byte("Look.\n"), 0o600)
			return os.Symlink(p+".real", p)
		}, ""},
		"missing":   {func(string) error { return nil }, "its file cannot be read: "},
		"a pipe":    {func(p string) error { return syscall.Mkfifo(p, 0o600) }, "its file cannot be read: "},
		"a folder":  {func(p string) error { return os.Mkdir(p, 0o700) }, "its file cannot be read: "},
		"empty":     {func(p string) error { return os.WriteFile(p, []byte(" \n"), 0o600) }, "morning.md is empty"},
		"not UTF-8": {func(p string) error { return os.WriteFile(p, []byte("a\xff"), 0o600) }, "morning.md is not UTF-8 text"},
		"too large": {func(p string) error { return os.WriteFile(p, make([]byte, 65<<10), 0o600) }, "its file cannot be read: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newClockFixture(t, func(h *fixture, p *cycle.ClockPrompt) {
				p.Text, p.File = "", filepath.Join(t.TempDir(), "morning.md")
				check(t, c.make(p.File))
			})
			h.poll()
			h.clock.advance(time.Hour)
			h.poll()
			fails := h.state().Prompts[0].Fails
			if c.failed == "" {
				if got := len(h.lines(state.LineTask)); got != 2 || fails != "" || !strings.Contains(h.prompt(), "Look.") {
					t.Errorf("%d turns, %q:\n%s", got, fails, h.prompt())
				}
				return
			}
			if !strings.Contains(fails, c.failed) || len(h.sentOf("notice")) != 1 {
				t.Errorf("it fails because %q, want %q; %d notices, want 1", fails, c.failed, len(h.sentOf("notice")))
			}
			path := h.agent.ClockPrompts[0].File
			check(t, os.RemoveAll(path))
			check(t, os.WriteFile(path, []byte("Look again."), 0o600))
			h.clock.advance(time.Hour)
			h.poll()
			if fails := h.state().Prompts[0].Fails; fails != "" || len(h.lines(state.LineTask)) != 1 {
				t.Errorf("mended: %q, %d turns", fails, len(h.lines(state.LineTask)))
			}
		})
	}
}

// A turn of a prompt has the rights of [turn.permissions] task, and so do the turns that it
// plans. Its mail begins a thread, and the operator's reply to it is an ordinary message with the
// exchange as its history.
func TestClockPromptTurn(t *testing.T) {
	t.Parallel()
	h := newClockFixture(t, nil)
	h.agent.Rights = cycle.Rights{Operator: []string{"--may", "all"}, Self: []string{"--may", "look"}, Task: []string{"--may", "little"}}
	h.agent.Policy.Ack = true
	h.playScript("echo \"$*\" >>argv\ngrep -q 'You woke yourself' prompt || us remind 20m 'look again'\necho 'two jobs broke'\n")
	phase := h.state().Phase
	h.poll()
	if h.state().Phase != phase || len(h.sentOf("ack")) > 0 {
		t.Errorf("%s, %s", h.state().Phase, h.kinds())
	}
	replies := h.sentOf("reply")
	if len(replies) != 1 || !strings.Contains(replies[0].text, "two jobs broke") {
		t.Fatalf("mails: %+v", replies)
	}
	raw := replies[0].raw
	if !strings.Contains(raw, "Subject: @"+handle+": morning, ") || strings.Contains(raw, "In-Reply-To") {
		t.Errorf("the mail:\n%s", raw)
	}
	h.clock.advance(25 * time.Minute)
	h.poll()
	if got := h.workFile("argv"); got != "--may little\n--may little" {
		t.Errorf("rights:\n%s", got)
	}
	h.playScript("echo \"$*\" >>argv\necho done\n")
	h.receive(letter{id: "<one@example.com>", subject: "Re: @" + handle + ": morning", fields: "In-Reply-To: " + messageID([]byte(raw)) + "\r\n", body: "fix them"})
	h.poll()
	h.wantPhase(state.PREP)
	if got := h.workFile("argv"); !strings.HasSuffix(got, "--may all") {
		t.Errorf("rights:\n%s", got)
	}
	if got := h.prompt(); !strings.Contains(got, "two jobs broke") {
		t.Errorf("the answer does not know what was said:\n%s", got)
	}
}

// PollReason names a due prompt, except while its program runs.
func TestPollReasonDuePrompt(t *testing.T) {
	h := newClockFixture(t, func(h *fixture, c *cycle.ClockPrompt) { useIfScript(h, c, "exit 0\n") })
	h.wantPollReason("at its time", state.DuePrompt)
	h.step(state.PromptAsked{Name: "morning", ID: "other"})
	h.wantPollReason("while it is asked", "")
	// A poll that must not take long leaves the program to a detached one.
	h.clock.advance(state.PromptLease)
	r, err := h.agent.Poll(t.Context(), cycle.PollOptions{NoTurn: true, LeaveLarge: true})
	check(t, err)
	if r.TurnWaiting || h.state().Prompts[0].AskedBy != "other" {
		t.Errorf("%+v, %+v", r, h.state().Prompts)
	}
}

// A turn of a prompt asks the operator. The reply resumes it and is not a message of its own, and
// its answer is sent once. Another firing waits meanwhile.
func TestClockPromptTurnAsksOperator(t *testing.T) {
	h := newClockFixture(t, nil)
	h.playScript(askingOperatorScript)
	h.poll()
	asked := h.sentOf("question")
	if len(asked) != 1 || asked[0].to != operator || !strings.Contains(asked[0].raw, "1. yes\r\n2. no\r\n") {
		t.Fatalf("asked: %+v", asked)
	}
	h.wantTasks()
	if r := h.pollAfter(time.Hour); r.Turns != 0 || len(h.state().Inbox) != 2 {
		t.Errorf("while it waits: %+v, and %d messages", r, len(h.state().Inbox))
	}
	h.receive(replyTo(asked[0], "Yes."))
	if r := h.pollAfter(time.Minute); r.Turns != 2 || r.Arrived != 0 {
		t.Errorf("the answer: %+v", r)
	}
	h.wantTasks(state.Success, state.Success)
	if got := h.operatorAnswers(); len(got) != 1 || got[0].ID != h.workFile("ids") || got[0].Option != "yes" {
		t.Errorf("answers: %+v", got)
	}
	h.pollAfter(time.Minute)
	first := 0
	for _, m := range h.sentOf("reply") {
		if strings.Contains(m.text, "told: Yes.") {
			first++
		}
	}
	if first != 1 || len(h.sentOf("reply")) != 2 || len(h.sentOf("question")) != 1 {
		t.Errorf("%d mails of what it was answered: %s", first, h.kinds())
	}
}

// A poll that lingers makes a firing at its time, before cron polls again.
func TestLingeringPollFiresPrompt(t *testing.T) {
	t.Parallel()
	h := newClockFixtureBefore(t, nil)
	check(t, h.agent.Ring("test", ""))
	h.poll()
	h.wantPhase(state.PREP)
	h.playScript("echo done\n")
	h.lingerAfter(21 * time.Second)
	if n := len(h.runs()); n != 1 || len(h.sentOf("reply")) != 1 {
		t.Errorf("%d turns, and the mails %s", n, h.kinds())
	}
}
