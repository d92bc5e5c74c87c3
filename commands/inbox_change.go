package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/act"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// inboxDoneOptions are the flags of inbox done.
type inboxDoneOptions struct{ fields []string }

func inboxDoneCommand(p *program) *cli.Command {
	var o inboxDoneOptions
	return &cli.Command{
		Name:      "done",
		Usage:     "send the answer and end the turn of inbox next",
		ArgsUsage: "NUMBER|TURN EPOCH TEXT",
		Description: `NUMBER is the number of the message, as inbox next printed it. Scripts should
give TURN and EPOCH instead, so that a late answer cannot end a later turn. TEXT
is sent to the sender of the message. If TEXT is -, it is read from standard
input. --field is that of submit.

Examples:
  agentstateloop inbox done 12 "deployed"
  agentstateloop inbox done t4c1f 7 "deployed" --field commit=4c1f`,
		Flags: []cli.Flag{
			repeatedFlag(&o.fields, "field", "result, as `NAME=VALUE` or NAME:=JSON; may be repeated"),
		},
		Action: p.action(2, 3, o.run),
	}
}

// doneOutput is the JSON output of inbox done.
type doneOutput struct {
	Agent  string `json:"agent"`
	TurnID string `json:"turn_id"`
	Epoch  uint64 `json:"turn_epoch"`
}

func (o *inboxDoneOptions) run(c *call) error {
	byNumber := len(c.args) == 2
	var in cycle.Inside
	var err error
	if !byNumber {
		if in, err = parseTurn(c.arg(0), c.arg(1)); err != nil {
			return err
		}
	}
	text, err := c.text(c.arg(len(c.args) - 1))
	if err != nil {
		return err
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	if byNumber {
		if in, err = a.PulledTurn(c.arg(0)); err != nil {
			return terminal.WithHint(err, "`"+name+" inbox next` takes a message and prints its number")
		}
	}
	fields, err := submittedFields(o.fields)
	if err != nil {
		return err
	}
	if err := a.Done(c.ctx, in, text, fields...); err != nil {
		return err
	}
	return c.print(doneOutput{Agent: a.Handle, TurnID: in.TurnID, Epoch: in.Epoch}, "")
}

func inboxRetryCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "queue a message again",
		ArgsUsage: "NUMBER|KEY",
		Description: `For a deferred or failed message. It then does not count against [budget]
mails_an_hour. A wakeup runs now; this counts as a message from you, so the
agent may run [turn] self_turns more turns of its own.

Example:
  agentstateloop inbox retry 12`,
		Action: p.agentAction(1, 1, retryMessage),
	}
}

func retryMessage(c *call, a *cycle.Agent) error {
	key, held, err := act.Retry(c.ctx, a, c.arg(0), "", c.now())
	if err != nil {
		return err
	}
	if held != "" {
		c.out.Warn("%s", act.StillWaits(key, held))
	}
	c.detach(a)
	return c.print(inboxRetryOutput{Key: key, Held: orNull(held)}, "")
}

// inboxRetryOutput is the JSON output of inbox retry.
type inboxRetryOutput struct {
	Key  string  `json:"key"`
	Held *string `json:"held"` // why it still waits
}

// inboxDropOptions are the flags of inbox drop.
type inboxDropOptions struct{ reason string }

func inboxDropCommand(p *program) *cli.Command {
	var o inboxDropOptions
	return &cli.Command{
		Name:      "drop",
		Usage:     "remove a pending message without a turn",
		ArgsUsage: "NUMBER|KEY",
		Description: `With the number of a message in quarantine, such as q3, deletes that message for
good. With the number of an unfetched mail, such as f2, ends the retries; the
mail stays in the mailbox.

Examples:
  agentstateloop inbox drop 12 --reason "answered by hand"
  agentstateloop inbox drop q3`,
		Flags:  []cli.Flag{reasonFlag(&o.reason)},
		Action: p.agentAction(1, 1, o.run),
	}
}

func (o *inboxDropOptions) run(c *call, a *cycle.Agent) error {
	key, err := act.Drop(c.ctx, a, c.arg(0), o.reason)
	if err != nil {
		return err
	}
	return c.print(inboxDropOutput{Key: key, Dropped: true}, "")
}

// inboxDropOutput is the JSON output of inbox drop.
type inboxDropOutput struct {
	Key     string `json:"key"`
	Dropped bool   `json:"dropped"`
}

func inboxReleaseCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "release",
		Usage:     "release a message from quarantine and run it",
		ArgsUsage: "NUMBER|KEY",
		Description: `For a message of inbox list --quarantined that you have read and trust. A
released mail counts as new mail from you, whatever the reason for the
quarantine was. A released mesh message keeps its sender and its stored files. A
poll in the background runs it.

Examples:
  agentstateloop inbox show q3
  agentstateloop inbox release q3`,
		Action: p.agentAction(1, 1, releaseMessage),
	}
}

func releaseMessage(c *call, a *cycle.Agent) error {
	which := c.arg(0)
	key, already, err := act.Release(c.ctx, a, which, state.ByHand)
	if err != nil {
		return err
	}
	if already {
		c.out.Warn("%s", act.AlreadyReleased(which))
	}
	c.detach(a)
	return c.print(struct {
		Key      string `json:"key"`
		Released bool   `json:"released"`
	}{key, !already}, "")
}
