package turn

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// answer runs the agent until it has an answer.
func (b *fixture) answer(ctx context.Context) Result {
	b.t.Helper()
	res, err := b.Config.Answer(ctx, b.Attempt, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// workAgain is a line of an agent that works again after it was done.
const workAgain = `{"type":"assistant","message":{"content":[{"type":"text","text":"And more."}]}}` + "\n"

// TestAnswerAtDone checks that an answer counts when the agent is done, not when its process ends.
// Later text and files of the process are not part of it, and later costs are.
func TestAnswerAtDone(t *testing.T) {
	t.Parallel()
	later := strings.ReplaceAll(claudeGood, "One file.", "Two files.")
	later = strings.Replace(later, `"total_cost_usd":0.25`, `"total_cost_usd":0.75`, 1)
	if !strings.Contains(later, "Two files.") || !strings.Contains(later, "0.75") {
		t.Fatal("the recorded stream has changed")
	}
	b := fakeCLI(t, Claude, claudeGood, "touch \"$AGENTSTATELOOP_OUTPUT/early\"; while [ ! -e go ]; do sleep 0.02; done; cat later; touch \"$AGENTSTATELOOP_OUTPUT/late\"; exit 3")
	writeConfig(t, filepath.Join(b.Workdir, "later"), workAgain+later)
	b.Settle = 50 * time.Millisecond
	res := b.answer(t.Context())
	res.check(t, Success, ExitIdle, "One file.", "")
	if res.Rest == nil || res.CostUSD != 0.25 {
		t.Fatalf("%+v", res)
	}
	if held, _, err := Probe(b.Dir); !held || err != nil {
		t.Errorf("its process does not hold the lock: %v", err)
	}
	await(t, "the view shows that it is idle", func() bool {
		l, err := ReadLive(b.Dir)
		return err == nil && l.Lifecycle == LifecycleIdle && l.Reason == ""
	})
	writeConfig(t, filepath.Join(b.Workdir, "go"), "")
	last := res.Rest()
	if last.Text != "One file." || last.Status != Success || last.CostUSD != 0.75 || last.ExitCode != 3 || last.Exit != ExitError {
		t.Errorf("%+v", last)
	}
	for _, name := range append(res.Output, last.Output...) {
		if name == "late" {
			t.Error("a file that came after the answer is part of it")
		}
	}
	if l, err := ReadLive(b.Dir); err != nil || l.Lifecycle != LifecycleKilled || l.Reason != "exit status 3" {
		t.Errorf("%+v, %v", l, err)
	}
	wantFree(t, b.Dir)
	if text := readFile(t, b.Dir, "events.jsonl"); !strings.Contains(text, "Two files.") || !strings.Contains(text, `"kind":"end","exit":"error","exit_code":3,"status":"success"`) {
		t.Errorf("%s", text)
	}
}

// TestWorkResumedBeforeSettle checks that a runner waits for an agent that works again before its
// answer counts.
func TestWorkResumedBeforeSettle(t *testing.T) {
	t.Parallel()
	b := fakeCLI(t, Claude, claudeGood+workAgain, "while [ ! -e go ]; do sleep 0.02; done; cat rest")
	b.Settle = time.Millisecond // the stream comes in one piece
	writeConfig(t, filepath.Join(b.Workdir, "rest"), strings.ReplaceAll(claudeGood, "One file.", "Two files."))
	go func() {
		for l, _ := ReadLive(b.Dir); l.Lifecycle != LifecycleWorking || l.State != StateResponding; l, _ = ReadLive(b.Dir) {
			time.Sleep(5 * time.Millisecond) // the live view is a file of another process
		}
		os.WriteFile(filepath.Join(b.Workdir, "go"), nil, 0o600)
	}()
	res := b.answer(t.Context())
	if res.Rest != nil {
		res = res.Rest()
	}
	if res.Text != "Two files." {
		t.Errorf("%+v", res)
	}
}

// TestStopAfterAnswer checks that a stop does not change the answer of an agent that has one.
func TestStopAfterAnswer(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	b := fakeCLI(t, Claude, claudeGood, "exec sleep 1000")
	b.Settle = 10 * time.Millisecond
	res := b.answer(ctx)
	res.check(t, Success, ExitIdle, "One file.", "")
	stop(ErrStopped)
	if last := res.Rest(); last.Status != Success || last.Text != "One file." || last.Exit != ExitStopped {
		t.Errorf("%+v", last)
	}
	if l, err := ReadLive(b.Dir); err != nil || l.Lifecycle != LifecycleKilled || l.Reason != "stopped" {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestLiveViewShowsEndReason checks that the view shows why a process has ended.
func TestLiveViewShowsEndReason(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo hello":                        "clean exit",
		"exit 4":                            "exit status 4",
		"kill -KILL $$":                     "signal: killed",
		"echo x; exec sleep 1000":           "timeout: printed nothing for 200ms",
		"while :; do echo; sleep 0.02;done": "timeout: ran longer than 400ms",
	} {
		b := newFixture(t, script)
		switch {
		case strings.Contains(want, "printed nothing"):
			b.Silence = 200 * time.Millisecond
		case strings.Contains(want, "ran longer"):
			b.Timeout = 400 * time.Millisecond
		}
		b.run()
		if l, err := ReadLive(b.Dir); err != nil || l.Lifecycle != LifecycleKilled || l.Reason != want || l.State != StateIdle {
			t.Errorf("%s: %+v, %v; want %s", script, l, err, want)
		}
	}
}

// TestLimitOfLingeringProgram checks that a limit counts if the program stays on after it has
// reported it.
func TestLimitOfLingeringProgram(t *testing.T) {
	t.Parallel()
	failed := `{"type":"result","subtype":"success","is_error":true,"result":"You’ve hit your usage limit. Try again in 2 hours."}` + "\n"
	b := fakeCLI(t, Claude, failed, "while [ ! -e go ]; do sleep 0.02; done")
	b.Settle = 50 * time.Millisecond
	res := b.answer(t.Context())
	if res.Rest == nil || res.Outage == nil || res.Outage.Kind != state.UsageLimit || time.Until(res.Outage.Until) < time.Hour {
		t.Errorf("%+v", res)
	}
	writeConfig(t, filepath.Join(b.Workdir, "go"), "")
	if last := res.Rest(); last.Outage == nil || last.Exit != ExitClean {
		t.Errorf("%+v", last)
	}
}
