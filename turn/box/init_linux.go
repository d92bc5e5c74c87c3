package box

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// watchEvery is how often the first process adds up the resource use of the sandbox.
const watchEvery = 20 * time.Millisecond

// init is the first process in the sandbox. When it ends, the kernel kills all others. It ends
// when the program ends, when the lifeline is cut, and when the sandbox exceeds its limits. The
// program cannot look into it, trace it or kill it.
func (s stage) init(argv []string) error {
	// Keep inherited descriptors and our memory from the program.
	if err := errors.Join(
		unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC),
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
	); err != nil {
		return fmt.Errorf("sandbox: protect the first process: %w", err)
	}
	// A signal to the group is for the program. Its default action would end us, and with us
	// the program, which may want to end in order. If we ignored the signal, the program would
	// ignore it too.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	if err := s.writeEtc(); err != nil {
		return err
	}
	p, err := os.StartProcess(s.Self, append(append([]string{s.Self}, s.args(stageProgram)...), argv...), &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	ended := make(chan error, 3)
	go func() { ended <- reap(p.Pid) }()
	go func() { ended <- s.Limits.watch() }()
	if s.Lifeline != 0 {
		go func() {
			_, _ = os.NewFile(uintptr(s.Lifeline), "lifeline").Read(make([]byte, 1))
			ended <- Exit(128 + int(unix.SIGKILL))
		}()
	}
	return <-ended
}

// reap waits for ended processes; in a sandbox all orphans become our children. It returns how
// the program ended, as an Exit.
func reap(program int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && pid != program:
		case err != nil:
			return fmt.Errorf("sandbox: wait: %w", err)
		case status.Signaled():
			return Exit(128 + int(status.Signal()))
		default:
			return Exit(status.ExitStatus())
		}
	}
}

// writeEtc writes the files about users and hosts that a program may read, and makes HOME.
func (s stage) writeEtc() error {
	files := map[string]string{
		"/etc/passwd":        fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\n%s:x:%d:%d::%s:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", nameInside, userInside, userInside, s.Home),
		"/etc/group":         fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", nameInside, userInside),
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"/etc/hosts":         "127.0.0.1 localhost " + hostInside + "\n::1 localhost\n",
		"/etc/hostname":      hostInside + "\n",
	}
	for name, text := range files {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue // the machine's own file, mounted for the network
		}
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
	}
	if within("/tmp", s.Home) {
		if err := os.MkdirAll(filepath.Clean(s.Home), 0o700); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
	}
	return nil
}
