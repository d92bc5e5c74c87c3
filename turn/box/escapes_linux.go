package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds the attempt to reach a server outside.
const dialTimeout = 2 * time.Second

// TryEscapes runs inside a sandbox. Its argument is a Targets as JSON. It tries to reach each
// target and prints the Escapes as a JSON array.
func TryEscapes(args []string) error {
	var t Targets
	if len(args) != 1 {
		return errors.New(EscapesCommand + " is for agentstateloop's own use")
	}
	if err := json.Unmarshal([]byte(args[0]), &t); err != nil {
		return fmt.Errorf("%s: %w", EscapesCommand, err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(t.try()); err != nil {
		return err
	}
	return Exit(0)
}

// try makes every attempt. It checks descriptors first, before this process opens any.
func (t Targets) try() []Escape {
	all := []Escape{{"inherits a descriptor", inheritsDescriptor()}}
	for what, path := range t.Hidden {
		all = append(all, Escape{"reads " + what, readable(path)})
	}
	_ = os.WriteFile(t.Marker, nil, 0o600) // the caller checks outside for the file; in here the folder may be scratch space
	all = append(all,
		Escape{"reads /etc/shadow", readable("/etc/shadow")},
		Escape{"writes to /usr", writable("/usr/bin")},
		Escape{"sees processes outside", t.PID > 0 && exists(fmt.Sprintf("/proc/%d", t.PID))},
		Escape{"signals a process outside", t.PID > 0 && unix.Kill(t.PID, 0) == nil},
		Escape{"traces the first process of the sandbox", unix.PtraceAttach(1) == nil},
		Escape{"reads the memory of the first process", readable("/proc/1/mem")},
		Escape{"mounts a file system", unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") == nil},
		Escape{"creates a user namespace", unix.Unshare(unix.CLONE_NEWUSER) == nil},
		Escape{"uses a raw socket", canOpenSocket(unix.AF_PACKET)},
	)
	if t.Address != "" {
		all = append(all, Escape{"reaches a server of this machine", reachable(t.Address)})
	}
	if !t.Local {
		all = append(all, Escape{"uses a local socket", canOpenSocket(unix.AF_UNIX)})
	}
	return all
}

// inheritsDescriptor reports whether this process inherited a descriptor other than the three
// standard streams. Descriptors that it opened itself are close-on-exec.
func inheritsDescriptor() bool {
	for fd := 3; fd < maxFiles; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			return true
		}
	}
	return false
}

// readable reports whether path can be opened.
func readable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return true
}

// writable reports whether a file can be made in a folder. It removes the file again.
func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".agentstateloop-doctor-")
	if err != nil {
		return false
	}
	defer os.Remove(filepath.Clean(f.Name()))
	defer f.Close()
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func canOpenSocket(family int) bool {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func dialer() *net.Dialer { return &net.Dialer{Timeout: dialTimeout} }

func reachable(address string) bool {
	conn, err := dialer().Dial("tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
