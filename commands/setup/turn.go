package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/state"
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
			d.text("# codex cannot create its own sandbox in it: see docs/operating.md.\n")
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

// agentPart is [agent].
type agentPart struct {
	handle    string
	operators []string
	stateDir  string
}

func (a agentPart) write(d *document) {
	d.section("agent")
	d.line("handle", a.handle, "its callsign in subjects is @"+a.handle)
	if len(a.operators) > 0 {
		d.line("operator", a.operators, "may wake it by mail; the first receives its mail")
	}
	if a.stateDir != "" {
		d.line("state_dir", path(a.stateDir), "")
	}
}

func (in *interview) askOperators(ctx context.Context) ([]string, error) {
	if len(in.Operators) > 0 {
		var valid []string
		for _, operator := range in.Operators {
			given, err := in.Asker.Ask(ctx, operator, terminal.Question{Flag: "operator", Check: isMailbox})
			if err != nil {
				return nil, err
			}
			if given != "" {
				valid = append(valid, given)
			}
		}
		return valid, nil
	}
	operator, err := in.Asker.Ask(ctx, "", terminal.Question{Flag: "operator", Text: "your own email address, the one you write from", Check: isAddress})
	return []string{operator}, err
}

// askAddress returns the agent's address, from its flag or by asking. It must not be one of the
// operators' addresses.
func (in *interview) askAddress(ctx context.Context, operators []string) (string, error) {
	check := func(text string) error {
		if slices.ContainsFunc(operators, func(o string) bool { return strings.EqualFold(o, text) }) {
			return errors.New("is your own address: the agent needs its own mailbox")
		}
		return isAddress(text)
	}
	return in.Asker.Ask(ctx, in.Address, terminal.Question{Flag: "address", Text: "the agent's own email address", Check: check})
}

// askHandle returns the agent's handle, from its flag or by asking. It guesses the handle from the
// address, which may be "".
func (in *interview) askHandle(ctx context.Context, address string) (string, error) {
	guess, _, _ := strings.Cut(strings.ToLower(address), "@")
	if !state.ValidHandle(guess) {
		guess = ""
	}
	return in.Asker.Ask(ctx, in.Handle, terminal.Question{Flag: "handle", Text: "the agent's name (you will call it @NAME)", Guess: guess, Check: isHandle})
}

// schedulePart is [schedule].
type schedulePart struct{ mode, crontab string }

func (s schedulePart) write(d *document) {
	if s.mode == "" && s.crontab == "" {
		return
	}
	d.section("schedule")
	if s.mode != "" {
		d.line("mode", s.mode, "crontab | fixed | none")
	}
	if s.crontab != "" {
		d.line("crontab", path(s.crontab), "")
	}
}
