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

// watch returns an error when the box uses more than its limits allow together, or
// when that cannot be seen. The limits of the kernel are those of one process, and it
// counts none of root's.
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

// exceeded adds up how many threads the box has, and how much memory that belongs to
// no file. We, the first process, are left out. It stops counting where a limit is
// passed: of a thousand processes that multiply it must not look at each.
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
