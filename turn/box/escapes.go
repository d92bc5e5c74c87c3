package box

// EscapesCommand is the hidden subcommand of our own binary whose arguments
// TryEscapes takes.
const EscapesCommand = "__escapes"

// Targets are what must not be reached from inside a box.
type Targets struct {
	Hidden  map[string]string // paths that must not be readable, by what they are
	Marker  string            // a file that must not appear outside
	PID     int               // a process outside; 0: none
	Address string            // of a server outside; "" if the box has the network
	Local   bool              // the box may use local sockets
}

// Escape is one try to leave a box.
type Escape struct {
	What string // such as "reads /etc/shadow"
	Out  bool   // it succeeded
}
