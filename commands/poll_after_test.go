package commands

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state/store"
)

// TestWithinMemoryEndsLargeWork checks that work which takes too much memory ends with an error for
// exit 1, a hint, and a line in the log.
func TestWithinMemoryEndsLargeWork(t *testing.T) {
	a := &cycle.Agent{Store: &store.Store{Dir: t.TempDir(), Agent: "ann"}, Now: time.Now}
	known := errors.New("known")
	if err := withinMemory(a, maxMemory, func() error { return known }); err != known {
		t.Errorf("within the limit: %v", err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	err := withinMemory(a, 1, func() error {
		defer close(ended)
		<-end
		return nil
	})
	close(end)
	<-ended
	if err == nil || exitCode(err) != exitError || hintOf(err) == "" {
		t.Fatalf("beyond it: %v, exit %d, hint %q", err, exitCode(err), hintOf(err))
	}
	if log, err := os.ReadFile(a.Store.Path("log")); !strings.Contains(string(log), "MiB of memory") {
		t.Errorf("the log: %q, %v", log, err)
	}
}
