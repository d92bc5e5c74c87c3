package setup

import (
	"context"
	"errors"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/state"
)

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
