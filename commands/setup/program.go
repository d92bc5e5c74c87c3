package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/turn"
)

// lookFor looks for a program as a turn will: a name in the PATH of the configuration, a path as a
// file.
func (in *interview) lookFor(program, path string) error {
	if !strings.Contains(program, "/") {
		if config.InPath(program, path) != "" {
			return nil
		}
		return terminal.WithHint(fmt.Errorf("%s is not in the PATH that the agent will have, %s", program, path), "install it, or give its full path")
	}
	if err := in.makeAbsolute(&program); err != nil {
		return err
	}
	info, err := os.Stat(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", program)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder, not a program", program)
	case !config.CanRun(program):
		return terminal.WithHint(fmt.Errorf("%s is not executable", program), "chmod +x "+program)
	}
	return nil
}

// tryRunner looks for the program of a runner that has its own program.
func (in *interview) tryRunner(path string) func(context.Context, string) error {
	return func(_ context.Context, runner string) error {
		if len(in.Command) > 0 || !slices.Contains([]string{turn.Claude, turn.Codex, turn.Gemini}, runner) {
			return nil
		}
		return in.lookFor(runner, path)
	}
}

// whatCommand describes the command of a runner that needs one. It returns "" for other runners.
func whatCommand(runner string) string {
	switch runner {
	case turn.Exec:
		return "that program, which reads the prompt on stdin and prints the answer"
	case turn.ACP:
		return "that agent, with the arguments that make it speak ACP, such as gemini --acp"
	}
	return ""
}

// commandHint returns the hint for a command whose program is missing.
func commandHint(command []string, err error) string {
	hint := "--no-check takes it as it is"
	if words := strings.Fields(command[0]); len(words) > 1 {
		return "each word needs a --command of its own: --command " + strings.Join(words, " --command ")
	}
	if first := terminal.HintOf(err); first != "" {
		hint = first + "; " + hint
	}
	return hint
}

// askCommand asks for the command of the agent. Only runner = "exec" and "acp" need one.
func (in *interview) askCommand(ctx context.Context, t *turnPart) error {
	if len(t.command) == 0 && whatCommand(t.runner) == "" {
		return nil
	}
	if len(t.command) > 0 {
		err := in.lookFor(t.command[0], t.path)
		switch {
		case err == nil || in.NoCheck || in.Print:
			return nil
		case !in.Asker.CanAsk():
			return in.Asker.Wrong(commandHint(t.command, err), "--command: %v", err)
		}
		if kept, err := in.Asker.Keep(ctx, err, "keep it as it is?"); kept || err != nil {
			return err
		}
	}
	command, err := in.Asker.Ask(ctx, "", terminal.Question{
		Flag: "command", Text: cmp.Or(whatCommand(t.runner), whatCommand(turn.Exec)),
		Guess: strings.Join(t.command, " "), Check: isText,
		Try: func(_ context.Context, answer string) error { return in.lookFor(strings.Fields(answer)[0], t.path) },
	})
	t.command = strings.Fields(command)
	return err
}
