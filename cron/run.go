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

// maxTable is more than any cron reads. What prints more is not a crontab.
const maxTable = 16 << 20

var (
	// noCrontab is how crontab programs say that the user has no table: those
	// of Vixie's family in the first form, BusyBox in the second.
	noCrontab = regexp.MustCompile(`(?m)^(\S+: )?(no crontab for \S+|can't open '[^'/]+': No such file or directory)$`)

	notAllowed = regexp.MustCompile(`not allowed to (use|access)|not authorized to use cron`)
)

// result is what one crontab process printed. stderr holds no more than its
// beginning, for error messages.
type result struct {
	stdout []byte
	stderr string
}

// run runs crontab(1) once, with stdin (nil: empty), and returns what it
// printed along with an error unless it exited 0 in time. It is run without a
// shell, in the C locale, in a process group of its own that is killed when
// the time is over or ctx ends.
func (t Table) run(ctx context.Context, stdin *os.File, env []string, args ...string) (result, error) {
	timeout := t.timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no end after %v", timeout))
	defer cancel()

	stdout := &limited{max: maxTable, refuse: true}
	stderr := &limited{max: 4 << 10}
	cmd := exec.CommandContext(ctx, t.command(), args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = killGroup
	// A child of crontab's that keeps the pipes open must not hold us either.
	cmd.WaitDelay = time.Second

	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = killGroup() // none left to kill is as good
	}
	if stdout.over {
		err = fmt.Errorf("printed over %d bytes, which is no crontab", maxTable)
	}
	res := result{stdout: stdout.kept.Bytes(), stderr: stderr.kept.String()}
	if err == nil {
		return res, nil
	}
	return res, fmt.Errorf("%s: %w", strings.Join(append([]string{t.command()}, args...), " "), explain(ctx, err, res.stderr))
}

// explain says why a crontab process did not do what it was asked.
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

// exited says whether the process of err, as run returns it, ended by itself,
// with whatever exit code.
func exited(err error) bool {
	if err == nil {
		return true
	}
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Exited()
}

// limited keeps the first max bytes written to it. What is beyond is dropped,
// or refused, which ends the process that writes it. (The buffer is not
// embedded: io.Copy would find its ReadFrom and go around Write.)
type limited struct {
	kept   bytes.Buffer
	max    int
	refuse bool
	over   bool // more than max bytes came
}

func (l *limited) Write(p []byte) (int, error) {
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
