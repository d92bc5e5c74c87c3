package box

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
