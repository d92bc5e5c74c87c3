package cycle_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// Each message gets one deliverable with a clear reason, however its agent fails, and the next
// message is served.
func TestBadAgents(t *testing.T) {
	t.Parallel()
	flood := "200000000"
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		flood = "20000000" // above the limit as well
	}
	for name, c := range map[string]struct {
		does    string // the script, on the message "bad"
		claude  bool
		outcome state.Outcome
		says    string // in the reply
	}{
		"prints nothing":             {does: "exit 0", outcome: state.Failed, says: "Inference failed. the agent ended without an answer"},
		"prints blanks":              {does: `printf ' \n\t\n'`, outcome: state.Failed, says: "Inference failed. the agent ended without an answer"},
		"prints a flood":             {does: "head -c " + flood + " /dev/zero | tr '\\0' x", outcome: state.Partial, says: "the answer is truncated at 16777216 of " + flood},
		"prints a flood in one line": {does: "head -c " + flood + " /dev/zero | tr '\\0' x", claude: true, outcome: state.Failed, says: "the agent's stream ended without a result"},
		"prints binary":              {does: "head -c 100000 /dev/urandom; echo; echo END", outcome: state.Success, says: "END"},
		"prints NUL":                 {does: `printf 'a\000b\033[2Jc'`, outcome: state.Success, says: "ab[2Jc"},
		"half a JSON line":           {does: `printf '{"type":"assistant","message":{"content":[{"type":"text","te'`, claude: true, outcome: state.Failed, says: "the agent's stream ended without a result"},
		"JSON of no kind":            {does: `printf '7\n[]\n{"type":[]}\nnull\n"x"\n'`, claude: true, outcome: state.Failed, says: "the agent's stream ended without a result"},
		"a stream cut after text":    {does: `init s1; printf '{"type":"assistant","message":{"content":[{"type":"text","text":"half of it"}]}}\n'`, claude: true, outcome: state.Partial, says: "half of it\n\n[partial: the agent's stream ended without a result]"},
		"exits with 3":               {does: "echo so far; echo 'out of luck' >&2; exit 3", outcome: state.Failed, says: "so far\n\nInference failed. exit status 3: out of luck"},
		"forks a daemon":             {does: "(setsid sh -c 'sleep 300' >/dev/null 2>&1 & echo $! >daemon); echo forked", outcome: state.Success, says: "forked"},
		"leaves a child":             {does: "sleep 300 & echo forked", outcome: state.Success, says: "forked"},
		"ignores TERM":               {does: "trap '' TERM; echo busy; while :; do sleep 1; done", outcome: state.Timeout, says: "busy\n\n[timeout: ran longer than "},
		"deletes its box":            {does: `rm -rf "$AGENTSTATELOOP_OUTPUT"; echo gone`, outcome: state.Success, says: "gone"},
		"puts a file for its box":    {does: `rm -rf "$AGENTSTATELOOP_OUTPUT"; echo x >"$AGENTSTATELOOP_OUTPUT"; echo gone`, outcome: state.Success, says: "gone"},
		"puts a link for its box":    {does: `rm -rf "$AGENTSTATELOOP_OUTPUT"; ln -s /etc "$AGENTSTATELOOP_OUTPUT"; echo gone`, outcome: state.Success, says: "gone"},
		"deletes its whole attempt":  {does: `rm -rf "$AGENTSTATELOOP_OUTPUT/.."/* ; rm -rf "$(dirname "$AGENTSTATELOOP_OUTPUT")"; echo gone`, outcome: state.Success, says: "gone"},
		"a folder as deliverable":    {does: `mkdir -p "$AGENTSTATELOOP_OUTPUT/deliverable.txt/x"; echo put`, outcome: state.Success, says: "put"},
		"kills itself":               {does: "echo ouch; kill -9 $$", outcome: state.Failed, says: "ouch\n\nInference failed. signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// If the agent is to time out, it gets more and more time until it
			// has printed something: how soon it does depends on the machine.
			limit := time.Minute
			if c.outcome == state.Timeout {
				limit = 300 * time.Millisecond
			}
			h := pollBadMessage(t, c.does, c.claude, limit)
			replies := h.sentOf("reply")
			for limit < time.Minute && (len(replies) != 2 || !strings.Contains(replies[0].text, c.says) || replies[1].text != "fine") {
				limit *= 2
				h = pollBadMessage(t, c.does, c.claude, limit)
				replies = h.sentOf("reply")
			}
			h.wantTasks(c.outcome, state.Success)
			if len(replies) != 2 || !strings.Contains(replies[0].text, c.says) || replies[1].text != "fine" {
				for _, r := range replies {
					t.Errorf("reply: %.3000s", r.text)
				}
			}
			if s := h.state(); len(s.Inbox) != 0 || len(s.Outbox) != 0 || s.Turn.Status != state.HeadIdle {
				t.Errorf("left: %+v, %+v, %+v", s.Inbox, s.Outbox, s.Turn)
			}
		})
	}
}

