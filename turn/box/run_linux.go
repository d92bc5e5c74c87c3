package box

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killDelay is how long the first process of a sandbox may take to end after its lifeline is
// cut.
const killDelay = 2 * time.Second

// Run runs a program in the sandbox and waits until all its processes have ended: everything
// that the program started ends with it, even a daemon. When ctx is done, or when our process
// dies for any reason, everything in the sandbox is killed. The error is nil if the program
// succeeded, an *exec.ExitError if it failed, and the cause of ctx if ctx ended it. If the
// sandbox could not be made, the error is an ExitError too, with the reason on Stderr.
func (b Box) Run(ctx context.Context, w Way, p Program) error {
	s, err := b.stage()
	if err != nil {
		return err
	}
	inner, outer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("box: %w", err)
	}
	defer inner.Close()
	defer outer.Close()
	s.Lifeline, s.Strict = 3, w.bwrap == ""

	cmd := b.command(ctx, w, s, p.Argv)
	cmd.Dir, cmd.Env = "/", p.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stdout, p.Stderr
	cmd.ExtraFiles = []*os.File{inner}
	cmd.Cancel = outer.Close
	err = cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// command returns the command that makes the sandbox and starts argv in it. The command has a
// session of its own, so that the program has no terminal.
func (b Box) command(ctx context.Context, w Way, s stage, argv []string) *exec.Cmd {
	attr := &syscall.SysProcAttr{Setsid: true}
	args := b.bwrapArgv(w, s, argv)
	if w.bwrap == "" {
		args = append(append([]string{b.Self}, s.args(stageMount)...), argv...)
		attr = ownAttr(b.Network)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = attr
	cmd.WaitDelay = killDelay
	return cmd
}

// ownAttr returns the attributes for the first process of the built-in way: new namespaces,
// their user, and the capabilities to build the sandbox.
func ownAttr(network bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:      true,
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: userInside, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: userInside, HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP},
	}
	if !network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	return attr
}
