package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// attemptCommand is the hidden subcommand of our own binary that calls Main.
const attemptCommand = "__attempt"

const (
	inheritedFD = 3   // the first of os/exec's ExtraFiles
	keptFD      = 100 // shell scripts use the small numbers for themselves
)

// Main runs `__attempt PROGRAM ARGV0 [ARG…]`, with args from PROGRAM on. It writes
// its pid, start time and boot id into the locked alive that it inherited, fsyncs
// it, and becomes the agent, which keeps the lock. It returns only if that fails.
// The runner then finds the reason in alive.
//
// Main must run before anything catches signals, or a TERM that comes before the
// exec is lost.
func Main(args []string) error {
	if len(args) < 2 {
		return errors.New(attemptCommand + " is for agentstateloop's own use")
	}
	fd, err := unix.FcntlInt(inheritedFD, unix.F_DUPFD, keptFD)
	if err != nil {
		return fmt.Errorf("%s: inherit alive: %w", attemptCommand, err)
	}
	alive := os.NewFile(uintptr(fd), aliveName)
	unix.CloseOnExec(inheritedFD)

	self := Process{PID: os.Getpid()}
	if self.Boot, err = bootID(); err != nil {
		return fmt.Errorf("%s: read boot id: %w", attemptCommand, err)
	}
	me, err := lookUp(self.PID)
	if err != nil {
		return fmt.Errorf("%s: read start time: %w", attemptCommand, err)
	}
	self.Start = me.start
	if err := record(alive, self); err != nil {
		return fmt.Errorf("%s: %w", attemptCommand, err)
	}

	err = unix.Exec(args[0], args[1:], os.Environ())
	self.Error = err.Error()
	return errors.Join(fmt.Errorf("start %s: %w", args[0], err), record(alive, self))
}

// record replaces the content of alive.
func record(alive *os.File, p Process) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := alive.Truncate(0); err != nil {
		return fmt.Errorf("write alive: %w", err)
	}
	if _, err := alive.WriteAt(append(b, '\n'), 0); err != nil {
		return fmt.Errorf("write alive: %w", err)
	}
	if err := alive.Sync(); err != nil {
		return fmt.Errorf("write alive: %w", err)
	}
	return nil
}
