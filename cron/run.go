// Package cron keeps the line of each agent, and sometimes its alarm line, in the user's
// crontab (docs/protocol.md, "The crontab").
//
// It has two halves. The pure half ([Expr], [Job.Line], [Find], [Set] and [Unset]) turns an
// interval into a line and edits the text of a table. The other half, [Table], runs crontab(1).
// It reads the table, writes it under a lock shared by all agents of the user, reads it back,
// and restores the old table if the new one was not installed.
//
// Both halves keep one promise: every line that is not ours stays byte-identical
// (docs/design.md, "Promises" 5).
package cron

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/lazy"
)

// maxTable is more than any cron reads. A longer output is not a crontab.
const maxTable = 16 << 20

// A crontab program that prints more than maxComplaint bytes of errors is stopped. The first
// maxStderr bytes are kept for error messages.
const (
	maxComplaint = 64 << 10
	maxStderr    = 4 << 10
)

var (
	// noCrontab matches the message of a crontab program for a user without a table. Vixie's
	// family prints the first form, BusyBox the second.
	noCrontab = lazy.NewRegexp(`(?m)^(\S+: )?(no crontab for \S+|can't open '[^'/]+': No such file or directory)$`)

	notAllowed = lazy.NewRegexp(`not allowed to (use|access)|not authorized to use cron`)
)

// result is the output of one crontab process. stderr holds only its beginning, for error
// messages.
type result struct {
	stdout []byte
	stderr string
}

// run runs crontab(1) once, with stdin, which may be nil. It returns the output, and an error
// unless crontab exited 0 in time. The process runs without a shell, in the C locale, in its
// own process group. run kills the group after the timeout or when ctx ends.
func (t Table) run(ctx context.Context, stdin *os.File, env []string, args ...string) (result, error) {
	left := patience(ctx)
	timeout, ok := timeLeft(left, t.timeout())
	if !ok {
		return result{}, fmt.Errorf("%s was not started: an earlier call %w", t.command(), ErrHangs)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrHangs, timeout))
	defer cancel()

	cmd := exec.CommandContext(ctx, t.command(), args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	run := t.Run
	if run == nil {
		run = capture.Run
	}
	printed, err := run(ctx, cmd, capture.Limits{Stdout: maxTable, Stderr: maxComplaint})
	switch {
	case errors.Is(err, exec.ErrWaitDelay):
		_ = capture.KillGroup(cmd) // an error means that the group has ended
	case errors.Is(err, capture.ErrTooMuch):
		err = fmt.Errorf("output exceeds %d bytes", maxTable)
		if len(printed.Stdout) < maxTable {
			err = fmt.Errorf("stderr exceeds %d bytes", maxComplaint)
		}
	}
	res := result{stdout: printed.Stdout, stderr: string(printed.Stderr[:min(len(printed.Stderr), maxStderr)])}
	if err == nil {
		return res, nil
	}
	if errors.Is(context.Cause(ctx), ErrHangs) {
		reducePatience(left, args[0] != "-l")
	}
	return res, fmt.Errorf("%s: %w", strings.Join(append([]string{t.command()}, args...), " "), explain(ctx, err, res.stderr))
}

// explain returns the error for a crontab process that failed with err.
func explain(ctx context.Context, err error, stderr string) error {
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNoProgram, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case notAllowed.Get().MatchString(stderr):
		return fmt.Errorf("%w: %q", ErrNotAllowed, stderr)
	case stderr != "":
		return fmt.Errorf("%w: %q", err, stderr)
	default:
		return err
	}
}

// exited reports whether the process ended by itself, with any exit code. err is the error from
// run.
func exited(err error) bool {
	if err == nil {
		return true
	}
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Exited()
}
