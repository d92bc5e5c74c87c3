package turn

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"agentstateloop/internal/plain"
)

// Find returns the program that an attempt would start. A path with a slash is
// relative to Workdir; a bare name is looked up in the PATH of Env.
func (c Config) Find() (string, error) {
	_, program, err := agentFor(c.Runner)
	if err != nil {
		return "", err
	}
	if len(c.Command) > 0 {
		program = c.Command[0]
	}
	return c.find(program, c.environ(Attempt{})["PATH"])
}

// AskVersion runs the agent's program with --version, as an attempt would run it,
// and returns the first line that it prints. It must not be used with Exec, whose
// programs may do anything with that argument.
func (c Config) AskVersion(ctx context.Context) (string, error) {
	program, err := c.Find()
	if err != nil {
		return "", err
	}
	var argv []string
	if len(c.Command) > 1 {
		argv = c.Command[1:]
	}
	cmd := exec.CommandContext(ctx, program, append(argv[:len(argv):len(argv)], "--version")...)
	cmd.Dir = c.Workdir
	cmd.Env = environList(c.environ(Attempt{}))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s --version: %w", program, context.Cause(ctx))
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("%s --version: %w%s", program, err, stderrOf(err))
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return plain.Cut(line, 200), nil
}

// stderrOf returns what a failed program printed on stderr, in one short line.
func stderrOf(err error) string {
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok || len(e.Stderr) == 0 {
		return ""
	}
	return ": " + plain.Cut(plain.Line(string(e.Stderr)), 300)
}
