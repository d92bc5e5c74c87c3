package boot

import (
	"testing"
	"time"
)

// TestTheClockRuns compares the clock with a sleep, and the id with itself.
func TestTheClockRuns(t *testing.T) {
	before, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond) // the clock must show it
	after, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	if after-before < 2*time.Millisecond {
		t.Errorf("the clock moved by %v in 2 ms", after-before)
	}
	first, err := ID()
	if second, again := ID(); err != nil || again != nil || first == "" || first != second {
		t.Errorf("ids %q (%v) and %q (%v)", first, err, second, again)
	}
}
