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

// The descriptors that the runner passes to Main, in the order of os/exec's ExtraFiles.
const (
	aliveFD = 3 + iota // alive, locked, open for reading
	goFD               // receives a byte when the process is recorded
	faultFD            // takes ready, then the error if the program cannot be started

	keptFD = 100 // the agent's descriptor of alive: shell scripts use the small numbers
)

// ready is Main's first message. It tells the runner that Main has begun.
const ready = "r"

// Main runs `__attempt PROGRAM ARGV0 [ARG…]`, with args from PROGRAM on. It waits until its
// runner has recorded it, and becomes the agent, which keeps the lock on alive. If the runner
// dies first, Main returns an error and no agent begins. If the program cannot be started, Main
// returns an error, and the runner reads the reason from the pipe.
//
// Main must run before any code catches signals. Otherwise a TERM that arrives before the exec is
// lost.
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

// defaultActions gives the next program the default actions of HUP and INT, as cron does. nohup
// ignores HUP, and a script ignores INT in the programs that it starts in the background. A shell
// that starts with an ignored signal can never catch it. A Go program ignores no other signals.
func defaultActions() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // exec(2) resets caught signals
		}
	}
}

// WithholdLock keeps the programs that this process starts from now on from inheriting the lock
// on alive. It has an effect only inside an attempt.
func WithholdLock() { unix.CloseOnExec(keptFD) }
