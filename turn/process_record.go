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

// recordName is the file in which the runner records the agent's process. The agent never
// receives a descriptor of it: through /proc the agent could reopen even a read-only descriptor
// for writing.
const recordName = "process"

// maxRecord bounds how much of a record is read, in bytes.
const maxRecord = 64 << 10

// Process is the runner's record of the agent's process, made before the process became the
// agent. The process leads a process group of the same number.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // distinguishes it from a later process with this pid
	Boot  string `json:"boot"`  // the kernel's boot id; PID is valid only in this boot
}

// recordProcess records the process with this pid, once per attempt. The record need not survive
// a power loss, because the process does not survive it either.
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

// readProcess reads the record of the attempt in dir. If the record is missing, the Process is
// zero: the agent has not begun. Up to version 1 of the attempt's folder, the record was in
// alive. An unparsable record yields the zero Process, because an agent without a sandbox can
// write anything there.
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

// leads reports whether the recorded process leads, or led until it ended, a living process group
// of the attempt in dir. The record alone proves nothing: an agent with write access to the folder
// could name any process. So the kernel must show that one process of the group was started for
// this attempt (belongs). The kernel does not reuse the number of a group while the group lives.
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
