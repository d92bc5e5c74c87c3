package memory

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/emersion/go-imap/v2"
)

// TestWorkWithinLimit checks that what stays within the limit runs to its end, and leaves
// no limit behind.
func TestWorkWithinLimit(t *testing.T) {
	ran := false
	if !Guard(1<<40, nil, func() { ran = true }) || !ran {
		t.Errorf("ran %v", ran)
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Errorf("the garbage collector is held to %d bytes", limit)
	}
}

// TestWorkBeyondLimit checks that Guard does not wait for what goes beyond the limit.
func TestWorkBeyondLimit(t *testing.T) {
	debug.FreeOSMemory() // memory that a test before has left would be used again, and grow nothing
	stop, stopped := make(chan struct{}), make(chan struct{})
	within := Guard(memoryInUse()+64<<20, nil, func() {
		defer close(stopped)
		hold := make([]byte, 128<<20)
		for i := range hold {
			hold[i] = 1
		}
		<-stop
		runtime.KeepAlive(hold)
	})
	if within {
		t.Error("twice the limit is within it")
	}
	close(stop)
	<-stopped
}

// TestEndlessLoop checks, in a process of its own, that the wall holds against
// what it is for: one line of an IMAP server, expanded by the library. The numbers
// in it take 3.6 GB, and those of a line that ends at the last UID never end.
func TestEndlessLoop(t *testing.T) {
	const stop, asked = imap.UID(math.MaxUint32), "MEMORY_TEST_LOOP"
	if os.Getenv(asked) != "" {
		within := Guard(128<<20, nil, func() { imap.UIDSet{{Start: 1, Stop: stop}}.Nums() })
		if !within {
			os.Exit(7)
		}
		os.Exit(0)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestEndlessLoop$")
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Fatalf("%v\n%s", err, out)
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Skip("how much memory a process took is not known here")
	}
	t.Logf("the process took %d MiB at most", used.Maxrss>>10)
	if runtime.GOOS == "linux" && used.Maxrss > 1<<20 { // in KiB; elsewhere in bytes
		t.Errorf("the process took %d KiB", used.Maxrss)
	}
}
