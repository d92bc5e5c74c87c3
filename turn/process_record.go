package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentstateloop/internal/osfile"
)

// recordName is the file in which the runner records the agent's process. No
// descriptor of it ever reaches the agent, which could reopen one for writing
// through /proc even if it was handed down for reading.
const recordName = "process"

// maxRecord bounds, in bytes, what is read of a record.
const maxRecord = 64 << 10

// Process is an agent's process as its runner recorded it before it became the
// agent. It leads a process group of the same number.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // distinguishes it from a later process with this pid
	Boot  string `json:"boot"`  // the boot of the kernel in which PID is valid
}

// recordProcess records the process with this pid, once for an attempt. The record
// need not survive a power loss, which the process does not survive either.
func recordProcess(dir string, pid int) error {
	boot, err := bootID()
	if err != nil {
		return fmt.Errorf("record agent: read boot id: %w", err)
	}
	p, err := lookUp(pid)
	if err != nil {
		return fmt.Errorf("record agent: read start time: %w", err)
	}
	b, err := json.Marshal(Process{PID: pid, Start: p.start, Boot: boot})
	if err != nil {
		return fmt.Errorf("record agent: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, recordName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("record agent: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("record agent: %w", err)
	}
	return nil
}

// recorded reports whether an agent of the attempt in dir was recorded.
func recorded(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, recordName))
	return err == nil
}

// readProcess reads the record of the attempt in dir. Without one the Process is
// zero: the agent has not begun. Up to version 1 of the attempt's folder the
// record stood in alive. A record that cannot be understood names no process,
// because an agent without a box can write anything there.
func readProcess(dir string) (Process, error) {
	f, err := osfile.Open(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = osfile.Open(filepath.Join(dir, aliveName))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.ErrKind) {
		return Process{}, nil
	}
	if err != nil {
		return Process{}, fmt.Errorf("probe attempt: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return Process{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	var p Process
	if json.Unmarshal(b, &p) != nil {
		return Process{}, nil
	}
	return p, nil
}

// leads reports whether the recorded process leads, or led until it ended, a
// living process group of the attempt in dir. The record alone proves nothing: an
// agent that can write to the folder could name any process there. So one process
// of the group must show by what the kernel says of it that it was started for
// this attempt (belongs). The number of a group is not given to another process
// while the group lives.
func (p Process) leads(dir string) bool {
	if p.PID <= 1 || p.PID == unix.Getpgrp() {
		return false
	}
	if boot, err := bootID(); err != nil || boot != p.Boot {
		return false
	}
	if now, err := lookUp(p.PID); err == nil && now.start != p.Start {
		return false
	}
	for _, member := range processes() {
		if member.group == p.PID && member.belongs(dir) {
			return true
		}
	}
	return false
}
