package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

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
	folders, err := b.folders()
	if err != nil {
		return stage{}, err
	}
	s := stage{Mounts: mounts, Self: b.inside(), Dir: b.Dir, Home: b.Home, Network: b.Network, Local: b.LocalSockets, Limits: b.Limits}
	for _, m := range folders {
		s.Paths = append(s.Paths, grant{Path: m.To, Write: m.Kind == readWrite})
	}
	if b.ownHome() {
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
