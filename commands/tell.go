package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

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
hands back. Ctrl-C ends the waiting, not the turn. What it waits for stands on
standard error after a few seconds: another turn, the messages before it, a
server. If no turn can run soon (HALT, no money left, a rest after failures) it
says so and does not wait; if that begins later it gives up and exits 4. With -
as TEXT the message is read from standard input. With --no-wait it prints the
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
		return t.printKey(c, key, nil)
	}
	if why, err := t.noAnswerSoon(a, key); err != nil || why != nil {
		return errors.Join(err, t.printKey(c, key, why))
	}
	why := whyWaits{agent: a, key: key, out: t.out, now: t.now, quiet: c.Bool("json")}
	answer, err := a.Await(c.Context, key, why.hear)
	if err != nil {
		return err
	}
	return t.printAnswer(c, answer)
}

// noAnswerSoon returns the reason why waiting for an answer would be useless, or nil.
func (t tellCmd) noAnswerSoon(a *cycle.Agent, key string) (*view.Waiting, error) {
	s, err := a.Store.Read()
	if err != nil {
		return nil, err
	}
	if _, waits := s.Message(key); !waits {
		return nil, nil // its turn is already over
	}
	if w := a.View().WhyWaits(s, key); w.Never {
		return &w, nil
	}
	return nil, nil
}

// tellKey is the JSON output of tell if it does not wait for the answer.
type tellKey struct {
	Key   string     `json:"key"`
	Waits *tellWaits `json:"waits"` // null with --no-wait and --mail
}

// tellWaits is the reason why no answer comes soon.
type tellWaits struct {
	Why   view.WaitReason `json:"why"`
	Text  string          `json:"text"`
	Until *time.Time      `json:"until"`
}

// printKey prints the key of a pending message, and the reason why tell does not wait for the
// answer.
func (t tellCmd) printKey(c *cli.Context, key string, why *view.Waiting) error {
	out := tellKey{Key: key}
	if why != nil {
		out.Waits = &tellWaits{Why: why.Why, Text: waitText(*why, t.now())}
		if !why.Until.IsZero() {
			out.Waits.Until = &why.Until
		}
	}
	if c.Bool("json") {
		return t.out.JSON(out)
	}
	t.out.Printf("%s\n", key)
	if why == nil {
		return nil
	}
	t.out.Warn("not waiting for an answer: %s", out.Waits.Text)
	if hint := waitHint(*why, ""); hint != "" {
		t.out.Note("hint", "%s", hint)
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
	err := coded(codeFailed, fmt.Errorf("the turn ended as %s: %s", d.Outcome, plain.Line(d.Reason)))
	if d.Outcome == state.Canceled {
		return err // a person stopped it, so the cause is known
	}
	return terminal.WithHint(err,
		"`"+name+" doctor` checks the agent; what it printed is in turns/"+d.TurnID+" of the state directory")
}
