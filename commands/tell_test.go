package commands

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
)

// TestWaitReasonPrintedOnce checks that a reason is printed once, after some time, and not for a
// script, and that a permanent reason ends the waiting.
func TestWaitReasonPrintedOnce(t *testing.T) {
	var stderr bytes.Buffer
	p := testProgram()
	p.out.Stderr = &stderr
	why := waitReporter{call: &call{program: p}, agent: new(cycle.Agent), key: "cli:1"}
	keepWaiting := func(w view.Waiting) {
		t.Helper()
		for range 3 {
			if err := why.update(w); err != nil {
				t.Fatal(err)
			}
			why.since = why.since.Add(-reasonAfter / 2)
		}
	}
	since := time.Now()
	turn := view.Waiting{Why: view.WaitTurn, Who: "boreas3120", Since: since}
	if why.update(turn); stderr.Len() > 0 {
		t.Errorf("printed too early: %s", stderr.String())
	}
	keepWaiting(turn)
	keepWaiting(turn)
	keepWaiting(view.Waiting{Why: view.WaitTurn, Who: "boreas3120", Since: since.Add(time.Minute)})
	keepWaiting(view.Waiting{Why: view.WaitWorking, Since: since})
	if n := strings.Count(stderr.String(), "agentstateloop: waiting: "); n != 3 {
		t.Errorf("printed %d times, want 3:\n%s", n, stderr.String())
	}
	stderr.Reset()
	why.json = true
	keepWaiting(turn)
	if stderr.Len() > 0 {
		t.Errorf("printed to a script: %s", stderr.String())
	}
	err := why.update(view.Waiting{Why: view.WaitHalted, Never: true, By: []string{"here"}})
	if err == nil || exitCode(err) != exitRefused || errorCodeOf(err) != codeRefused || !strings.Contains(hintOf(err), "agentstateloop resume") || !strings.Contains(hintOf(err), "inbox show cli:1") {
		t.Errorf("HALT: %v, exit code %d, %s, %q", err, exitCode(err), errorCodeOf(err), hintOf(err))
	}
}
