package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// shortRest is the longest rest after failed turns that tell waits for.
const shortRest = 10 * time.Second

type tellCmd struct {
	agents agents
	input  input
	out    *terminal.Output
	now    func() time.Time
}

func tellCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "tell",
		Usage:     "send the agent a message from here, and print its answer",
		ArgsUsage: "TEXT",
		Description: `Counts as a message of the operator, sends no mail, and waits for what the turn
hands back. Ctrl-C ends the waiting, not the turn. If no turn can run soon
(HALT, no money left, a rest after failures) it says so and does not wait. With
- as TEXT the message is read from standard input. With --no-wait it prints the
message's key; ` + "`agentstateloop inbox show KEY`" + ` has the answer once it is there.

With --mail the answer is mailed to the operator instead, as that of a mail is.
A program has its own ways to speak, with fewer rights: see "Words of programs"
in docs/operating.md.

Example:
  agentstateloop tell "what are you working on?"`,
		Flags: []cli.Flag{
			switchFlag("mail", "mail the answer to the operator, and return"),
			switchFlag("no-wait", "print the message's key and return"),
		},
		Action: tellCmd{p.agents(), p.input(), &p.out, p.loader.Now}.run,
	}
}

func (t tellCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	text, err := t.input.message(c, 0)
	if err != nil {
		return err
	}
	a, err := t.agents.load(c)
	if err != nil {
		return err
	}
	tell := a.Tell
	if c.Bool("mail") {
		if a.Mail == nil {
			return terminal.Usagef("configure [mail], or leave out --mail to have the answer here", "no mail is configured")
		}
		tell = func(ctx context.Context, from, text string) (string, error) {
			return a.TellEvent(ctx, cycle.EventMessage{From: from, Text: text, Operator: true})
		}
	}
	key, err := tell(c.Context, userName(), text)
	if err != nil {
		return err
	}
	detach(a, t.out)
	if c.Bool("no-wait") || c.Bool("mail") {
		return t.printKey(c, key, "")
	}
	if why, err := t.noAnswerSoon(a); err != nil || why != "" {
		return t.printKey(c, key, why)
	}
	answer, err := a.Await(c.Context, key)
	if err != nil {
		return err
	}
	return t.printAnswer(c, answer)
}

// noAnswerSoon returns why waiting for an answer would be useless, or "".
func (t tellCmd) noAnswerSoon(a *cycle.Agent) (string, error) {
	if a.Turn == nil {
		return "runner is \"none\": somebody must take it from the inbox", nil
	}
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	if s.Halted() {
		return "the agent is HALTED, and answers after resume", nil
	}
	if now := t.now(); s.CooldownUntil.Sub(now) > shortRest {
		return fmt.Sprintf("too many turns failed in a row, and the agent answers after %s (%s)", terminal.Clock(s.CooldownUntil, now), terminal.Distance(s.CooldownUntil, now)), nil
	}
	if why := a.Broke(s); why != "" {
		return "the agent is out of money: " + why, nil
	}
	if err := a.Store.Blocked(s); err != nil {
		return fmt.Sprintf("no turn can run: %v", err), nil
	}
	return "", nil
}

// printKey prints the key under which a message waits, and why nobody waits for
// the answer.
func (t tellCmd) printKey(c *cli.Context, key, why string) error {
	if c.Bool("json") {
		return t.out.JSON(struct {
			Key string `json:"key"`
		}{key})
	}
	t.out.Printf("%s\n", key)
	if why != "" {
		t.out.Warn("not waiting for an answer: %s", why)
	}
	return nil
}

func (t tellCmd) printAnswer(c *cli.Context, d cycle.Deliverable) error {
	if c.Bool("json") {
		if err := t.out.JSON(d); err != nil {
			return err
		}
	} else if text := terminal.Printable(d.Whole()); text != "" {
		t.out.Printf("%s\n", strings.TrimSuffix(text, "\n"))
	}
	if d.Outcome == state.Success {
		return nil
	}
	err := fmt.Errorf("the turn ended as %s: %s", d.Outcome, plain.Line(d.Reason))
	if d.Outcome == state.Canceled {
		return err // a person stopped it: there is nothing to check
	}
	return terminal.WithHint(err,
		"`"+name+" doctor` checks the agent; what it printed is in turns/"+d.TurnID+" of the state directory")
}
