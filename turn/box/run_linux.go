package box

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
		return fmt.Errorf("sandbox: %w", err)
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
		attr = builtInAttr(b.Network)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = attr
	cmd.WaitDelay = killDelay
	return cmd
}

// builtInAttr returns the attributes for the first process of the built-in way: new namespaces,
// their user, and the capabilities to build the sandbox.
func builtInAttr(network bool) *syscall.SysProcAttr {
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

// The user and the host name inside a sandbox.
const (
	userInside = 1000
	nameInside = "agent"
	hostInside = "box"
	homeInside = "/tmp/home"
)

// The stages of entering a sandbox. Each runs our own binary with Stage and the name of the
// stage as arguments.
const (
	stageMount   = "mount"   // built-in way only: builds the file system, then becomes stageInit
	stageInit    = "init"    // the first process in the sandbox: starts stageProgram and watches
	stageProgram = "program" // puts up the inner walls, then becomes the program
)

// stage is the configuration that the stages share.
type stage struct {
	Mounts   []mount `json:",omitempty"` // for stageMount
	Self     string  // our own binary, in the sandbox
	Paths    []grant // for Landlock
	Dir      string
	Home     string
	Network  bool `json:",omitempty"`
	Local    bool `json:",omitempty"` // unix sockets are allowed
	Strict   bool `json:",omitempty"` // a kernel without Landlock is an error
	Lifeline int  `json:",omitempty"` // a descriptor: the sandbox ends when its other end is closed; 0 without a lifeline
	Limits   Limits
}

// grant is a granted path inside the sandbox.
type grant struct {
	Path  string
	Write bool `json:",omitempty"`
}

// stage returns the configuration of the stages of b.
func (b Box) stage() (stage, error) {
	mounts, err := b.layout()
	if err != nil {
		return stage{}, err
	}
	folders, err := b.grantMounts()
	if err != nil {
		return stage{}, err
	}
	s := stage{Mounts: mounts, Self: b.selfPath(), Dir: b.Dir, Home: b.Home, Network: b.Network, Local: b.LocalSockets, Limits: b.Limits}
	for _, m := range folders {
		s.Paths = append(s.Paths, grant{Path: m.To, Write: m.Kind == readWrite})
	}
	if b.hasOwnHome() {
		s.Paths = append(s.Paths, grant{Path: filepath.Clean(b.Home), Write: true})
	}
	if s.Dir == "" {
		s.Dir = "/tmp"
	}
	if s.Home == "" {
		s.Home = homeInside
	}
	return s, nil
}

// args returns the arguments of a stage. The program's arguments follow them.
func (s stage) args(name string) []string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // every stage can be marshalled
	}
	return []string{Stage, name, string(text)}
}

// Main runs a stage; args are the arguments after Stage. An Exit error is how the program
// ended. Any other error explains why the sandbox could not be made.
func Main(args []string) error {
	if len(args) < 2 {
		return errors.New(Stage + " is for agentstateloop's own use")
	}
	var s stage
	if err := json.Unmarshal([]byte(args[1]), &s); err != nil {
		return fmt.Errorf("%s: %w", Stage, err)
	}
	switch argv := args[2:]; args[0] {
	case stageMount:
		return s.mount(argv)
	case stageInit:
		return s.init(argv)
	case stageProgram:
		return s.program(argv)
	}
	return errors.New(Stage + " is for agentstateloop's own use")
}

// watch returns an error when the whole sandbox exceeds its limits, or when its use cannot be
// measured. The kernel's own limits apply to single processes, and it does not count root's
// processes.
func (l Limits) watch() error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for range tick.C {
		if err := l.checkUsage(); err != nil {
			return fmt.Errorf("all processes were killed: %w", err)
		}
	}
	return nil
}

// checkUsage adds up the threads of the sandbox and their memory, except memory of files. It
// leaves out our own process, the first one. It stops counting when a limit is exceeded: it
// must not look at each of a thousand processes that multiply.
func (l Limits) checkUsage() error {
	dir, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer dir.Close()
	tasks, memory := 0, int64(0)
	for {
		names, err := dir.Readdirnames(64)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err != nil || pid == os.Getpid() {
				continue
			}
			status, err := os.ReadFile("/proc/" + name + "/status")
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
				continue // it has ended
			}
			if err != nil {
				return err
			}
			tasks += int(field(status, "Threads:"))
			memory += (field(status, "RssAnon:") + field(status, "RssShmem:") + field(status, "VmSwap:")) << 10
			switch {
			case l.Processes > 0 && tasks > l.Processes:
				return fmt.Errorf("more than %d processes", l.Processes)
			case l.Memory > 0 && memory > l.Memory:
				return fmt.Errorf("more than %d MiB of memory in use", l.Memory>>20)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// field returns the number after a name in proc_pid_status(5), or 0.
func field(status []byte, name string) int64 {
	_, after, _ := bytes.Cut(status, []byte("\n"+name))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(words[0]), 10, 64)
	return n
}
