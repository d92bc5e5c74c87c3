package commands

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// compactWait limits how long compact waits for a running turn.
const compactWait = 10 * time.Minute

type compactCmd struct {
	agents agents
	loader *config.Loader
	out    *terminal.Output
}

func compactCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "compact",
		Usage: "replace the conversation with a summary",
		Description: `Makes a summary of the agent's session with its operator, or of what they said
since the last summary: by the program of [turn] summary, or else by the agent
itself. The operator's next context begins with it; the history keeps all of it.
An empty summary changes nothing. Waits for a turn that runs, and exits 75 if
that takes too long. With conversation = "thread" in [turn], the conversation is
the newest mail thread.

Example:
  agentstateloop compact --wait 2m`,
		Flags: []cli.Flag{
			durationFlag("wait", "give up waiting for the turn after `DURATION`", compactWait),
		},
		Action: compactCmd{p.agents(), p.loader, &p.out}.run,
	}
}

// compactOutput is the JSON output of compact.
type compactOutput struct {
	Agent     string `json:"agent"`
	Compacted bool   `json:"compacted"`
	Summary   string `json:"summary"`
}

func (k compactCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	if k.loader.Env("AGENTSTATELOOP_TURN") != "" {
		return terminal.Usagef("put what must last into your working memory with remember", "compact would wait for the turn it is called from: call it from outside a turn")
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	summary, err := a.Compact(c.Context, durationOf(c, "wait"))
	nothing := errors.Is(err, cycle.ErrNothing)
	if err != nil && !nothing {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(compactOutput{Agent: a.Handle, Compacted: !nothing, Summary: summary})
	}
	if nothing {
		k.out.Printf("nothing was said to @%s since the last summary\n", a.Handle)
		return nil
	}
	k.out.Printf("%s\n", terminal.Printable(summary))
	return nil
}
