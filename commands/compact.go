package commands

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// compactPatience is how long compact waits for a turn that runs.
const compactPatience = 10 * time.Minute

func (p *program) compactCommand() *cli.Command {
	return &cli.Command{
		Name:  "compact",
		Usage: "let a summary stand for what was said",
		Description: `Has a summary made of the agent's session, or of what was said since the last
one: by the program of [turn] summary, else by the agent itself. Its next
context begins with it; the history keeps everything. An empty summary changes
nothing. A turn that runs is waited for; exit 75 if it takes too long.

Example:
  agentstateloop compact --wait 2m`,
		Flags: []cli.Flag{
			durationFlag("wait", "wait at most so `LONG` for a turn that runs", compactPatience),
		},
		Action: p.compact,
	}
}

// compacted is what compact --json prints.
type compacted struct {
	Agent     string `json:"agent"`
	Compacted bool   `json:"compacted"`
	Summary   string `json:"summary"`
}

func (p *program) compact(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	if p.loader.Env("AGENTSTATELOOP_TURN") != "" {
		return terminal.Usagef("put what must last into the working memory with remember", "compact waits for this very turn to end: it cannot be called from inside it")
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	summary, err := a.Compact(c.Context, durationOf(c, "wait"))
	nothing := errors.Is(err, cycle.ErrNothing)
	if err != nil && !nothing {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(compacted{Agent: a.Handle, Compacted: !nothing, Summary: summary})
	}
	if nothing {
		p.out.Printf("nothing was said to @%s since the last summary\n", a.Handle)
		return nil
	}
	p.out.Printf("%s\n", terminal.Text(summary))
	return nil
}
