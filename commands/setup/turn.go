package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/turn"
)

// turnPart is [turn].
type turnPart struct {
	runner, workdir string
	sandbox         string // "" without a sandbox
	command         []string
	path            string // PATH for the agent
	conversation    string // "" without mail
}

func (t turnPart) write(d *document) {
	d.section("turn")
	d.line("runner", t.runner, strings.Join(config.Runners(), " | "))
	if len(t.command) > 0 {
		d.line("command", t.command, "")
	}
	if t.workdir != "" {
		d.line("workdir", path(t.workdir), "where the agent works")
	}
	if t.conversation != "" {
		d.line("conversation", t.conversation, "operator: a single one with you; thread: one per mail thread")
	}
	if t.sandbox != "" {
		d.line("sandbox", t.sandbox, "the agent runs in a sandbox; [turn.box] grants more")
		if t.runner == turn.Codex {
			d.text("# codex cannot create its own sandbox in it: see docs/runners.md.\n")
		}
	}
	d.text("# The PATH of the shell that ran init; cron's has only two folders.\n")
	d.text(fmt.Sprintf("env = { PATH = %s }\n", d.toml(t.path)))
}

// askTurn asks for the runner and its settings.
func (in *interview) askTurn(ctx context.Context, handle string) (turnPart, error) {
	t := turnPart{command: slices.Clone(in.Command), workdir: in.Workdir, path: permanentPath(in.Loader.Env("PATH"))}
	runner := in.Runner
	if runner == "" && len(t.command) > 0 {
		runner = turn.Exec
	}
	found := foundRunner(t.path)
	if !in.Asker.CanAsk() && runner == "" {
		runner = found
	}
	var err error
	t.runner, err = in.Asker.Ask(ctx, runner, terminal.Question{
		Flag: "runner", Text: "the program that answers: claude, codex, gemini, acp (any ACP agent), api (a model API, without another program), exec (your own program) or none",
		Guess: cmp.Or(found, turn.Exec), Check: isOneOf(config.Runners()...), Try: in.tryRunner(t.path),
	})
	if err != nil {
		return t, err
	}
	if err := in.askCommand(ctx, &t); err != nil {
		return t, err
	}
	if t.workdir == "" && t.runner != "none" {
		// Not the folder of the configuration, which contains the secrets.
		t.workdir = filepath.Join(in.home, "agents", handle)
	}
	if len(t.command) > 0 {
		if err := in.makeProgramAbsolute(&t.command[0]); err != nil {
			return t, err
		}
	}
	if err := in.makeAbsolute(&t.workdir); err != nil {
		return t, err
	}
	t.sandbox, err = in.askSandbox(ctx, t)
	return t, err
}

// askConversation asks whether each mail thread is a separate conversation.
func (in *interview) askConversation(ctx context.Context) (string, error) {
	value := in.Conversation
	if value == "" && !in.Asker.CanAsk() {
		value = config.ConversationOperator
	}
	return in.Asker.Ask(ctx, value, terminal.Question{
		Flag: "conversation", Text: "the agent's conversations: operator (a single one with you) or thread (one per mail thread, so that topics do not mix)",
		Guess: config.ConversationOperator, Check: isOneOf(config.ConversationOperator, config.ConversationThread),
	})
}

// permanentPath returns a PATH that a cron job can use: absolute folders, each once, without those
// of a `go run`, and with the usual folders at the end.
func permanentPath(path string) string {
	var dirs []string
	for _, dir := range append(filepath.SplitList(path), "/usr/local/bin", "/usr/bin", "/bin") {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) && !cron.TemporaryBinary(dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// foundRunner returns the first agent found in a PATH, or "".
func foundRunner(path string) string {
	for _, runner := range []string{turn.Claude, turn.Codex, turn.Gemini} {
		if config.InPath(runner, path) != "" {
			return runner
		}
	}
	return ""
}

// checkProgram looks for a program as a turn will: a name in the PATH of the configuration, a path
// as a file.
func (in *interview) checkProgram(program, path string) error {
	if !strings.Contains(program, "/") {
		if config.InPath(program, path) != "" {
			return nil
		}
		return terminal.WithHint(fmt.Errorf("%s is not in the agent's PATH (%s)", program, path), "install it, or give its full path")
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

// commandQuestion describes the command of a runner that needs one. It returns "" for other
// runners.
func commandQuestion(runner string) string {
	switch runner {
	case turn.Exec:
		return "the command line of your program, which reads the prompt on stdin and prints the answer"
	case turn.ACP:
		return "the command line of the agent, with its arguments for ACP, such as gemini --acp"
	}
	return ""
}

// commandHint returns the hint for a command whose program is missing.
func commandHint(command []string, err error) string {
	hint := "--no-check accepts it anyway"
	if words := strings.Fields(command[0]); len(words) > 1 {
		return "use one --command for each word: --command " + strings.Join(words, " --command ")
	}
	if first := terminal.HintOf(err); first != "" {
		hint = first + "; " + hint
	}
	return hint
}

// askCommand asks for the command of the agent. Only runner = "exec" and "acp" need one.
func (in *interview) askCommand(ctx context.Context, t *turnPart) error {
	if len(t.command) == 0 && commandQuestion(t.runner) == "" {
		return nil
	}
	if len(t.command) > 0 {
		err := in.checkProgram(t.command[0], t.path)
		switch {
		case err == nil || in.NoCheck || in.Print:
			return nil
		case !in.Asker.CanAsk():
			return in.Asker.Wrong(commandHint(t.command, err), "--command: %v", err)
		}
		if kept, err := in.Asker.Keep(ctx, err, "use it anyway?"); kept || err != nil {
			return err
		}
	}
	command, err := in.Asker.Ask(ctx, "", terminal.Question{
		Flag: "command", Text: cmp.Or(commandQuestion(t.runner), commandQuestion(turn.Exec)),
		Guess: strings.Join(t.command, " "), Check: isText,
		Try: func(_ context.Context, answer string) error {
			return in.checkProgram(strings.Fields(answer)[0], t.path)
		},
	})
	t.command = strings.Fields(command)
	return err
}
