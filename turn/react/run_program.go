package react

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"agentstateloop/internal/plain"
)

// runProgram runs a program for the model and returns what it printed. It returns
// within timeout and a second. What the program itself started ends with the attempt,
// whose process group it shares. Output beyond maxResult is read and dropped. With
// both, standard error is part of the output.
func runProgram(ctx context.Context, timeout time.Duration, cmd func(context.Context) *exec.Cmd, stdin string, both bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, errs := &headBuffer{most: maxResult}, &headBuffer{most: 8 << 10}
	c := cmd(ctx)
	c.Stdin = strings.NewReader(stdin)
	c.Stdout, c.Stderr = out, errs
	if both {
		c.Stderr = out
	}
	c.WaitDelay = time.Second
	err := c.Run()
	text := out.String()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", withOutput(fmt.Sprintf("it timed out after %v and was killed; it may have done part of its work", timeout), text, errs.String())
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // it succeeded, and left something running
		return text, nil
	case err != nil:
		return "", withOutput(err.Error(), text, errs.String())
	}
	return text, nil
}

// withOutput returns an error with what the program printed before it.
func withOutput(what, out, errs string) error {
	for _, part := range []string{out, errs} {
		if part != "" {
			what += "\n" + part
		}
	}
	return errors.New(what)
}

// headBuffer keeps the first most bytes of what is written, and counts the rest.
type headBuffer struct {
	text    strings.Builder
	most    int
	dropped int
}

func (b *headBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.most-b.text.Len())
	b.text.Write(p[:n])
	b.dropped += len(p) - n
	return len(p), nil
}

// String returns what was kept, as text for a model.
func (b *headBuffer) String() string {
	text := b.text.String()
	if b.dropped > 0 {
		text = fmt.Sprintf("%s\n[truncated: %d bytes more]", plain.TrimPartial([]byte(text)), b.dropped)
	}
	return strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\n")
}
