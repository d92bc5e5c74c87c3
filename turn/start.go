package turn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"agentstateloop/internal/osfile"

	"golang.org/x/sys/unix"
)

const promptName = "prompt"

// start runs program with argv in a session of its own. So the program has its own process group
// and no terminal on which it could wait for a person. start locks alive before the process
// exists. When start returns, only the agent's side holds the lock, and the process is recorded.
// An error means that the agent did not begin.
func (c Config) start(a Attempt, program string, argv []string, env map[string]string) (*process, error) {
	alive, err := lockAlive(a.Dir)
	if err != nil {
		return nil, err
	}
	defer alive.Close()
	stdin, err := promptFile(a)
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	pipes, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	defer pipes.closeTheirs()

	cmd := exec.Command(c.Self, append([]string{attemptCommand, program}, argv...)...)
	cmd.Dir = c.Workdir
	cmd.Env = environList(env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, pipes.stdout.w, pipes.stderr.w
	cmd.ExtraFiles = []*os.File{alive, pipes.release.r, pipes.fault.w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		pipes.closeOurs()
		return nil, fmt.Errorf("start agent: %w", err)
	}
	pipes.closeTheirs()

	p := &process{
		pid: cmd.Process.Pid, stdout: pipes.stdout.r, stderr: pipes.stderr.r, exited: make(chan struct{}), grace: c.Grace,
		handshake: handshake{release: pipes.release.w, fault: pipes.fault.r},
		family:    processFamily{group: cmd.Process.Pid},
	}
	err = p.handshake.begin(a.Dir, p.pid)
	if err != nil {
		_ = unix.Kill(-p.pid, unix.SIGKILL) // our child, not reaped yet, so the pid is not reused
	}
	go c.Secrets.Guarded(func() {
		_ = cmd.Wait() // the state has more detail than the error
		p.state = cmd.ProcessState
		close(p.exited)
	})()
	if err != nil {
		<-p.exited
		p.closePipes()
		p.handshake.close()
		return nil, err
	}
	return p, nil
}

// pipe is one pipe, open at both ends.
type pipe struct{ r, w *os.File }

// agentPipes are the pipes between a runner and its agent.
type agentPipes struct{ stdout, stderr, release, fault pipe }

// openPipes opens all four pipes. After an error, all of them are closed.
func openPipes() (p agentPipes, err error) {
	for _, one := range []*pipe{&p.stdout, &p.stderr, &p.release, &p.fault} {
		if one.r, one.w, err = os.Pipe(); err != nil {
			p.closeOurs()
			p.closeTheirs()
			return p, err
		}
	}
	return p, nil
}

// closeOurs closes the runner's ends. Closing an end twice is harmless.
func (p agentPipes) closeOurs() {
	for _, end := range []*os.File{p.stdout.r, p.stderr.r, p.release.w, p.fault.r} {
		end.Close()
	}
}

// closeTheirs closes the agent's ends. Closing an end twice is harmless.
func (p agentPipes) closeTheirs() {
	for _, end := range []*os.File{p.stdout.w, p.stderr.w, p.release.r, p.fault.w} {
		end.Close()
	}
}

// promptFile writes the prompt and opens it for reading. The prompt is a file and not a pipe, so
// an agent that never reads its input does not block us.
func promptFile(a Attempt) (*os.File, error) {
	name := filepath.Join(a.Dir, promptName)
	f, err := osfile.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write prompt: %w", err)
	}
	_, err = f.Write(a.Prompt)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write prompt: %w", err)
	}
	r, err := osfile.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open prompt: %w", err)
	}
	return r, nil
}

// readyTimeout bounds how long our own binary may take until it is ready to become the agent.
const readyTimeout = 30 * time.Second

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
	if err := h.fault.SetReadDeadline(time.Now().Add(readyTimeout)); err != nil {
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
	if err := h.fault.SetReadDeadline(time.Now().Add(readyTimeout)); err != nil {
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
