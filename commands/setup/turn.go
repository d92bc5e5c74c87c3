package setup

import (
	"cmp"
	"context"
	"fmt"
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
		d.line("conversation", t.conversation, "operator: one with you; thread: one in each mail thread")
	}
	if t.sandbox != "" {
		d.line("sandbox", t.sandbox, "the agent runs in a box; [turn.box] grants more")
		if t.runner == turn.Codex {
			d.text("# The box of codex itself cannot be made in it: see docs/operating.md.\n")
		}
	}
	d.text("# The PATH of the shell that ran init: cron's has two folders.\n")
	d.text(fmt.Sprintf("env = { PATH = %s }\n", d.toml(t.path)))
}

// askTurn asks for the runner and its settings.
func (in *interview) askTurn(ctx context.Context, handle string) (turnPart, error) {
	t := turnPart{command: slices.Clone(in.Command), workdir: in.Workdir, path: lastingPath(in.Loader.Env("PATH"))}
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
		Flag: "runner", Text: "what answers: claude, codex, gemini, acp (any agent that speaks ACP), api (a model, with no other program), exec (a program of yours) or none",
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
		Flag: "conversation", Text: "how it remembers: operator (one conversation with you) or thread (one in each mail thread, so that topics do not mix)",
		Guess: config.ConversationOperator, Check: isOneOf(config.ConversationOperator, config.ConversationThread),
	})
}

// lastingPath returns a PATH that a cron job can use: absolute folders, each once, without those of
// a `go run`, and with the usual folders at the end.
func lastingPath(path string) string {
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
