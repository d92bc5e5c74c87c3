package turn

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/turn/box"
)

// Bwrap is the only value of [turn] sandbox besides "".
const Bwrap = "bwrap"

// Sandbox describes the sandbox that confines the agent (docs/design.md, "The box of an agent").
type Sandbox struct {
	Read, Write []string // absolute paths in the sandbox, besides those that each agent needs
	Network     bool     // access to the machine's network
}

// commandLine returns the command line that starts argv: in the sandbox of an attempt if there is
// one, and through our own process that speaks with the agent if host is not nil. program is the
// path of argv[0]. Errors are written for the operator. If the sandbox cannot be made, the agent
// is not started.
func (c Config) commandLine(ctx context.Context, a Attempt, program string, argv []string, env map[string]string, host *ACPSettings) ([]string, error) {
	switch {
	case c.Box != nil:
		return c.sandboxCommandLine(ctx, a, program, argv, env, host)
	case host != nil:
		return c.hostArgv(*host, program, argv[1:]), nil
	}
	return argv, nil
}

// sandboxCommandLine is commandLine for a Config with a sandbox.
func (c Config) sandboxCommandLine(ctx context.Context, a Attempt, program string, argv []string, env map[string]string, host *ACPSettings) ([]string, error) {
	way, err := box.Bubblewrap(ctx, c.Self)
	if err != nil {
		return nil, fmt.Errorf("agent not started: no sandbox available: %w; %s; or change sandbox in [turn]", err, box.Advice(err))
	}
	b, err := c.newSandbox(a, program, env)
	if err != nil {
		return nil, fmt.Errorf("agent not started: cannot create its sandbox: %w", err)
	}
	inside := append([]string{pathInSandbox(b, program)}, argv[1:]...)
	if host != nil {
		inside = c.hostArgv(*host, inside[0], inside[1:])
	}
	entered, err := b.Argv(way, inside)
	if err != nil {
		return nil, fmt.Errorf("agent not started: cannot create its sandbox: %w", err)
	}
	return entered, nil
}

// newSandbox returns the sandbox for a program with this environment in an attempt. It makes the
// agent's own folders that are missing.
func (c Config) newSandbox(a Attempt, program string, env map[string]string) (box.Box, error) {
	b := box.Box{
		Self: c.Self, Dir: c.Workdir, Home: env["HOME"], Network: c.Box.Network, LocalSockets: true,
		Write: append([]string{c.Workdir}, c.Box.Write...),
		Read:  append([]string{c.Self}, c.Box.Read...),
	}
	if a.Dir != "" {
		b.Write = append(b.Write, filepath.Join(a.Dir, outputName))
		b.Read = append(b.Read, filepath.Join(a.Dir, contextName))
	}
	b.Read = append(b.Read, a.Read...)
	b.Write = append(b.Write, a.Write...)
	runner := c.Runner
	if runner == ACP {
		runner = ownRunner(program)
	}
	homes, err := ownFolders(runner, env)
	if err != nil {
		return b, err
	}
	b.Write = append(b.Write, homes...)
	b.Read = append(b.Read, installation(program, env["PATH"], c.Workdir)...)
	return b, nil
}

// SandboxFor returns a sandbox without an attempt, to try a program of the same installation.
func (c Config) SandboxFor(program string) (box.Box, error) {
	return c.newSandbox(Attempt{}, program, c.environ(Attempt{}))
}

// pathInSandbox returns the path of a program inside the sandbox. A program in a writable or a
// system folder keeps its path. Any other program gets its real path, because a script finds its
// neighbours from there.
func pathInSandbox(b box.Box, program string) string {
	if isSystemPath(program) || slices.ContainsFunc(b.Write, func(dir string) bool { return isBelow(dir, program) }) {
		return program
	}
	if real, err := filepath.EvalSymlinks(program); err == nil {
		return real
	}
	return program
}

// isSystemPath reports whether a path is in a folder that every sandbox has.
func isSystemPath(path string) bool {
	return slices.ContainsFunc([]string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}, func(dir string) bool { return isBelow(dir, path) })
}

// isBelow reports whether path is dir or inside it.
func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// ownFolders returns the folders and files in which a runner's program keeps its login and its
// sessions. It makes a missing folder, because the session of this turn would otherwise be lost.
func ownFolders(runner string, env map[string]string) ([]string, error) {
	var dir string
	var files []string
	home := env["HOME"]
	switch runner {
	case Claude:
		dir, files = env["CLAUDE_CONFIG_DIR"], []string{}
		if dir == "" {
			dir, files = filepath.Join(home, ".claude"), []string{filepath.Join(home, ".claude.json")}
		}
	case Codex:
		if dir = env["CODEX_HOME"]; dir == "" {
			dir = filepath.Join(home, ".codex")
		}
	case Gemini:
		dir = filepath.Join(home, ".gemini")
	default:
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		_, err := os.Stat(file)
		return err != nil
	})
	return append(files, dir), nil
}

// installation returns the paths that a program needs in the sandbox: its file, or the folder of
// packages that holds it, and the program that interprets it. It omits system paths.
func installation(program, path, workdir string) []string {
	var found []string
	for range maxInterpreters {
		real, err := filepath.EvalSymlinks(program)
		if err != nil {
			break
		}
		if at := strings.Index(real, packages); at >= 0 {
			found = append(found, real[:at+len(packages)-1])
		} else {
			found = append(found, real)
		}
		if program != real {
			found = append(found, program)
		}
		if program = interpreter(real, path, workdir); program == "" {
			break
		}
	}
	return slices.DeleteFunc(found, isSystemPath)
}

const (
	packages        = "/node_modules/" // packages find their dependencies from here on
	maxInterpreters = 4                // a script may be interpreted by a script
	maxShebang      = 256              // bytes, as in the kernel
)

// interpreter returns the path of the program in the first line of a script, or "". For env(1) it
// returns the program that env would start.
func interpreter(script, path, workdir string) string {
	f, err := os.Open(script)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, maxShebang)).ReadString('\n')
	rest, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue
		}
		found, err := lookPath(word, path, workdir)
		if err != nil {
			return ""
		}
		return found
	}
	return ""
}
