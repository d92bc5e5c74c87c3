package commands

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// checkCaller refuses a command that is called from a turn which it is not for. The
// turns of other agents may not see what the operator and others have said, nor do
// what only the operator may (docs/design.md, "Conversations"). An agent that can
// change its environment, or read our files, is not stopped by this
// (docs/security.md).
func (l agents) checkCaller(c *cli.Context) error {
	turn := l.loader.Env("AGENTSTATELOOP_TURN")
	if turn == "" || forEveryTurn(c) {
		return nil
	}
	a, err := l.caller(c)
	if err != nil {
		return err
	}
	who, err := a.PrincipalOf(turn)
	if err != nil || who == state.OperatorPrincipal {
		return err
	}
	command := strings.TrimPrefix(c.Command.HelpName, name+" ")
	if who == "" {
		return terminal.WithHint(fmt.Errorf("%s: $AGENTSTATELOOP_TURN names a turn that is not known", command),
			"if you are not the agent inside its turn, unset the variable")
	}
	return terminal.WithHint(fmt.Errorf("%s: this turn was caused by another agent; only a turn of your operator may do this", command),
		"it may call submit, ask, send, sleep, remember, history --search, nudge, poll and status")
}

// caller returns the agent whose turn has called this command. The command may be
// for another one.
func (l agents) caller(c *cli.Context) (*cycle.Agent, error) {
	if path := l.loader.Env("AGENTSTATELOOP_CONFIG"); path != "" {
		return l.loader.Load(path)
	}
	return l.load(c)
}

// forEveryTurn reports whether any turn may call a command: what it shows and does
// is for the caller's own turn, or shows nothing that was said. compact refuses
// every turn itself.
func forEveryTurn(c *cli.Context) bool {
	switch strings.TrimPrefix(c.Command.HelpName, name+" ") {
	case "submit", "ask", "send", "sleep", "remember", "nudge", "status", "compact", "completion", "__react":
		return true
	case "history":
		return c.IsSet("search")
	case "poll":
		return !c.Bool("dry-run")
	}
	return false
}
