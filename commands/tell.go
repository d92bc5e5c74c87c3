package commands

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// longestTell is how much of stdin `tell -` takes, in bytes.
const longestTell = 4 << 20

// shortRest is how long a rest after failed turns may be that tell waits for.
const shortRest = 10 * time.Second

func (p *program) tellCommand() *cli.Command {
	return &cli.Command{
		Name:      "tell",
		Usage:     "a message to the agent from here; prints the answer",
		ArgsUsage: "TEXT",
		Description: `Counts as a message of the operator, mails nothing, and waits for what the
turn hands back. Ctrl-C ends the waiting, not the turn. Where no turn can come
soon (HALT, money, a rest after failures) it says so and waits for nothing.
With - as TEXT the message is read from standard input.

Example:
  agentstateloop tell "what are you working on?"`,
		Flags: []cli.Flag{
			switchFlag("no-wait", "print the message's key and return"),
		},
		Action: p.tellAgent,
	}
}

func (p *program) tellAgent(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	text, err := p.words(c, 0)
	if err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	key, err := a.Tell(c.Context, userName(), text)
	if err != nil {
		return err
	}
	if err := a.Detach(); err != nil {
		p.out.Warn("%v; the next poll runs the turn", err)
	}
	if c.Bool("no-wait") {
		return p.queued(c, key, "")
	}
	if why, err := p.noAnswer(a); err != nil || why != "" {
		return p.queued(c, key, why)
	}
	answer, err := a.Await(c.Context, key)
	if err != nil {
		return err
	}
	return p.answer(c, answer)
}

// message is the text of the argument, or standard input for "-".
func (p *program) message(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := io.ReadAll(io.LimitReader(p.stdin, longestTell+1))
	if err != nil {
		return "", fmt.Errorf("read message: %w", err)
	}
	if len(data) > longestTell {
		return "", fmt.Errorf("read message: over %d bytes", longestTell)
	}
	return string(data), nil
}

// words is message for an argument that must say something.
func (p *program) words(c *cli.Context, argument int) (string, error) {
	text, err := p.message(c.Args().Get(argument))
	if err == nil && strings.TrimSpace(text) == "" {
		err = terminal.Usagef("see "+c.Command.HelpName+" --help", "the message is empty")
	}
	return text, err
}

// noAnswer says why waiting for an answer would be in vain; "" if it is not.
func (p *program) noAnswer(a *cycle.Agent) (string, error) {
	if a.Turn == nil {
		return "runner is \"none\": somebody must take it from the inbox", nil
	}
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	if s.Halted() {
		return "the agent is HALTED: it is answered after resume", nil
	}
	if now := p.loader.Now(); s.CooldownUntil.Sub(now) > shortRest {
		return fmt.Sprintf("too many turns failed in a row: it is answered after %s (%s)", terminal.Clock(s.CooldownUntil, now), terminal.Distance(s.CooldownUntil, now)), nil
	}
	if why := a.Broke(s); why != "" {
		return "the agent is out of money: " + why, nil
	}
	return "", nil
}

// queued tells under which key a message waits.
func (p *program) queued(c *cli.Context, key, why string) error {
	if c.Bool("json") {
		return p.out.JSON(struct {
			Key string `json:"key"`
		}{key})
	}
	p.out.Printf("%s\n", key)
	if why != "" {
		p.out.Warn("not waiting for an answer: %s", why)
	}
	return nil
}

func (p *program) answer(c *cli.Context, d cycle.Deliverable) error {
	if c.Bool("json") {
		if err := p.out.JSON(d); err != nil {
			return err
		}
	} else if text := terminal.Text(d.Text); text != "" {
		p.out.Printf("%s\n", strings.TrimSuffix(text, "\n"))
	}
	if d.Outcome == state.Success {
		return nil
	}
	return terminal.WithHint(fmt.Errorf("the turn ended as %s: %s", d.Outcome, plain.Line(d.Reason)),
		"`"+name+" doctor` checks the agent; what it printed is in turns/"+d.TurnID+" of the state directory")
}

// userName is who tells, for the history.
func userName() string {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return "operator"
	}
	return u.Username
}
