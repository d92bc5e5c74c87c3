package commands

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

func rememberCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "remember",
		Usage:     "replace the agent's working memory",
		ArgsUsage: "TEXT",
		Description: `Replaces the working memory with TEXT, which is then part of every context. The
limit is 4 KiB; "" empties the memory. If TEXT is -, it is read from standard
input. The history keeps the old memory. A reset sets the memory aside. In turns
that another agent has caused, the agent has a separate memory for that agent.

Example:
  agentstateloop remember "deploys go through dorlange3120; never on a Friday"`,
		Action: p.action(1, 1, remember),
	}
}

func remember(c *call) error {
	text, err := c.text(c.arg(0))
	if err != nil {
		return err
	}
	turn, err := c.turn()
	if err != nil {
		return err
	}
	if err := turn.remember(c.ctx, text); err != nil {
		return err
	}
	return c.print(rememberOutput{Agent: turn.handle(), Bytes: len(text)}, "")
}

// rememberOutput is the JSON output of remember.
type rememberOutput struct {
	Agent string `json:"agent"`
	Bytes int    `json:"bytes"` // of the new memory
}

// maxNote limits, in bytes, the note at the beginning of every new context, which is also stored
// in state.json.
const maxNote = 8 << 10

// resetOptions are the flags of reset.
type resetOptions struct{ message string }

func resetCommand(p *program) *cli.Command {
	var o resetOptions
	return &cli.Command{
		Name:  "reset",
		Usage: "make the agent forget all conversations",
		Description: `From now on the agent no longer sees earlier messages, yours or those of other
agents; the history keeps them. The text of --message opens the agent's next
context with you. Queued messages stay queued, and the agent sees that they came
before the reset.

Example:
  agentstateloop reset --message "new project: the parser in ~/src/parse"`,
		Flags:  []cli.Flag{textFlag(&o.message, "message", "`TEXT`: text for the next context; - is standard input")},
		Action: p.action(0, 0, o.run),
	}
}

func (o *resetOptions) run(c *call) error {
	note, err := c.text(o.message)
	if err != nil {
		return err
	}
	if err := checkNote(note); err != nil {
		return err
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	if err := a.Reset(c.ctx, note, c.resetBy(a)); err != nil {
		return err
	}
	return c.print(struct {
		Agent string `json:"agent"`
		Reset bool   `json:"reset"`
	}{a.Handle, true}, "@%s has forgotten the conversation; the history keeps it\n", a.Handle)
}

// checkNote rejects a note that is too long.
func checkNote(note string) error {
	if len(note) > maxNote {
		return terminal.Usagef("put the rest into a file that the agent can read", "--message is %d bytes long, and the limit is %d", len(note), maxNote)
	}
	return nil
}

// resetBy returns the handle of the agent whose turn calls this command, or else the handle of a.
func (c *call) resetBy(a *cycle.Agent) string {
	if caller := c.loader.Env("AGENTSTATELOOP_HANDLE"); state.ValidHandle(caller) {
		return caller
	}
	return a.Handle
}

// compactWait limits how long compact waits for a running turn.
const compactWait = 10 * time.Minute

// compactOptions are the flags of compact.
type compactOptions struct{ wait time.Duration }

func compactCommand(p *program) *cli.Command {
	var o compactOptions
	return &cli.Command{
		Name:  "compact",
		Usage: "replace the conversation with a summary",
		Description: `Summarizes your conversation with the agent: its session, or the messages since
the last summary. The program of [turn] summary writes the summary, or else the
agent itself. The agent's next context with you begins with it; the history
keeps everything. An empty summary changes nothing. Waits for the running turn,
and exits 75 if that takes too long. With conversation = "thread" in [turn], the
conversation is the newest mail thread.

Example:
  agentstateloop compact --wait 2m`,
		Flags: []cli.Flag{
			durationFlag(&o.wait, "wait", "give up waiting for the turn after `DURATION`", compactWait),
		},
		Action: p.action(0, 0, o.run),
	}
}

// compactOutput is the JSON output of compact.
type compactOutput struct {
	Agent     string `json:"agent"`
	Compacted bool   `json:"compacted"`
	Summary   string `json:"summary"`
}

func (o *compactOptions) run(c *call) error {
	if c.insideTurn() {
		return terminal.Usagef("to keep something important, use remember", "compact would wait for the turn it is called from: call it from outside a turn")
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	summary, err := a.Compact(c.ctx, o.wait)
	nothing := errors.Is(err, cycle.ErrNothing)
	if err != nil && !nothing {
		return err
	}
	text := terminal.Printable(summary)
	if nothing {
		text = fmt.Sprintf("@%s got no messages since the last summary", a.Handle)
	}
	return c.print(compactOutput{Agent: a.Handle, Compacted: !nothing, Summary: summary}, "%s\n", text)
}
