package cycle_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mail/message"
	"agentstateloop/state"
)

// largeFileScript is an agent that leaves a file of two megabytes, which is its name
// over and over, in a folder of its output box, and a small one.
const largeFileScript = `
mkdir "$AGENTSTATELOOP_OUTPUT/made"
yes 'large file' | head -c 2000000 >"$AGENTSTATELOOP_OUTPUT/made/large.csv"
echo small >"$AGENTSTATELOOP_OUTPUT/small.txt"
echo the answer
`

var largeFile = sync.OnceValue(func() []byte { return []byte(strings.Repeat("large file\n", 2_000_000/11+1)[:2_000_000]) })

// wantWhole checks that the last answer holds both files.
func (h *fixture) wantWhole() {
	h.t.Helper()
	replies := h.sentOf("reply")
	if len(replies) == 0 {
		h.t.Fatal("no answer")
	}
	c := message.ContentOf([]byte(replies[len(replies)-1].raw), message.Sent{})
	if len(c.Attachments) != 2 || len(c.Problems) > 0 || !bytes.Equal(c.Attachments[0].Data, largeFile()) || string(c.Attachments[1].Data) != "small\n" ||
		c.Attachments[0].Type != "text/csv" || !strings.HasPrefix(c.Text, "the answer") {
		h.t.Errorf("%q, %d attachments, %q", c.Text, len(c.Attachments), c.Problems)
	}
}

// newLargeAnswerFixture returns a fixture in which an answer with a large file waits, its row, and
// a function that lets the mail server accept it.
func newLargeAnswerFixture(t *testing.T) (h *fixture, row state.Effect, again func()) {
	t.Helper()
	h = newAwakeFixture(t)
	h.playScript(largeFileScript)
	again = h.smtpRefuses()
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	return h, h.row(state.Reply), again
}

// largePlace returns the place of the large file in the output box.
func (h *fixture) largePlace() string {
	h.t.Helper()
	tasks := h.lines(state.LineTask)
	return h.agent.Store.Path(filepath.Join(tasks[len(tasks)-1].OutputBox, "made", "large.csv"))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// While an answer waits, its large file belongs to the row. The file returns to the agent's
// folder when the row ends in any way.
func TestLargeFileIsKeptOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *fixture, again func()){
		"sent":    func(h *fixture, again func()) { again(); h.pollAfter(2 * time.Minute); h.wantWhole() },
		"dropped": func(h *fixture, _ func()) { check(h.t, h.agent.DropEffect(h.t.Context(), h.row(state.Reply).ID, "")) },
		"while its rendered part was damaged": func(h *fixture, again func()) {
			check(h.t, os.WriteFile(h.agent.Store.Path(h.row(state.Reply).File), []byte("x"), 0o600))
			again()
			h.pollAfter(2 * time.Minute)
			h.wantWhole()
		},
		"after a crash before it was taken out": func(h *fixture, again func()) {
			check(h.t, os.WriteFile(h.largePlace(), largeFile(), 0o600))
			again()
			h.pollAfter(2 * time.Minute)
			h.wantWhole()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, row, again := newLargeAnswerFixture(t)
			if len(row.Files) != 1 || exists(h.largePlace()) || !exists(filepath.Dir(h.largePlace())) {
				t.Errorf("the row names %+v, and %s is there: %v", row.Files, h.largePlace(), exists(h.largePlace()))
			}
			if info, err := os.Stat(h.agent.Store.Path(row.File)); err != nil || info.Size() > 10_000 {
				t.Errorf("the rendered mail has %d bytes: %v", info.Size(), err)
			}
			end(h, again)
			if data, err := os.ReadFile(h.largePlace()); err != nil || !bytes.Equal(data, largeFile()) {
				t.Errorf("the output box has %d bytes of it: %v", len(data), err)
			}
			left, err := filepath.Glob(h.agent.Store.Path("outbox/*"))
			if left = slices.DeleteFunc(left, func(name string) bool { return strings.HasSuffix(name, ".damaged") }); err != nil || len(left) > 0 {
				t.Errorf("left in the outbox: %q, %v", left, err)
			}
		})
	}
}

// A large file that is damaged while its answer waits is not sent, and the answer is given up.
func TestDamagedLargeFileIsNotSent(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(string) error{"one bit": flipLast, "cut short": damages["cut short"], "removed": os.Remove} {
		t.Run(name, func(t *testing.T) {
			h, row, again := newLargeAnswerFixture(t)
			check(t, damage(h.agent.Store.Path(row.Files[0].File)))
			if _, damaged, err := h.agent.CheckFiles(); err != nil || len(damaged) != 1 {
				t.Errorf("doctor finds %v, %v", damaged, err)
			}
			again()
			h.clock.advance(2 * time.Minute)
			_, err := h.agent.Poll(t.Context(), cycle.PollOptions{})
			check(t, err)
			if n := len(h.sentOf("reply")); n != 0 {
				t.Errorf("%d answers were sent", n)
			}
			given, kept := h.state().UndeliveredEffect(row.ID)
			if !kept || !strings.Contains(given.Reason, "damaged") {
				t.Errorf("given up: %v, %q", kept, given.Reason)
			}
		})
	}
}

// An agent that lingers after its answer has its large file until it has ended.
func TestLingeringAgentKeepsLargeFile(t *testing.T) {
	t.Parallel()
	h := newRestingFixture(t)
	h.script(strings.Replace(restingScript, `touch "$AGENTSTATELOOP_OUTPUT/early"`, strings.Replace(largeFileScript, "echo the answer\n", "", 1), 1))
	again := h.smtpRefuses()
	h.receive(letter{id: "<one@example.com>"})
	wait := h.pollInBackground()
	until(t, "the end of the turn", func() bool { return len(h.lines(state.LineTask)) > 0 })
	if data, err := os.ReadFile(h.largePlace()); err != nil || !bytes.Equal(data, largeFile()) {
		t.Errorf("while it lives: %d bytes, %v", len(data), err)
	}
	h.write("go", "")
	wait()
	if exists(h.largePlace()) {
		t.Error("it is kept twice after the end of the agent")
	}
	again()
	h.pollAfter(2 * time.Minute)
	if n := len(h.sentOf("reply")); n != 1 || !exists(h.largePlace()) {
		t.Errorf("%d answers; the file is in its place: %v", n, exists(h.largePlace()))
	}
}
