package react

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Shell is the tool exec. It runs a program of the model's choice by its argument
// list, without a shell in between. It is off unless the configuration allows it,
// and the program is confined (Confine): it sees the folders of the system and of
// PATH, and writes only below the Folders. On a kernel that cannot confine it, every
// call fails.
type Shell struct {
	Folders Folders
	Self    string   // our own binary, which becomes the program
	Env     []string // of the program
	Path    string   // the PATH of Env
	Timeout time.Duration
}

type execArgs struct {
	Argv []string `json:"argv" jsonschema:"the program and its arguments; no shell reads them"`
	Dir  string   `json:"dir,omitempty" jsonschema:"folder to start in; the working folder if left out"`
}

// Tool returns the callable tool.
func (s Shell) Tool() (Tool, error) {
	return typed("exec", fmt.Sprintf("Runs a program in the working folder and returns what it prints. It may write only there, may take %v, and has no input. For shell syntax, run the shell: [\"sh\", \"-c\", …].", s.Timeout), s.call)
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
	// Through a link the folder could lie anywhere.
	info, err := root.Stat(name)
	dir := filepath.Join(root.Name(), name)
	root.Close()
	if err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a folder in the working folder", a.Dir)
	}
	return runProgram(ctx, s.Timeout, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, s.Self, slices.Concat([]string{ConfinedCommand}, s.confined().args(), a.Argv)...)
		cmd.Dir, cmd.Env = dir, s.Env
		return cmd
	}, "", true)
}

// confined returns what the program may do.
func (s Shell) confined() Confined {
	c := Confined{Write: []string{s.Folders.Workdir}, Read: slices.DeleteFunc(filepath.SplitList(s.Path), func(dir string) bool { return !filepath.IsAbs(dir) })}
	if s.Folders.Output != "" {
		c.Write = append(c.Write, s.Folders.Output)
	}
	if s.Folders.Context != "" {
		c.Read = append(c.Read, s.Folders.Context)
	}
	return c
}
