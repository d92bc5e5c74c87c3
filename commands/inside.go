package commands

import (
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// The commands that an agent calls from inside its turn.

func (p *program) submitCommand() *cli.Command {
	return &cli.Command{
		Name:      "submit",
		Usage:     "for the agent: set what this turn hands back",
		ArgsUsage: "[TEXT]",
		Description: `Sets the deliverable of the turn it is called from, once: fields, words (from
standard input for -), and a file that goes with the reply. Without it, what
the agent prints is the deliverable.

Example:
  agentstateloop submit --field verdict=green --file report.pdf "all tests pass"`,
		Flags: []cli.Flag{
			repeatedFlag("field", "a result `NAME=VALUE`; may be repeated"),
			&cli.StringFlag{Name: "file", Usage: "a `FILE` to go with the reply"},
		},
		Action: p.submit,
	}
}

func (p *program) submit(c *cli.Context) error {
	if err := arguments(c, 0, 1); err != nil {
		return err
	}
	var sub cycle.Submission
	for _, f := range wordsOf(c, "field") {
		key, value, ok := strings.Cut(f, "=")
		if !ok || key == "" {
			return terminal.Usagef("for example --field verdict=green", "--field %q is not NAME=VALUE", f)
		}
		sub.Fields = append(sub.Fields, cycle.Field{Name: key, Value: value})
	}
	if c.NArg() == 0 && len(sub.Fields) == 0 && c.String("file") == "" {
		return terminal.Usagef("see "+name+" submit --help", "there is nothing to submit")
	}
	var err error
	if sub.Text, err = p.message(c.Args().First()); err != nil {
		return err
	}
	sub.File = c.String("file")
	a, in, err := p.inside(c)
	if err != nil {
		return err
	}
	return a.Submit(c.Context, in, sub)
}

func (p *program) askCommand() *cli.Command {
	return &cli.Command{
		Name:      "ask",
		Usage:     "for the agent: ask another one, be woken by the answer",
		ArgsUsage: "HANDLE TEXT",
		Description: `Sends a question over the mesh and prints its id. Then let the turn end: it
goes on, as the same turn, when every answer is in or late.

Example:
  agentstateloop ask dorlange3120 "which commit is live?" --deadline 10m`,
		Flags: []cli.Flag{
			durationFlag("deadline", "wait at most so `LONG` for the answer", cycle.DefaultPatience),
		},
		Action: p.ask,
	}
}

func (p *program) ask(c *cli.Context) error {
	to, text, err := p.letter(c)
	if err != nil {
		return err
	}
	a, in, err := p.inside(c)
	if err != nil {
		return err
	}
	id, err := a.Ask(c.Context, in, to, text, durationOf(c, "deadline"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(struct {
			ID string `json:"tool_call_id"`
		}{id})
	}
	p.out.Printf("%s\n", id)
	return nil
}

func (p *program) sendCommand() *cli.Command {
	return &cli.Command{
		Name:      "send",
		Usage:     "for the agent: tell another agent something",
		ArgsUsage: "HANDLE TEXT",
		Description: `Sends a message over the mesh that nobody here waits for.

Example:
  agentstateloop send dorlange3120 "the deploy is done"`,
		Action: p.send,
	}
}

func (p *program) send(c *cli.Context) error {
	to, text, err := p.letter(c)
	if err != nil {
		return err
	}
	a, in, err := p.inside(c)
	if err != nil {
		return err
	}
	return a.Send(c.Context, in, to, text)
}

func (p *program) sleepCommand() *cli.Command {
	return &cli.Command{
		Name:      "sleep",
		Usage:     "for the agent: ask to be left alone for a while",
		ArgsUsage: "DURATION",
		Description: `Notes that the agent wishes to rest, at most a day. A message or a nudge ends
the rest.

Example:
  agentstateloop sleep 10m`,
		Action: p.sleep,
	}
}

func (p *program) sleep(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	d, err := terminal.ParseDuration(c.Args().First())
	if err != nil {
		return terminal.Usagef("for example "+name+" sleep 10m", "%q %v", c.Args().First(), err)
	}
	a, in, err := p.inside(c)
	if err != nil {
		return err
	}
	return a.Sleep(c.Context, in, d)
}

// letter reads HANDLE and TEXT.
func (p *program) letter(c *cli.Context) (to, text string, err error) {
	if err := arguments(c, 2, 2); err != nil {
		return "", "", err
	}
	to = strings.TrimPrefix(c.Args().Get(0), "@")
	if !state.ValidHandle(to) {
		return "", "", terminal.Usagef(handleHint, "%q is not a valid handle", to)
	}
	text, err = p.words(c, 1)
	return to, text, err
}

// inside gives the agent, and the turn that this command was called from.
func (p *program) inside(c *cli.Context) (*cycle.Agent, cycle.Inside, error) {
	in, err := turnOf(p.loader.Env("AGENTSTATELOOP_TURN"), p.loader.Env("AGENTSTATELOOP_EPOCH"))
	if err != nil {
		return nil, in, terminal.Usagef("the agent calls it; its turn is in $AGENTSTATELOOP_TURN and $AGENTSTATELOOP_EPOCH",
			"%s works only from inside a turn", c.Command.HelpName)
	}
	a, err := p.agent(c)
	return a, in, err
}

// turnOf reads a turn and its epoch.
func turnOf(id, epoch string) (cycle.Inside, error) {
	n, err := strconv.ParseUint(epoch, 10, 64)
	if id == "" || err != nil {
		return cycle.Inside{}, terminal.Usagef("both stand in what inbox next printed", "%q %q are no turn and epoch", id, epoch)
	}
	return cycle.Inside{TurnID: id, Epoch: n}, nil
}
