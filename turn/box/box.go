package box

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Box is a sandbox: the files and rights that a program gets. The program runs as the user
// "agent", whichever user we are, and owns the files that belong to us.
type Box struct {
	Self string // absolute path of our own binary

	// Write and Read are folders or files granted to the program, as absolute paths; the
	// sandbox has them under the same paths. Everything below a folder of Write is writable,
	// even if Read names it. "/", /etc, any path below /proc, /sys or /dev, and a path that
	// does not exist are errors.
	Write, Read []string

	Dir string // the start folder; "" is /tmp, which ends with the sandbox

	// Home is HOME in the sandbox; "" is a folder below /tmp. A home elsewhere contains only
	// the granted paths. The rest of it is empty, writable, and ends with the sandbox.
	Home string

	// LocalSockets lets the program use unix sockets, which many agents need for their own
	// processes. Without it the program cannot reach a socket in a granted folder or, with
	// Network, an abstract socket of the machine.
	LocalSockets bool

	// Network grants the network of this machine, including the services on its loopback
	// addresses. Without it the sandbox has only a loopback interface of its own.
	Network bool

	Limits Limits
}

// Limits bound the resources of a program. Zero means unlimited.
type Limits struct {
	Processes int           // in the sandbox at the same time; each thread counts
	Memory    int64         // bytes, for the whole sandbox; /tmp and /dev/shm have limits of their own
	FileSize  int64         // bytes of one written file
	CPU       time.Duration // of one process; rounded up to seconds
}

// Program is a program to run in a sandbox.
type Program struct {
	Argv []string // a name without a slash is looked up in PATH, inside the sandbox

	// Env is the program's environment. Run replaces HOME, TMPDIR, USER and LOGNAME with values
	// that are valid in the sandbox.
	Env []string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Stage is the hidden subcommand of our own binary. Main takes its arguments.
const Stage = "__box"

// Exit is the error of Main after the program ended: the program's exit code, or 128 plus the
// signal's number if a signal ended it. Main's caller exits with that code and prints nothing.
type Exit int

func (e Exit) Error() string { return "the program in the sandbox ended" }

// Way is a method of making sandboxes on this machine. The zero Way cannot make one.
type Way struct {
	name  string
	bwrap string // the path of bubblewrap; "" is the built-in way
}

// String returns the name of the way, for messages.
func (w Way) String() string { return w.name }

// Grantable returns an error if path cannot be in Read or Write, or nil. It looks only at the
// text of the path.
func Grantable(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s is not an absolute path", path)
	}
	path = filepath.Clean(path)
	if slices.Contains([]string{"/", "/etc", "/run", "/var/run", "/bin", "/sbin", "/lib", "/lib64"}, path) {
		return fmt.Errorf("%s contains more than a sandbox may expose; name a folder in it", path)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return fmt.Errorf("%s belongs to the machine and cannot be in a sandbox", path)
		}
	}
	return nil
}

// EscapesCommand is the hidden subcommand of our own binary that runs TryEscapes.
const EscapesCommand = "__escapes"

// Targets are the resources that a program must not reach from inside a sandbox.
type Targets struct {
	Hidden  map[string]string // unreadable paths, by their names in messages
	Marker  string            // a file that must not appear outside
	PID     int               // of a process outside; 0 skips the test
	Address string            // of a server outside; "" if the sandbox has the network
	Local   bool              // the sandbox may use local sockets
}

// Escape is one attempt to leave a sandbox.
type Escape struct {
	What string // such as "reads /etc/shadow"
	Out  bool   // the attempt succeeded
}