// pollBadMessage returns a fixture whose agent does this on the message "bad", after
// one poll with that message and a good one.
func pollBadMessage(t *testing.T, does string, claude bool, limit time.Duration) *fixture {
	t.Helper()
	h := newAwakeFixture(t)
	h.agent.Turn.Timeout, h.agent.Turn.Grace = limit, 200*time.Millisecond
	answer := "echo fine"
	prelude := ""
	if claude {
		h.agent.Turn.Runner = turn.Claude
		prelude, answer = fakeClaude, "init s2; answer fine"
	}
	h.playScript(prelude + "if grep -q '^bad$' \"$AGENTSTATELOOP_CONTEXT/text.txt\"; then\n" + does + "\nexit\nfi\n" + answer + "\n")
	t.Cleanup(func() { h.endDaemon() })
	h.receive(letter{id: "<bad@example.com>", body: "bad"})
	h.receive(letter{id: "<good@example.com>", body: "good"})
	h.poll()
	return h
}

// endDaemon ends the daemon that the agent may have left.
func (h *fixture) endDaemon() {
	if pid := h.workFile("daemon"); pid != "" {
		_ = exec.Command("kill", "-9", pid).Run() // it may be gone
	}
}

// If an agent cannot be started, its messages wait, and the operator is told once why and how to
// fix it. Each poll tries again.
func TestUnstartableAgentDefersMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(h *fixture)
		says  string
	}{
		"workdir missing":   {func(h *fixture) { h.agent.Turn.Workdir = filepath.Join(h.blueprint.Dir, "nowhere") }, "is not a folder; create it, or set workdir"},
		"command not found": {func(h *fixture) { h.agent.Turn.Command = []string{"no-such-agent"} }, "command not found: no-such-agent is not in PATH"},
		"not executable":    {func(h *fixture) { h.agent.Turn.Command = []string{filepath.Join(h.blueprint.Dir, "text")} }, "is not executable"},
		"no such program":   {func(h *fixture) { h.script("#!/no/such/shell\n") }, "cannot start the command"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.write("text", "hello")
			good := *h.agent.Turn
			c.spoil(h)
			h.receive(letter{id: "<bad@example.com>"})
			h.poll()
			for range 5 {
				h.pollAfter(time.Minute)
			}
			h.wantTasks()
			if told := h.sentOf("notice"); len(told) != 1 || !strings.Contains(told[0].text, c.says) {
				t.Errorf("notices: %+v", told)
			}
			*h.agent.Turn = good
			h.script(answeringScript)
			h.receive(letter{id: "<good@example.com>", body: "good"})
			h.pollAfter(time.Minute)
			h.wantTasks(state.Success, state.Success)
		})
	}
}

// Files in the output box of an agent that fills the disk are removed to make room for its
// answer. Other files are not ours to remove: no message is consumed or reported twice until
// there is room again.
func TestAgentFillsDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inBox bool
		zeros string // what prints them
	}{
		"in its box":       {true, "cat /dev/zero"},
		"in its box, half": {true, "head -c 5000000 /dev/zero"}, // no room for the copy that goes along
		"elsewhere":        {false, "cat /dev/zero"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			disk := smallDisk(t)
			h.agent.Store.Dir = filepath.Join(disk, "state")
			h.poll()
			fill := `"$AGENTSTATELOOP_OUTPUT/fill"`
			if !c.inBox {
				fill = filepath.Join(disk, "fill")
			}
			h.playScript("if grep -q '^bad$' \"$AGENTSTATELOOP_CONTEXT/text.txt\"; then " + c.zeros + " >" + fill + "; fi\necho the answer\n")
			h.receive(letter{id: "<bad@example.com>", body: "bad"})
			h.receive(letter{id: "<good@example.com>", body: "good"})
			_, err := h.agent.Poll(t.Context(), cycle.PollOptions{})
			if c.inBox {
				check(t, err)
			} else {
				if err == nil {
					t.Error("a poll on a full disk told nothing")
				}
				check(t, os.Remove(filepath.Join(disk, "fill")))
				h.script("#!/bin/sh\ncat >prompt\necho the answer\n") // the agent is repaired too
				h.pollAfter(time.Minute)
			}
			h.wantTasks(state.Success, state.Success)
			replies := h.sentOf("reply")
			if len(replies) != 2 || !strings.HasPrefix(replies[0].text, "the answer") || replies[1].text != "the answer" {
				t.Fatalf("replies: %+v", replies)
			}
			if c.inBox != strings.Contains(replies[0].text, `the disk was full: to make room for this answer, these files were removed from the output folder: "fill"`) {
				t.Errorf("reply: %q", replies[0].text)
			}
		})
	}
}

// smallDisk returns a disk of its own, of 8 MB.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "1" {
			t.Fatalf("mount a small disk: %v: %s", err, out)
		}
		t.Skipf("a small disk cannot be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() {
		// A process that another test starts has our open files until it calls exec.
		if out, err := exec.Command("umount", "--lazy", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v: %s", err, out)
		}
	})
	return dir
}
