package react

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"agentstateloop/turn/box"
)

// Shell is the tool exec. It runs a program of the model's choice by its argument list, without
// a shell. It is off unless the config allows it. Each call has a sandbox of its own with the
// Folders. All processes that the call started end with it (docs/design.md, "The box").
type Shell struct {
	Folders Folders
	Box     box.Box // additional grants of the config, and Self
	Way     box.Way
	Env     []string // of the program
	Timeout time.Duration
}

type execArgs struct {
	Argv []string `json:"argv" jsonschema:"the program and its arguments; no shell reads them"`
	Dir  string   `json:"dir,omitempty" jsonschema:"folder to start in; the working folder if left out"`
}

// Tool returns the callable tool.
func (s Shell) Tool() (Tool, error) {
	network := "It has no network but a loopback of its own."
	if s.Box.Network {
		network = "It may use the network."
	}
	return typed(Exec, fmt.Sprintf("Runs a program in a box and returns what it prints. In the box exist /usr, the working folder, %s, %s (to read) and a /tmp that is empty at first. %s "+
		"It has no input and may take %v. When it ends, the box ends, with all that it left running and with /tmp. "+
		"For shell syntax, run the shell: [\"sh\", \"-c\", …].", s.Folders.Output, s.Folders.Context, network, s.Timeout), s.call)
}

func (s Shell) call(ctx context.Context, a execArgs) (string, error) {
	if len(a.Argv) == 0 || a.Argv[0] == "" {
		return "", errors.New("argv is empty: name a program")
	}
	if a.Dir == "" {
		a.Dir = "."
	}
	root, name, err := s.Folders.open(a.Dir, true)
	if err != nil {
		return "", err
	}
	// Through a link the folder could be anywhere.
	info, err := root.Stat(name)
	dir := filepath.Join(root.Name(), name)
	root.Close()
	if err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a folder in the working folder", a.Dir)
	}
	b := s.Folders.Grant(s.Box, dir)
	return runProgram(ctx, s.Timeout, func(ctx context.Context, out, _ io.Writer) error {
		return b.Run(ctx, s.Way, box.Program{Argv: a.Argv, Env: s.Env, Stdout: out, Stderr: out})
	})
}

// Grant returns a sandbox that starts in dir, with the grants of b and the folders.
func (r Folders) Grant(b box.Box, dir string) box.Box {
	b.Dir = dir
	b.Write = append(b.Write[:len(b.Write):len(b.Write)], r.Workdir)
	if r.Output != "" {
		b.Write = append(b.Write, r.Output)
	}
	if r.Context != "" {
		b.Read = append(b.Read[:len(b.Read):len(b.Read)], r.Context)
	}
	return b
}
