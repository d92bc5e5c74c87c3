package cron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// maxTable is more than any cron reads. Longer output is not a crontab.
const maxTable = 16 << 20

var (
	// noCrontab matches the message of a crontab program that the user has no
	// table. Vixie's family prints the first form, BusyBox the second.
	noCrontab = regexp.MustCompile(`(?m)^(\S+: )?(no crontab for \S+|can't open '[^'/]+': No such file or directory)$`)

	notAllowed = regexp.MustCompile(`not allowed to (use|access)|not authorized to use cron`)
)

// result is the output of one crontab process. stderr holds only the beginning,
// for error messages.
type result struct {
	stdout []byte
	stderr string
}

// run runs crontab(1) once, with stdin, which may be nil. It returns the
// output, and an error unless crontab exited 0 in time. The process runs
// without a shell, in the C locale, in its own process group, which is killed
// after the timeout or when ctx ends.
func (t Table) run(ctx context.Context, stdin *os.File, env []string, args ...string) (result, error) {
	timeout := t.timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("timed out after %v", timeout))
	defer cancel()

	stdout := &limitedBuffer{max: maxTable, refuse: true}
	stderr := &limitedBuffer{max: 4 << 10}
	cmd := exec.CommandContext(ctx, t.command(), args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = killGroup
	// A child of crontab may keep the pipes open. Do not wait for it.
	cmd.WaitDelay = time.Second

	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = killGroup() // an error means that the group has ended
	}
	if stdout.over {
		err = fmt.Errorf("printed more than %d bytes, which is not a crontab", maxTable)
	}
	res := result{stdout: stdout.kept.Bytes(), stderr: stderr.kept.String()}
	if err == nil {
		return res, nil
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
	case notAllowed.MatchString(stderr):
		return fmt.Errorf("%w: %q", ErrNotAllowed, stderr)
	case stderr != "":
		return fmt.Errorf("%w: %q", err, stderr)
	default:
		return err
	}
}

// exited reports whether the process ended by itself, with any exit code. err
// is the error that run returned.
func exited(err error) bool {
	if err == nil {
		return true
	}
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Exited()
}

// limitedBuffer keeps the first max bytes written to it. It drops the rest, or
// returns an error, which ends the process that writes. (The buffer is not
// embedded, because io.Copy would call its ReadFrom instead of Write.)
type limitedBuffer struct {
	kept   bytes.Buffer
	max    int
	refuse bool
	over   bool // more than max bytes were written
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	keep := min(len(p), l.max-l.kept.Len())
	l.kept.Write(p[:keep])
	if keep == len(p) {
		return keep, nil
	}
	l.over = true
	if l.refuse {
		return keep, errors.New("too much output")
	}
	return len(p), nil
}
