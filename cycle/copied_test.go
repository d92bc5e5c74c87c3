package cycle_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// TestCopyRunsNothingTwice checks that the first poll after an old copy was put back does not run
// a mail again that was answered after the copy was made.
func TestCopyRunsNothingTwice(t *testing.T) {
	h := newFixture(t)
	h.pollAfter(time.Minute)
	if !h.knowsFiles() {
		t.Skip("files have no birth times here")
	}
	dir := h.agent.Store.Dir
	runProgram(t, "cp", "-a", dir, dir+".copy")
	h.receive(letter{id: "<one@example.com>", body: "deploy it"})
	h.pollAfter(time.Minute)
	h.wantRuns(1)
	check(t, os.RemoveAll(dir))
	runProgram(t, "cp", "-a", dir+".copy", dir)
	h.agent = h.blueprint.agent(h.clock.Now)
	for range 3 {
		h.pollAfter(time.Minute)
	}
	h.wantRuns(1)
	if row := h.state().Restore; row == nil || row.Settled+row.Unknown != 1 {
		t.Errorf("the restore has %+v, want one mail that is answered or unknown", row)
	}
}

// TestCopyDuringPoll puts an old copy back while a poll reads the mailbox. Mail since the copy is
// compared with the mailbox all the same, and the mail that this poll took runs once.
func TestCopyDuringPoll(t *testing.T) {
	h := newFixture(t)
	h.pollAfter(time.Minute)
	if !h.knowsFiles() {
		t.Skip("files have no birth times here")
	}
	dir := h.agent.Store.Dir
	runProgram(t, "cp", "-a", dir, dir+".copy")
	h.receive(letter{id: "<one@example.com>", body: "deploy it"})
	h.pollAfter(time.Minute)
	h.wantRuns(1)
	h.receive(letter{id: "<two@example.com>", body: "and this"})
	var once sync.Once
	replace := func(imap.NumSet, bool) error {
		once.Do(func() {
			check(t, os.RemoveAll(dir))
			runProgram(t, "cp", "-a", dir+".copy", dir)
		})
		return nil
	}
	h.onFetch.Store(&replace)
	for range 4 {
		h.pollAfter(time.Minute)
	}
	h.wantReplies("I read: deploy it", "I read: and this")
	if row := h.state().Restore; row == nil || row.Settled+row.Unknown != 1 || !row.Over {
		t.Errorf("the restore has %+v, want one mail that is answered or unknown", row)
	}
}

// TestCopiedDirectory puts an old copy of the state directory back, as a person does who knows no
// `restore`. The next poll treats it as a restore, once. A directory that `restore` or a move has
// put there is known already.
func TestCopiedDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		mark func(t *testing.T, a *cycle.Agent)
		want string // what the one line about a restore says; "": no line
	}{
		"by hand": {func(*testing.T, *cycle.Agent) {}, "a copy of the state directory, made 2026-01-05 09:01"},
		"by restore": {func(t *testing.T, a *cycle.Agent) {
			check(t, a.MarkRestored(t.Context(), morning, "backup.tar.gz"))
		}, "backup.tar.gz, made 2026-01-05 09:00"},
		"by a move": {func(t *testing.T, a *cycle.Agent) { check(t, a.MarkStays(t.Context())) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			h.pollAfter(time.Minute)
			if !h.knowsFiles() {
				t.Skip("files have no birth times here")
			}
			dir := h.agent.Store.Dir
			copied := dir + ".copy"
			runProgram(t, "cp", "-a", dir, copied)
			h.pollAfter(time.Minute)
			h.pollAfter(time.Hour)
			if got := h.restores(); len(got) != 0 {
				t.Fatalf("without a restore the history says %q", got)
			}
			check(t, os.RemoveAll(dir))
			runProgram(t, "cp", "-a", copied, dir)
			h.agent = h.blueprint.agent(h.clock.Now) // of another process
			c.mark(t, h.agent)
			for range 3 {
				h.pollAfter(time.Minute)
			}
			got := strings.Join(h.restores(), "; ")
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || strings.Contains(got, ";") {
				t.Errorf("the history says %q, want %q", got, c.want)
			}
		})
	}
}

// restores returns the reasons of the history lines about restores.
func (h *fixture) restores() (reasons []string) {
	for _, l := range h.lines(state.LineRecovery) {
		if l.What == state.WordRestored {
			reasons = append(reasons, l.From+", "+l.Reason)
		}
	}
	return reasons
}

// knowsFiles reports whether the system has identities of files.
func (h *fixture) knowsFiles() bool {
	f, err := os.Open(h.agent.Store.Path("state.json"))
	check(h.t, err)
	defer f.Close()
	return osfile.Identify(f) != osfile.Identity{}
}

func runProgram(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

// TestRetryOfAHeldMessage checks that a message that a restore holds has no turn, until a person
// lets it run.
func TestRetryOfAHeldMessage(t *testing.T) {
	h := newFixture(t)
	h.poll()
	key := h.queue("deploy it")
	check(t, h.agent.MarkRestored(t.Context(), morning, "backup.tar.gz"))
	h.pollAfter(time.Minute)
	h.wantRuns(0)
	if _, err := h.agent.Retry(t.Context(), key, ""); err != nil {
		t.Fatal(err)
	}
	h.pollAfter(time.Minute)
	h.wantRuns(1)
}
