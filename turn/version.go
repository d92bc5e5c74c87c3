package turn

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/plain"
)

// maxVersion bounds the output of a program that is asked for its version, in bytes.
const maxVersion = 64 << 10

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

// AskVersion runs the agent's program with --version as an attempt would, in its sandbox if it
// has one, and returns the first line of its output. It must not be used with Exec, whose
// programs may do anything with that argument.
func (c Config) AskVersion(ctx context.Context) (string, error) {
	program, err := c.Find()
	if err != nil {
		return "", err
	}
	argv, env := []string{program}, c.environ(Attempt{})
	if len(c.Command) > 1 {
		argv = append(argv, c.Command[1:]...)
	}
	argv = append(argv, "--version")
	if c.Box != nil {
		if argv, err = c.sandboxCommandLine(ctx, Attempt{}, program, argv, env, nil); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.Workdir
	cmd.Env = environList(env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := capture.Run(ctx, cmd, capture.Limits{Stdout: maxVersion, Stderr: maxVersion})
	switch {
	case errors.Is(err, capture.ErrTooMuch):
		return "", fmt.Errorf("%s --version: output exceeds %d bytes", program, maxVersion)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s --version: %w", program, context.Cause(ctx))
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("%s --version: %w%s", program, err, stderrLine(out.Stderr))
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), "\n")
	return plain.Cut(line, 200), nil
}

// stderrLine returns the stderr of a failed program as one short line.
func stderrLine(stderr []byte) string {
	if len(stderr) == 0 {
		return ""
	}
	return ": " + plain.OneLine(string(stderr), 300)
}
