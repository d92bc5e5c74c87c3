package acp

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentstateloop/internal/plain"
)

// maxStderr bounds the kept end of the agent's stderr, in bytes.
const maxStderr = 2 << 10

// agent is the agent's process. It is in our process group.
type agent struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	stderr *tail
	quit   chan struct{} // closed when we stop reading its messages
	exited chan struct{}
}

// startAgent starts the agent. Its stderr goes to ours, and we keep the end of it.
func startAgent(s Settings) (*agent, error) {
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Dir = s.Dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	// Our own pipe: the pipe of os/exec is closed when the process ends, and unread output is
	// lost.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	a := &agent{cmd: cmd, stdin: stdin, stdout: r, stderr: &tail{}, quit: make(chan struct{}), exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = w, io.MultiWriter(os.Stderr, a.stderr)
	cmd.WaitDelay = time.Second // a child of the agent may keep stderr open
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start agent: %w", err)
	}
	go s.Secrets.Guarded(func() {
		_ = cmd.Wait() // the state has more detail than the error
		close(a.exited)
	})()
	return a, nil
}

// end waits for the end of the process, whose input is closed. If the process does not end within
// that time, or when stopNow is closed, end sends TERM, and KILL after the same time. It discards
// the agent's messages.
func (a *agent) end(within time.Duration, messages <-chan message, stopNow <-chan struct{}) {
	defer a.stdout.Close()
	defer close(a.quit)
	for _, last := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, 0} {
		timer := time.NewTimer(within)
		for waits := true; waits; {
			select {
			case <-a.exited:
				return
			case _, ok := <-messages:
				if !ok {
					messages = nil
				}
			case <-stopNow:
				stopNow, waits = nil, false
			case <-timer.C:
				waits = false
			}
		}
		timer.Stop()
		if last != 0 {
			_ = a.cmd.Process.Signal(last)
		}
	}
}

// describeExit describes how the process ended, with the last line of its stderr. It waits briefly
// for the end.
func (a *agent) describeExit() string {
	select {
	case <-a.exited:
	case <-time.After(2 * time.Second):
		return "it closed its output"
	}
	text := a.cmd.ProcessState.String()
	if line := a.stderr.lastLine(); line != "" {
		text += ": " + line
	}
	return text
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b[max(0, len(b)-maxStderr):]...)
	t.buf = t.buf[max(0, len(t.buf)-maxStderr):]
	return len(b), nil
}

func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(plain.Text(string(t.buf)))
	return plain.OneLine(text[strings.LastIndexByte(text, '\n')+1:], 300)
}
