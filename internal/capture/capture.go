// Package capture runs a program and keeps its output, up to a limit. It kills a program that
// prints more, which would otherwise fill the memory, or keep a poll waiting until a deadline.
package capture

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// ErrTooMuch means that a program exceeded its output limit and was killed.
var ErrTooMuch = errors.New("output exceeds the limit")

// childDelay is how long Run waits for the end of the output after the program itself has
// exited: a child of the program may keep its stdout open.
const childDelay = time.Second

// Limits are the output limits of a program, in bytes.
type Limits struct{ Stdout, Stderr int }

// Printed is the output of a program, up to its limits.
type Printed struct{ Stdout, Stderr []byte }

// Run runs a command from exec.CommandContext, in its own process group unless the command asks
// for a session. It kills the whole group when the context ends, or when the program exceeds
// its limits; the error is then ErrTooMuch. Otherwise the error is that of cmd.Run.
// exec.ErrWaitDelay means that the program succeeded and left a child that keeps its output
// open.
//
// When TERM ends a program, it often ends others too: a shutdown, or the end of a service,
// sends it to all processes. So Run then waits a moment for the same signal to end ctx, so that
// its caller need not take the end of the program for a fault.
func Run(ctx context.Context, cmd *exec.Cmd, limits Limits) (Printed, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	cmd.Cancel = func() error { return KillGroup(cmd) }
	cmd.WaitDelay = childDelay
	stdout, stderr := &output{cmd: cmd, limit: limits.Stdout}, &output{cmd: cmd, limit: limits.Stderr}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if terminated(cmd) {
		select {
		case <-ctx.Done():
		case <-time.After(signalDelay):
		}
	}
	if stdout.exceeded || stderr.exceeded {
		err = ErrTooMuch
	}
	return Printed{Stdout: stdout.buf.Bytes(), Stderr: stderr.buf.Bytes()}, err
}

// signalDelay is how long the same signal may take to reach this process.
const signalDelay = 200 * time.Millisecond

// terminated reports whether a signal that requests termination has ended the program.
func terminated(cmd *exec.Cmd) bool {
	if cmd.ProcessState == nil {
		return false
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}, status.Signal())
}

// KillGroup kills a started command and the processes in its process group.
func KillGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// output keeps the first most bytes written to it. A longer Write kills the program: closing
// the pipe alone would not end one that ignores SIGPIPE. (The buffer is not embedded, because
// io.Copy would call its ReadFrom instead of Write.)
type output struct {
	cmd      *exec.Cmd
	buf      bytes.Buffer
	limit    int
	exceeded bool
}

func (o *output) Write(p []byte) (int, error) {
	keep := min(len(p), o.limit-o.buf.Len())
	o.buf.Write(p[:keep])
	if keep == len(p) {
		return keep, nil
	}
	o.exceeded = true
	_ = KillGroup(o.cmd) // an error means that the group has already ended
	return keep, ErrTooMuch
}
