package turn

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestLingering checks that a process that stays after it is done is ended, and its answer counts.
func TestLingering(t *testing.T) {
	t.Parallel()
	b := fakeCLI(t, Claude, claudeGood, "exec sleep 1000")
	b.Linger = 100 * time.Millisecond
	b.run().check(t, Success, ExitIdle, "One file.", "")

	// A process that goes to work again is not ended.
	b = fakeCLI(t, Claude, claudeGood+workAgain+claudeGood, "")
	b.run().check(t, Success, ExitClean, "One file.", "")
	b = fakeCLI(t, Claude, claudeGood+workAgain, "")
	b.run().check(t, Partial, ExitClean, "I look.\n\nOne file.\n\nAnd more.", "without a result")
}

// TestSilenceWaitsForTools checks that the no-output timeout waits for a tool until it has a result.
func TestSilenceWaitsForTools(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(claudeGood, "\n")
	use, result, rest := strings.Join(lines[:5], ""), lines[6], lines[7]+lines[8]
	run := func(limit time.Duration, script string) Result {
		b := newFixture(t, script)
		for name, text := range map[string]string{"use": use, "result": result, "rest": rest} {
			writeConfig(t, filepath.Join(b.Workdir, name), text)
		}
		b.Runner, b.Silence = Claude, limit
		return b.run()
	}
	res, _ := withGrowingLimit(func(limit time.Duration) Result {
		return run(limit, fmt.Sprintf("cat use; sleep %.3f; cat result rest", 1.5*limit.Seconds()))
	}, isSuccess)
	res.check(t, Success, ExitClean, "One file.", "")

	res, limit := withGrowingLimit(func(limit time.Duration) Result { return run(limit, `cat use result; exec sleep 1000`) }, hasPrinted)
	res.check(t, TimedOut, ExitError, "I look.", fmt.Sprintf("printed nothing for %v", limit))
}

// TestLoginRefusedUntilDeadline checks that an agent that retries a refused login until the deadline
// is a credential failure.
func TestLoginRefusedUntilDeadline(t *testing.T) {
	res, _ := withGrowingLimit(func(limit time.Duration) Result {
		b := fakeCLI(t, Codex, `{"type":"error","message":"Reconnecting... (unexpected status 401 Unauthorized)"}`+"\n", "exec sleep 1000")
		b.Timeout = limit
		return b.run()
	}, func(r Result) bool { return r.Credential != nil })
	if _, ok := state.CredentialFailure(res.Credential); !ok || res.Status != TimedOut {
		t.Errorf("%+v", res)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	res, limit := withGrowingLimit(func(limit time.Duration) Result {
		b := newFixture(t, `echo half; while :; do sleep 0.01; echo . >&2; done`)
		b.Timeout = limit
		return b.run()
	}, hasPrinted)
	res.check(t, TimedOut, ExitError, "half", fmt.Sprintf("ran longer than %v", limit))

	res, limit = withGrowingLimit(func(limit time.Duration) Result {
		b := newFixture(t, `echo half; exec sleep 1000`)
		b.Silence = limit
		return b.run()
	}, hasPrinted)
	res.check(t, TimedOut, ExitError, "half", fmt.Sprintf("printed nothing for %v", limit))

	// An agent that prints to stderr is not silent.
	res, _ = withGrowingLimit(func(limit time.Duration) Result {
		b := newFixture(t, fmt.Sprintf("for i in 1 2 3 4 5 6 7 8 9 10; do sleep %.3f; echo . >&2; done; echo whole", limit.Seconds()/8))
		b.Silence = limit
		return b.run()
	}, hasPrinted)
	res.check(t, Success, ExitClean, "whole", "")
}

// TestEarlierDeadlineCounts checks which of two deadlines of an agent counts.
func TestEarlierDeadlineCounts(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := Config{Timeout: 10 * time.Minute, Silence: 2 * time.Minute, Linger: 5 * time.Minute}.withDefaults()
	for _, test := range []struct {
		what       string
		at         time.Duration // of the last output, or of Done
		done, tool bool
		want       time.Duration
		reason     string
	}{
		{"silence comes first", time.Minute, false, false, 3 * time.Minute, "printed nothing for 2m0s"},
		{"silence just before the end", 8*time.Minute - 1, false, false, 10*time.Minute - 1, "printed nothing for 2m0s"},
		{"both at once", 8 * time.Minute, false, false, 10 * time.Minute, "ran longer than 10m0s"},
		{"the end comes first", 9 * time.Minute, false, false, 10 * time.Minute, "ran longer than 10m0s"},
		{"a tool may be silent", time.Minute, false, true, 10 * time.Minute, "ran longer than 10m0s"},
		{"lingering ends first", time.Minute, true, false, 6 * time.Minute, "lingered after its answer"},
		{"the end comes before that of lingering", 6 * time.Minute, true, false, 10 * time.Minute, "lingered after its answer"},
	} {
		d := newDeadlines(c, begin)
		d.lastOutput, d.doneAt = begin.Add(test.at), begin.Add(test.at)
		at, why := d.whileWorking(test.tool)
		if test.done {
			at, why = d.afterDone()
		}
		if got := at.Sub(begin); got != test.want || why.reason != test.reason {
			t.Errorf("%s: after %v: %s; want %v: %s", test.what, got, why.reason, test.want, test.reason)
		}
	}
	if settle := (Config{Linger: time.Millisecond, Settle: time.Second}).withDefaults().Settle; settle != time.Millisecond {
		t.Errorf("an answer is awaited for %v after Done, longer than the agent may linger", settle)
	}
}
