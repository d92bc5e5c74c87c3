package commands

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// checkCaller returns a check that refuses a command that the calling turn may not use, unless
// free reports that any turn may use it. The turns of other agents may not read the words of the
// operator and of others, nor use the commands of the operator (docs/design.md, "Conversations").
// This does not stop an agent that can change its environment or read our files
// (docs/security.md).
func (p *program) checkCaller(free func(*call) bool) cli.BeforeFunc {
	return func(line *cli.Context) error {
		if c := p.newCall(line); c.loader.Env("AGENTSTATELOOP_TURN") != "" && !free(c) {
			return c.checkTurn()
		}
		return nil
	}
}

// checkTurn refuses a command that not every turn may use, to a turn without the right.
func (c *call) checkTurn() error {
	a, err := c.caller()
	if err != nil {
		return err
	}
	cause, known, err := a.View().CauseOf(c.loader.Env("AGENTSTATELOOP_TURN"))
	command := strings.TrimPrefix(c.helpName(), name+" ")
	caused := "the agent caused this turn itself"
	if cause.Cause() == state.CauseTask {
		caused = "a scheduled prompt caused this turn"
	}
	switch {
	case err != nil:
		return err
	case known && command == "answer":
		return notAllowed("end your turn: it resumes with your operator's answer",
			"%s: a turn cannot answer for its operator", command)
	case known && (cause.Cause() == state.CauseSelf || cause.Cause() == state.CauseTask) && isOperatorsWord(command, len(c.args)):
		return notAllowed("`"+name+" remind` plans a turn, and your operator gets the answer of this turn",
			"%s: "+caused+"; only your operator, or a turn of theirs, may do this", command)
	case known && cause.Principal() == state.OperatorPrincipal:
		return nil
	}
	if !known {
		return notAllowed("if you are not the agent inside its turn, unset the variable",
			"%s: $AGENTSTATELOOP_TURN names an unknown turn", command)
	}
	return notAllowed("it may call submit, ask, send, sleep, remind, remember, report, history --search, nudge, poll and status",
		"%s: this turn was caused by another agent or a program; only a turn of your operator may do this", command)
}

// notAllowed returns the error for a turn that may not call a command.
func notAllowed(hint, format, command string) error {
	return coded(codeNotAllowed, terminal.WithHint(fmt.Errorf(format, command), hint))
}

// caller returns the agent whose turn called this command. The command may be for another agent.
func (c *call) caller() (*cycle.Agent, error) {
	if path := c.loader.Env("AGENTSTATELOOP_CONFIG"); path != "" {
		return c.loader.Load(path)
	}
	return c.load()
}

// mayReadOthers reports whether the caller may read the words of the operator and of others: it is not
// in a turn that another agent or a program caused.
func (c *call) mayReadOthers() (bool, error) {
	turn := c.loader.Env("AGENTSTATELOOP_TURN")
	if turn == "" {
		return true, nil
	}
	a, err := c.caller()
	if err != nil {
		return false, err
	}
	who, err := a.View().PrincipalOf(turn)
	return who == state.OperatorPrincipal, err
}

// forEveryTurn reports whether any turn may call a command: its effect and output are limited to
// the caller's own turn, or it does not show past messages. compact refuses every turn itself.
// history and poll have checks of their own, which look at their flags.
func forEveryTurn(c *call) bool {
	switch strings.TrimPrefix(c.helpName(), name+" ") {
	case "submit", "ask", "send", "sleep", "remind", "remember", "mcp", "nudge", "status", "report", "compact", "completion", "version", "__react", cycle.HooksCommand:
		return true
	}
	return false
}

// isOperatorsWord reports whether a command with so many arguments counts as a word of the
// operator. Such a word lets the agent cause turns again, or gives it money (docs/design.md, "It
// drives itself").
func isOperatorsWord(command string, args int) bool {
	switch command {
	case "tell", "stop", "halt", "resume", "reset", "inbox retry", "inbox release", "prompt run":
		return true
	case "credit":
		return args > 0
	}
	return false
}
