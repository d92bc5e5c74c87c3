package cycle

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// Detach starts a poll of this agent in a session of its own, which outlives
// this process and holds none of its descriptors.
func (a *Agent) Detach() error {
	if len(a.Self) == 0 {
		return errors.New("start a detached poll: the path of this program is not known")
	}
	argv := append(append([]string{}, a.Self...), "poll", "--quiet")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a detached poll: %w", err)
	}
	go a.Secrets.Guarded(func() { _ = cmd.Wait() })() // a listener lives long, and must leave no zombies
	return nil
}
