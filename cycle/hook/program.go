package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"agentstateloop/internal/capture"
)

// Program is a hook that is a program. It gets the body on its standard input, and
// takes the event by ending with exit code 0.
type Program struct {
	Command []string // the program, found in the PATH of Env if it has no slash
	Dir     string
	Env     []string // NAME=value
}

// maxPrinted limits what a program may print, in bytes.
const maxPrinted = 64 << 10

func (p *Program) run(ctx context.Context, c Call, said func([]byte) string) error {
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(append([]string{}, p.Env...), "AGENTSTATELOOP_EVENT="+c.Event.Event, "AGENTSTATELOOP_DELIVERY="+c.ID)
	cmd.Stdin = bytes.NewReader(c.Body)
	printed, err := capture.Run(ctx, cmd, capture.Limits{Stdout: maxPrinted, Stderr: maxPrinted})
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = capture.KillGroup(cmd) // what it left behind; an error means that the group has ended
		err = nil
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, capture.ErrTooMuch):
		return &Error{Reason: fmt.Sprintf("it printed more than %d KiB, and was ended", maxPrinted>>10)}
	case cmd.ProcessState != nil && cmd.ProcessState.Exited() && len(printed.Stderr) > 0:
		return &Error{Reason: fmt.Sprintf("%v: %s", err, said(lastLine(printed.Stderr)))}
	}
	return &Error{Reason: err.Error()}
}

// lastLine returns the last line that a program printed.
func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}
