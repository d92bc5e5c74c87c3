package react

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"agentstateloop/internal/plain"
)

// runProgram returns the output of the program that run runs for the model. run must return
// soon after its context ends. runProgram drops output beyond maxResult.
func runProgram(ctx context.Context, timeout time.Duration, run func(ctx context.Context, out, errs io.Writer) error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, errs := &headBuffer{most: maxResult}, &headBuffer{most: 8 << 10}
	err := run(ctx, out, errs)
	text := out.String()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", withOutput(fmt.Sprintf("it timed out after %v and was killed; it may have done part of its work", timeout), text, errs.String())
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // it succeeded, and left a process running
		return text, nil
	case err != nil:
		return "", withOutput(err.Error(), text, errs.String())
	}
	return text, nil
}

// withOutput returns an error followed by the output of the program.
func withOutput(what, out, errs string) error {
	for _, part := range []string{out, errs} {
		if part != "" {
			what += "\n" + part
		}
	}
	return errors.New(what)
}

// headBuffer keeps the first most bytes written to it, and counts the rest.
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

// String returns the kept bytes as text for a model.
func (b *headBuffer) String() string {
	text := b.text.String()
	if b.dropped > 0 {
		text = fmt.Sprintf("%s\n[truncated: %d bytes more]", plain.TrimPartial([]byte(text)), b.dropped)
	}
	return strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\n")
}
