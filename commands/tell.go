package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// tellOptions are the flags of tell.
type tellOptions struct{ mail, noWait bool }

func tellCommand(p *program) *cli.Command {
	var o tellOptions
	return &cli.Command{
		Name:      "tell",
		Usage:     "send the agent a message and print its answer",
		ArgsUsage: "TEXT",
		Description: `Counts as a message from you, sends no mail, and waits for the answer of the
turn. Ctrl-C ends the wait, not the turn. After a few seconds it prints on
standard error why it waits: another turn, earlier messages, a server. If no
turn can run soon (HALT, out of money, cool-down after failures), it says so and
does not wait; if that happens later, it gives up and exits 4. If TEXT is -, it
is read from standard input. With --no-wait it prints the key of the message;
inbox show KEY shows the answer later.

With --mail the answer is mailed to you instead, like the answer to a mail. On a
standby (docs/fleet.md), the message goes to the host that acts, and the answer
comes back.
Programs have their own ways to send messages, with fewer rights: see "Messages
from programs" in docs/scripts.md.

Example:
  agentstateloop tell "what are you working on?"`,
		Flags: []cli.Flag{
			switchFlag(&o.mail, "mail", "mail the answer to you and return"),
			switchFlag(&o.noWait, "no-wait", "print the key of the message and return"),
		},
		Action: p.action(1, 1, o.run),
	}
}

func (o *tellOptions) run(c *call) error {
	text, err := c.message(0)
	if err != nil {
		return err
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	tell := a.Tell
	if o.mail {
		if a.Mail == nil {
			return terminal.Usagef("configure [mail], or omit --mail to print the answer here", "no mail is configured")
		}
		tell = func(ctx context.Context, from, text string) (string, error) {
			return a.TellEvent(ctx, cycle.EventMessage{From: from, Text: text, Operator: true})
		}
	}
	key, err := tell(c.ctx, userName(), text)
	if onStandby(err) {
		return o.forward(c, a, text, err)
	}
	if err != nil {
		return err
	}
	c.detach(a)
	if o.noWait || o.mail {
		return c.printKey(key, nil)
	}
	if why, err := noAnswerSoon(a, key); err != nil || why != nil {
		return errors.Join(err, c.printKey(key, why))
	}
	reporter := waitReporter{call: c, agent: a, key: key}
	answer, err := a.Await(c.ctx, key, reporter.update)
	if err != nil {
		return err
	}
	return c.printAnswer(answer)
}

// forward sends the message to the host that acts for the agent, and prints the answer as here.
// standby tells which.
func (o *tellOptions) forward(c *call, a *cycle.Agent, text string, standby error) error {
	key, err := a.ForwardTell(c.ctx, userName(), text, o.mail)
	if err != nil {
		return err
	}
	if o.noWait || o.mail {
		return c.printKey(key, nil)
	}
	if !c.json {
		c.out.Note("sent", "to the host that acts: %v", standby)
	}
	reporter := waitReporter{call: c, agent: a, key: key}
	answer, err := a.AwaitForwarded(c.ctx, key, reporter.update)
	if err != nil {
		return err
	}
	return c.printAnswer(answer)
}

// noAnswerSoon returns the reason why waiting for an answer would be useless, or nil.
func noAnswerSoon(a *cycle.Agent, key string) (*view.Waiting, error) {
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
func (c *call) printKey(key string, why *view.Waiting) error {
	out := tellKey{Key: key}
	if why != nil {
		out.Waits = &tellWaits{Why: why.Why, Text: present.Waiting(*why, c.now())}
		if !why.Until.IsZero() {
			out.Waits.Until = &why.Until
		}
	}
	if c.json {
		return c.out.JSON(out)
	}
	c.out.Printf("%s\n", key)
	if why == nil {
		return nil
	}
	c.out.Warn("not waiting for an answer: %s", out.Waits.Text)
	if hint := present.WaitingHint(*why, ""); hint != "" {
		c.out.Note("hint", "%s", hint)
	}
	return nil
}

func (c *call) printAnswer(d cycle.Deliverable) error {
	if c.json {
		if err := c.out.JSON(d); err != nil {
			return err
		}
	} else if text := terminal.Printable(d.Whole()); text != "" {
		c.out.Printf("%s\n", strings.TrimSuffix(text, "\n"))
	}
	if d.Outcome == state.Success {
		return nil
	}
	err := coded(codeFailed, fmt.Errorf("the turn ended as %s: %s", d.Outcome, plain.Line(d.Reason)))
	if d.Outcome == state.Canceled {
		return err // a person stopped it, so the cause is known
	}
	return terminal.WithHint(err,
		"`"+name+" doctor` checks the agent; its output is in turns/"+d.TurnID+" of the state directory")
}

// reasonAfter is the time that a reason must hold before it is printed. An answer that comes sooner
// needs no reason.
const reasonAfter = 3 * time.Second

// waitReporter prints the reason why an answer has not come. It prints each reason once, after it
// has held for reasonAfter. It gives up if no answer will come.
type waitReporter struct {
	*call // with --json it prints no reasons, and only gives up
	agent *cycle.Agent
	key   string

	reason  view.Waiting
	since   time.Time // beginning of the current reason
	printed bool
}

// update takes the current reason. It returns an error if waiting is useless.
func (r *waitReporter) update(w view.Waiting) error {
	if w.Never {
		return r.giveUp(w)
	}
	r.show(w)
	return nil
}

// show prints the current reason, once it has held for reasonAfter.
func (r *waitReporter) show(w view.Waiting) {
	if w.Why != r.reason.Why || w.Who != r.reason.Who || !w.Since.Equal(r.reason.Since) {
		r.since, r.printed = time.Now(), false
	}
	r.reason = w
	if r.json || r.printed || time.Since(r.since) < reasonAfter {
		return
	}
	r.printed = true
	r.out.Note("waiting", "%s", present.Waiting(w, r.now()))
}

// giveUp returns the error of a command that stops waiting.
func (r *waitReporter) giveUp(w view.Waiting) error {
	err := fmt.Errorf("no answer is expected soon, and the message waits in the inbox: %s", present.Waiting(w, r.now()))
	hint := "`" + name + " inbox show " + r.key + "` shows the answer later"
	if first := present.WaitingHint(w, r.agent.Schedule.Mode); first != "" {
		hint = first + "; " + hint
	}
	return terminal.WithHint(&waitError{coded(codeRefused, err), exitRefused}, hint)
}
