package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// maxNote limits, in bytes, the note at the beginning of every new context, which is also stored
// in state.json.
const maxNote = 8 << 10

type resetCmd struct {
	agents agents
	input  input
	loader *config.Loader
	out    *terminal.Output
}

func resetCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "reset",
		Usage: "clear what the agent remembers",
		Description: `From now on the agent is not shown what was said before, by you or by other
agents; the history keeps it. The message stands at the beginning of its next
context with you. Queued messages stay
queued, and the agent is shown that they came before the reset.

Example:
  agentstateloop reset --message "new project: the parser in ~/src/parse"`,
		Flags:  []cli.Flag{&cli.StringFlag{Name: "message", Usage: "`TEXT` for the next context (- reads standard input)"}},
		Action: resetCmd{p.agents(), p.input(), p.loader, &p.out}.run,
	}
}

func (r resetCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	note, err := r.input.text(c.String("message"))
	if err != nil {
		return err
	}
	if err := checkNote(note); err != nil {
		return err
	}
	a, err := r.agents.load(c)
	if err != nil {
		return err
	}
	if err := a.Reset(c.Context, note, r.caller(a)); err != nil {
		return err
	}
	if c.Bool("json") {
		return r.out.JSON(struct {
			Agent string `json:"agent"`
			Reset bool   `json:"reset"`
		}{a.Handle, true})
	}
	r.out.Printf("@%s has forgotten the conversation; the history keeps it\n", a.Handle)
	return nil
}

// checkNote rejects a note that is too long.
func checkNote(note string) error {
	if len(note) > maxNote {
		return terminal.Usagef("put the rest into a file that the agent can read", "--message is %d bytes long, and the limit is %d", len(note), maxNote)
	}
	return nil
}

// caller returns the handle of the agent whose turn calls this command, or else the handle of a.
func (r resetCmd) caller(a *cycle.Agent) string {
	if caller := r.loader.Env("AGENTSTATELOOP_HANDLE"); state.ValidHandle(caller) {
		return caller
	}
	return a.Handle
}
