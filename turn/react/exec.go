package react

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/internal/plain"
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
	Argv []string `json:"argv" jsonschema:"the program and its arguments, run without a shell"`
	Dir  string   `json:"dir,omitempty" jsonschema:"start folder (default: the working folder)"`
}

// Tool returns the callable tool.
func (s Shell) Tool() (Tool, error) {
	network := "It has no network, only a private loopback interface."
	if s.Box.Network {
		network = "It may use the network."
	}
	return typedTool(Exec, fmt.Sprintf("Runs a program in a sandbox and returns its output. The sandbox contains /usr, the working folder, %s, %s (read-only) and an empty /tmp. %s "+
		"The program has no input and may take %v. When it ends, the sandbox ends, with /tmp and all remaining processes. "+
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

// runProgram returns the output of the program that run runs for the model. run must return
// soon after its context ends. runProgram drops output beyond maxResult.
func runProgram(ctx context.Context, timeout time.Duration, run func(ctx context.Context, out, errs io.Writer) error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, errs := &headBuffer{most: maxResult}, &headBuffer{most: 8 << 10}
	err := run(ctx, out, errs)
	text := out.String()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", withOutput(fmt.Sprintf("timeout after %v: the program was killed and may have done part of its work", timeout), text, errs.String())
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // it succeeded, and left a process running
		return text, nil
	case err != nil:
		return "", withOutput(err.Error(), text, errs.String())
	}
	return text, nil
}

// withOutput returns an error followed by the output of the program.
func withOutput(what, out, errs string) error {
	for _, part := range []string{out, errs} {
		if part != "" {
			what += "\n" + part
		}
	}
	return errors.New(what)
}

// headBuffer keeps the first most bytes written to it, and counts the rest.
type headBuffer struct {
	text    strings.Builder
	most    int
	dropped int
}

func (b *headBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.most-b.text.Len())
	b.text.Write(p[:n])
	b.dropped += len(p) - n
	return len(p), nil
}

// String returns the kept bytes as text for a model.
func (b *headBuffer) String() string {
	text := b.text.String()
	if b.dropped > 0 {
		text = fmt.Sprintf("%s\n[truncated: %d bytes more]", plain.TrimPartial([]byte(text)), b.dropped)
	}
	return strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\n")
}
