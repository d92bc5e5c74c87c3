package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/plain"
	"agentstateloop/turn"
)

// PromptTimeout limits how long the program of a prompt may take to decide whether there is
// work. It is shorter than state.PromptLease.
const PromptTimeout = time.Minute

// maxAsked limits the output of such a program, in bytes.
const maxAsked = 1 << 20

// asked runs the program of a prompt that was due at a time. Exit code 0 means that there is
// work: asked returns "". Exit code 1 means that the prompt is skipped: asked returns the reason.
// Everything else is an error.
func (c ClockPrompt) asked(ctx context.Context, at time.Time) (nothing string, err error) {
	patience := cmp.Or(c.Patience, PromptTimeout)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := c.If
	name := filepath.Base(p.Command[0])
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(append([]string{}, p.Env...), "AGENTSTATELOOP_PROMPT="+c.Name, "AGENTSTATELOOP_DUE="+at.UTC().Format(time.RFC3339))
	turn.WithholdLock() // otherwise a program that a turn's poll starts would pass for its agent
	printed, err := capture.Run(ctx, cmd, capture.Limits{Stdout: maxAsked, Stderr: maxAsked})
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = capture.KillGroup(cmd) // processes that it left behind; an error means that the group has ended
		err = nil
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, capture.ErrTooMuch):
		return "", fmt.Errorf("its if, %s, printed more than %d MiB, and was ended", name, maxAsked>>20)
	case ctx.Err() != nil:
		return "", fmt.Errorf("its if, %s, took longer than %v, and was ended", name, patience)
	case ended && exit.ExitCode() == 1:
		return name + " says that there is nothing to do" + lastSaid(": ", printed.Stdout), nil
	case ended:
		return "", fmt.Errorf("its if, %s, ended with %v%s", name, err, lastSaid(": ", printed.Stderr))
	}
	return "", fmt.Errorf("its if cannot be started: %w", err)
}

// lastSaid returns the last line that a program printed, after a separator.
func lastSaid(separator string, printed []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(printed), "\uFFFD"))
	if text = plain.Shorten(plain.Line(text[strings.LastIndexByte(text, '\n')+1:]), 200); text == "" {
		return ""
	}
	return separator + text
}
