package box

import (
	"io"
	"time"
)

// Box is what a program sees and may use. A program in a box has the user "agent",
// whatever user we are; files that belong to us belong to it.
type Box struct {
	Self string // our own binary; an absolute path

	// Folders or files that exist in the box under their own paths, which are
	// absolute. What lies below a folder of Write is writable, even if Read names
	// it. "/", /etc and whatever is below /proc, /sys or /dev are errors, as is a
	// path that does not exist.
	Write, Read []string

	Dir string // the folder to start in; "" is /tmp, which ends with the box

	// Home is HOME in the box; "" is a folder below /tmp. Of a home elsewhere only
	// what was granted exists. The rest of it is empty, writable, and ends with the
	// box.
	Home string

	// LocalSockets lets the program use unix sockets, which many agents need for
	// their own processes. Without it a socket in a granted folder, or with Network
	// an abstract one of the machine, cannot be reached.
	LocalSockets bool

	// Network grants the network of this machine, including what listens on its
	// loopback addresses. Without it the box has a loopback interface of its own
	// and no other.
	Network bool

	Limits Limits
}

// Limits bound what a program uses. Zero means none.
type Limits struct {
	Processes int           // of the box at the same time; each thread counts
	Memory    int64         // bytes, of the box; /tmp and /dev/shm have limits of their own
	FileSize  int64         // bytes, of a file that it writes
	CPU       time.Duration // of one process; rounded up to seconds
}

// Program is what runs in a box.
type Program struct {
	Argv []string // a name without a slash is looked up in PATH, inside the box

	// Env is its environment. HOME, TMPDIR, USER and LOGNAME are replaced by what
	// is right in the box.
	Env []string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Stage is the hidden subcommand of our own binary, whose arguments Main takes.
const Stage = "__box"

// Exit is the error of Main after the program ended: it is the program's exit code.
// After a signal it is 128 and the signal's number. Main's caller exits with it and
// prints nothing.
type Exit int

func (e Exit) Error() string { return "the program in the box ended" }

// Way is how boxes are made on this machine. The zero Way makes none.
type Way struct {
	name  string
	bwrap string // the path of bubblewrap; "" is our own way
}

// String returns the name of the way, for messages.
func (w Way) String() string { return w.name }
