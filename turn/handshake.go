package turn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readyWithin bounds how long our own binary may take until it is ready to become the agent.
const readyWithin = 30 * time.Second

// maxFault bounds the error text of a program that could not be started, in bytes.
const maxFault = 4 << 10

// handshake is the runner's side of the handshake with Main: the runner records the process
// before it becomes the agent.
type handshake struct {
	release *os.File      // a byte lets the process become the agent
	fault   deadlinedPipe // receives Main's messages
	begun   bool          // the process was ready and is recorded
}

// deadlinedPipe is an *os.File of a pipe.
type deadlinedPipe interface {
	io.ReadCloser
	SetReadDeadline(time.Time) error
}

// begin waits until the process is ready, records it, and lets it become the agent. If the
// process ends before it is ready, begin returns nil: the exit status explains the failure.
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

// reason returns why the process did not become the agent, or "". The process has ended, so the
// pipe reaches EOF.
func (h *handshake) reason() string {
	if err := h.fault.SetReadDeadline(time.Now().Add(readyWithin)); err != nil {
		return err.Error()
	}
	b, _ := io.ReadAll(io.LimitReader(h.fault, maxFault)) // a partial text is better than an error
	return string(b)
}

// close closes our ends of the pipes.
func (h *handshake) close() {
	h.release.Close()
	h.fault.Close()
}
