package setup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/turn"
	"agentstateloop/turn/box"
)

// noSandbox is the answer for running without a sandbox.
const noSandbox = "none"

// trialTimeout limits how long an agent may take to print its version in a sandbox. An agent
// written in JavaScript takes seconds on a small machine.
const trialTimeout = 20 * time.Second

// forTrial returns the context of an agent that prints its version in a sandbox.
func forTrial(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, trialTimeout)
}

// askSandbox asks whether the agent runs in a sandbox (docs/design.md, "The box of an agent"). It
// asks only at a terminal, and only if this machine can create a sandbox. An empty line selects the
// sandbox if the program works in it.
func (in *interview) askSandbox(ctx context.Context, t turnPart) (string, error) {
	guess := noSandbox
	if in.Sandbox == "" {
		self, err := in.Loader.Executable()
		if err != nil || !in.Asker.CanAsk() || !slices.Contains(sandboxed, t.runner) {
			return "", nil
		}
		if _, err := box.Bubblewrap(ctx, self); err != nil {
			return "", nil
		}
		if t.worksInSandbox(ctx, self) {
			guess = turn.Bwrap
		}
	}
	answer, err := in.Asker.Ask(ctx, in.Sandbox, terminal.Question{
		Flag: "sandbox", Text: "the agent's sandbox: bwrap (it sees only its own folder, program and login) or none",
		Guess: guess, Check: isOneOf(turn.Bwrap, noSandbox),
	})
	if answer == noSandbox {
		answer = ""
	}
	return answer, err
}

// sandboxed are the runners whose program can run in a sandbox.
var sandboxed = []string{turn.Exec, turn.Claude, turn.Codex, turn.Gemini, turn.ACP}

// worksInSandbox tries the program in a sandbox with a temporary folder and home. It only looks for
// a program of the operator's own, because running it might do anything.
func (t turnPart) worksInSandbox(ctx context.Context, self string) bool {
	if t.runner == turn.Codex {
		return false // its tools run in a sandbox of their own, which cannot be nested in ours
	}
	ctx, cancel := forTrial(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "agentstateloop-init-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	c := turn.Config{
		Runner: t.runner, Command: t.command, Workdir: dir, Self: self, Box: &turn.Sandbox{Network: true},
		Env: map[string]string{"PATH": t.path, "HOME": dir, "CLAUDE_CONFIG_DIR": filepath.Join(dir, "login")},
	}
	switch t.runner {
	case turn.Exec:
	case turn.ACP:
		_, err = c.AskACP(ctx)
		return err == nil
	default:
		_, err = c.AskVersion(ctx)
		return err == nil
	}
	program, err := c.Find()
	if err != nil {
		return false
	}
	_, err = c.SandboxFor(program)
	return err == nil
}

// tryRunner looks for the program of a runner that has its own program.
func (in *interview) tryRunner(path string) func(context.Context, string) error {
	return func(_ context.Context, runner string) error {
		if len(in.Command) > 0 || !slices.Contains([]string{turn.Claude, turn.Codex, turn.Gemini}, runner) {
			return nil
		}
		return in.checkProgram(runner, path)
	}
}
