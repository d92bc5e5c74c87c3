package turn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const promptName = "prompt"

// start runs program with argv in its own session: its own process group, and
// no terminal on which it could wait for a person. The lock on alive is taken
// before the process exists. When start returns, only the agent's side holds it.
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
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	defer outW.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		return nil, fmt.Errorf("start agent: %w", err)
	}
	defer errW.Close()

	cmd := exec.Command(c.Self, append([]string{attemptCommand, program}, argv...)...)
	cmd.Dir = c.Workdir
	cmd.Env = environList(env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, outW, errW
	cmd.ExtraFiles = []*os.File{alive}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		outR.Close()
		errR.Close()
		return nil, fmt.Errorf("start agent: %w", err)
	}

	p := &process{
		pid: cmd.Process.Pid, stdout: outR, stderr: errR, exited: make(chan struct{}), grace: c.Grace,
		family: processFamily{group: cmd.Process.Pid},
	}
	go c.Secrets.Guarded(func() {
		_ = cmd.Wait() // the state says more than its error
		p.state = cmd.ProcessState
		close(p.exited)
	})()
	return p, nil
}

// promptFile writes the prompt and opens it for reading. It is a file and not a
// pipe, so an agent that never reads its input blocks nobody.
func promptFile(a Attempt) (*os.File, error) {
	name := filepath.Join(a.Dir, promptName)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write prompt: %w", err)
	}
	_, err = f.Write(a.Prompt)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write prompt: %w", err)
	}
	r, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open prompt: %w", err)
	}
	return r, nil
}
