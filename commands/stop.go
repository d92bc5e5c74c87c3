package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

func (p *program) stopCommand() *cli.Command {
	return &cli.Command{
		Name:  "stop",
		Usage: "end the turn that runs; what there is of it is delivered",
		Description: `Ends the agent's process and delivers what it had by then, marked canceled.
The next message is then served; to keep everything still, see halt.

Example:
  agentstateloop stop --reason "wrong repository"`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: p.stop,
	}
}

func (p *program) stop(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	err = a.Stop(c.Context, c.String("reason"))
	stopping := err == nil
	if err != nil && !errors.Is(err, cycle.ErrNothing) {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(struct {
			Agent    string `json:"agent"`
			Stopping bool   `json:"stopping"`
		}{a.Handle, stopping})
	}
	if !stopping {
		p.out.Printf("@%s runs no turn\n", a.Handle)
		return nil
	}
	p.out.Printf("@%s is being stopped\n", a.Handle)
	return nil
}

func (p *program) resetCommand() *cli.Command {
	return &cli.Command{
		Name:  "reset",
		Usage: "let the agent's memory begin anew",
		Description: `What was said before is no longer put before the agent; the history keeps it.
The message stands at the beginning of its next context. What is queued
stays queued, and is told as being from before.

Example:
  agentstateloop reset --message "new project: the parser in ~/src/parse"`,
		Flags:  []cli.Flag{&cli.StringFlag{Name: "message", Usage: "`TEXT` for the next context (- reads standard input)"}},
		Action: p.reset,
	}
}

// longestNote bounds, in bytes, what stands at the head of every fresh context
// and in state.json.
const longestNote = 8 << 10

func (p *program) reset(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	note, err := p.message(c.String("message"))
	if err != nil {
		return err
	}
	if len(note) > longestNote {
		return terminal.Usagef("put the rest into a file that the agent can read", "--message has %d bytes, at most %d are kept", len(note), longestNote)
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	if err := a.Reset(c.Context, note, p.resetter(a)); err != nil {
		return err
	}
	if c.Bool("json") {
		return p.out.JSON(struct {
			Agent string `json:"agent"`
			Reset bool   `json:"reset"`
		}{a.Handle, true})
	}
	p.out.Printf("@%s begins anew: what was said before is no longer told to it\n", a.Handle)
	return nil
}

// resetter is the handle of who resets: the agent that calls us from inside its
// turn, else the one whose command line this is.
func (p *program) resetter(a *cycle.Agent) string {
	if caller := p.loader.Env("AGENTSTATELOOP_HANDLE"); state.ValidHandle(caller) {
		return caller
	}
	return a.Handle
}
