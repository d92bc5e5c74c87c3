package turn

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// attemptCommand is the hidden subcommand of our own binary that calls Main.
const attemptCommand = "__attempt"

// The descriptors that the runner hands to Main, in the order of os/exec's
// ExtraFiles.
const (
	aliveFD = 3 + iota // alive, locked, open for reading
	goFD               // a byte comes when the process is recorded
	faultFD            // takes ready, and then why the program could not be started

	keptFD = 100 // where the agent has alive: shell scripts use the small numbers for themselves
)

// ready is what Main writes first, so that the runner knows that it was begun.
const ready = "r"

// Main runs `__attempt PROGRAM ARGV0 [ARG…]`, with args from PROGRAM on. It waits
// until its runner has recorded it, and becomes the agent, which keeps the lock on
// alive. If the runner dies before that, no agent begins. Main returns only if the
// program cannot be started. The runner then reads the reason from the pipe.
//
// Main must run before anything catches signals, or a TERM that comes before the
// exec is lost.
func Main(args []string) error {
	if len(args) < 2 {
		return errors.New(attemptCommand + " is for agentstateloop's own use")
	}
	if _, err := unix.FcntlInt(aliveFD, unix.F_DUPFD, keptFD); err != nil {
		return fmt.Errorf("%s: inherit alive: %w", attemptCommand, err)
	}
	for _, fd := range []int{aliveFD, goFD, faultFD} {
		unix.CloseOnExec(fd)
	}
	recorded, fault := os.NewFile(goFD, "go"), os.NewFile(faultFD, "fault")
	if _, err := fault.WriteString(ready); err != nil {
		return fmt.Errorf("%s: %w", attemptCommand, err)
	}
	if _, err := recorded.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("%s: the runner is gone: %w", attemptCommand, err)
	}
	defaultActions()
	err := unix.Exec(args[0], args[1:], os.Environ())
	_, writeErr := fault.WriteString(err.Error())
	return errors.Join(fmt.Errorf("start %s: %w", args[0], err), writeErr)
}

// defaultActions gives the next program the default actions of HUP and INT, as cron
// does. Under nohup HUP is ignored, in the background of a script INT is, and a shell
// that starts so can never catch it. Other signals are not ignored in a Go program.
func defaultActions() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // exec(2) resets what is caught
		}
	}
}

// WithholdLock keeps the lock on alive, if this process runs inside an attempt,
// from the programs that it starts from now on.
func WithholdLock() { unix.CloseOnExec(keptFD) }
