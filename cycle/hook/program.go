package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"agentstateloop/internal/capture"
)

// Program is a hook that runs a program. The program gets the body on its standard input. Exit
// code 0 accepts the event.
type Program struct {
	Command []string // the program and its arguments; a name without a slash is looked up in our own PATH, not that of Env
	Dir     string
	Env     []string // NAME=value
}

// maxPrinted limits the output of a program on each stream, in bytes.
const maxPrinted = 64 << 10

func (p *Program) run(ctx context.Context, c Call, said func([]byte) string) error {
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(append([]string{}, p.Env...), "AGENTSTATELOOP_EVENT="+c.Event.Event, "AGENTSTATELOOP_DELIVERY="+c.ID)
	cmd.Stdin = bytes.NewReader(c.Body)
	printed, err := capture.Run(ctx, cmd, capture.Limits{Stdout: maxPrinted, Stderr: maxPrinted})
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = capture.KillGroup(cmd) // kill the remaining children; an error means that the group has ended
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

// lastLine returns the last line of a program's output.
func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}
