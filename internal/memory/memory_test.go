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

// TestWorkWithinLimit checks that a function within the limit runs to its end, and that the limit is
// then removed.
func TestWorkWithinLimit(t *testing.T) {
	ran := false
	if !Guard(1<<40, nil, func() { ran = true }) || !ran {
		t.Errorf("ran %v", ran)
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Errorf("the garbage collector has a limit of %d bytes", limit)
	}
}

// TestWorkBeyondLimit checks that Guard does not wait for a function that exceeds the limit.
func TestWorkBeyondLimit(t *testing.T) {
	debug.FreeOSMemory() // the function would use the free memory of an earlier test
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

// TestEndlessLoop expands one line of an IMAP server with the library, in its own process. Its numbers
// take 3.6 GB, and those of a line that ends at the last UID never end.
func TestEndlessLoop(t *testing.T) {
	const stop, inner = imap.UID(math.MaxUint32), "MEMORY_TEST_LOOP"
	if os.Getenv(inner) != "" {
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
	cmd.Env = append(os.Environ(), inner+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Fatalf("%v\n%s", err, out)
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Skip("the memory of a process is unknown here")
	}
	t.Logf("the process took %d MiB at most", used.Maxrss>>10)
	if runtime.GOOS == "linux" && used.Maxrss > 1<<20 { // in KiB; elsewhere in bytes
		t.Errorf("the process took %d KiB", used.Maxrss)
	}
}
