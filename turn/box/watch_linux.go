package box

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// watch returns an error when the whole sandbox exceeds its limits, or when its use cannot be
// measured. The kernel's own limits apply to single processes, and it does not count root's
// processes.
func (l Limits) watch() error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for range tick.C {
		if err := l.exceeded(); err != nil {
			return fmt.Errorf("all processes were ended: %w", err)
		}
	}
	return nil
}

// exceeded adds up the threads of the sandbox and their memory, except memory of files. It
// leaves out our own process, the first one. It stops counting when a limit is exceeded: it
// must not look at each of a thousand processes that multiply.
func (l Limits) exceeded() error {
	dir, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer dir.Close()
	tasks, memory := 0, int64(0)
	for {
		names, err := dir.Readdirnames(64)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err != nil || pid == os.Getpid() {
				continue
			}
			status, err := os.ReadFile("/proc/" + name + "/status")
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
				continue // it has ended
			}
			if err != nil {
				return err
			}
			tasks += int(field(status, "Threads:"))
			memory += (field(status, "RssAnon:") + field(status, "RssShmem:") + field(status, "VmSwap:")) << 10
			switch {
			case l.Processes > 0 && tasks > l.Processes:
				return fmt.Errorf("they were more than %d", l.Processes)
			case l.Memory > 0 && memory > l.Memory:
				return fmt.Errorf("together they used more than %d MiB of memory", l.Memory>>20)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// field returns the number after a name in proc_pid_status(5), or 0.
func field(status []byte, name string) int64 {
	_, after, _ := bytes.Cut(status, []byte("\n"+name))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(words[0]), 10, 64)
	return n
}
