package cycle

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"agentstateloop/internal/secret"
	"agentstateloop/turn"
)

// Detach starts a poll of this agent in a session of its own. The poll outlives
// this process and holds none of its descriptors.
func (a *Agent) Detach() error { return a.detacher().detach() }

// detacher starts detached polls.
type detacher struct {
	self    []string // argv of this program with the agent's configuration
	secrets *secret.Known
}

// detach is Detach.
func (d detacher) detach() error { return d.start("poll", "--quiet") }

// HooksCommand is the hidden subcommand that calls the hooks.
const HooksCommand = "__hooks"

// detachHooks starts a process that calls the hooks.
func (d detacher) detachHooks() error { return d.start(HooksCommand) }

// start starts this program with a subcommand, in a session of its own.
func (d detacher) start(subcommand ...string) error {
	if len(d.self) == 0 {
		return errors.New("start a detached poll: the path of this program is unknown")
	}
	argv := append(append([]string{}, d.self...), subcommand...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	turn.WithholdLock() // otherwise a poll that a turn started would pass for its agent
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a detached poll: %w", err)
	}
	go d.secrets.Guarded(func() { _ = cmd.Wait() })() // a listener lives long, and must leave no zombies
	return nil
}
