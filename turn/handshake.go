package turn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readyWithin bounds how long our own binary may take until it is ready to become
// the agent.
const readyWithin = 30 * time.Second

// maxFault bounds, in bytes, what is read of why a program could not be started.
const maxFault = 4 << 10

// handshake is the runner's side of what it agrees with Main: the process is
// recorded before it becomes the agent.
type handshake struct {
	release *os.File      // a byte lets the process become the agent
	fault   deadlinedPipe // what Main writes
	begun   bool          // the process was ready, and is recorded
}

// deadlinedPipe is an *os.File of a pipe.
type deadlinedPipe interface {
	io.ReadCloser
	SetReadDeadline(time.Time) error
}

// begin waits until the process is ready, records it, and lets it become the
// agent. That a process ended before it was ready is not an error: how it ended
// tells what happened.
func (h *handshake) begin(dir string, pid int) error {
	defer h.release.Close()
	if err := h.fault.SetReadDeadline(time.Now().Add(readyWithin)); err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	_, err := h.fault.Read(make([]byte, len(ready)))
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start agent: wait until it is ready: %w", err)
	}
	if err := recordProcess(dir, pid); err != nil {
		return err
	}
	h.begun = true
	if _, err := h.release.Write([]byte("g")); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("start agent: %w", err)
	}
	return nil
}

// reason returns why the process did not become the agent, or "". The process has
// ended, so nothing keeps the pipe open.
func (h *handshake) reason() string {
	if err := h.fault.SetReadDeadline(time.Now().Add(readyWithin)); err != nil {
		return err.Error()
	}
	b, _ := io.ReadAll(io.LimitReader(h.fault, maxFault)) // what was read counts
	return string(b)
}

// close closes our ends of the pipes.
func (h *handshake) close() {
	h.release.Close()
	h.fault.Close()
}
