package commands

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
)

// remindOptions are the flags of remind.
type remindOptions struct{ list bool }

func remindCommand(p *program) *cli.Command {
	var o remindOptions
	return &cli.Command{
		Name:      "remind",
		Usage:     "wake the agent at a given time with a text",
		ArgsUsage: "DURATION|TIME TEXT",
		Description: `At that time the agent runs a turn with TEXT. Inside a turn, this sets a
reminder of the agent's own; elsewhere the reminder is yours, and counts as a
message from you. The answer is mailed to you, unless the agent has nothing to
say.

TIME is 08:00, "2026-03-02 08:00" or RFC 3339; without a zone it is local. The
limit is 366 days. Messages, nudges and resets do not end a reminder; inbox drop
KEY does. Without a message from its operator, an agent may run at most [turn]
self_turns turns of its own in a row. If TEXT is -, it is read from standard
input.

Examples:
  agentstateloop remind 08:00 "send the report of the night"
  agentstateloop remind --list`,
		Flags:  []cli.Flag{switchFlag(&o.list, "list", "list the agent's wakeups")},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

func (o *remindOptions) run(c *call) error {
	if o.list {
		if err := c.arguments(0, 0); err != nil {
			return err
		}
		return listWakeups(c)
	}
	when, words := c.when()
	if err := c.arguments(words+1, words+1); err != nil {
		return err
	}
	// Report a hasUnknownMember time before loading the agent. Only the agent knows its time zone.
	if _, err := cycle.ParseWhen(when, c.now(), time.Local); errors.Is(err, cycle.ErrNotATime) {
		return terminal.Usagef("for example "+name+" remind 10m \"look at the build\"", "%v", err)
	}
	text, err := c.message(words)
	if err != nil {
		return err
	}
	at, err := c.remind(when, text)
	if err != nil {
		return err
	}
	return c.print(struct {
		At time.Time `json:"at"`
	}{at}, "%s (%s)\n", terminal.Clock(at, c.now()), terminal.Distance(at, c.now()))
}

// when returns the time in the arguments, and the number of its arguments: a date and a time of
// day need no quotes.
func (c *call) when() (when string, words int) {
	if when = c.arg(0); len(c.args) == 3 {
		both := when + " " + c.arg(1)
		if _, err := cycle.ParseWhen(both, c.now(), time.Local); !errors.Is(err, cycle.ErrNotATime) {
			return both, 2
		}
	}
	return when, 1
}

// remind sets a reminder: the agent's own inside its turn, otherwise the operator's.
func (c *call) remind(when, text string) (time.Time, error) {
	if c.insideTurn() {
		turn, err := c.turn()
		if err != nil {
			return time.Time{}, err
		}
		return turn.remind(c.ctx, when, text)
	}
	a, err := c.load()
	if err != nil {
		return time.Time{}, err
	}
	return a.RemindByHand(c.ctx, userName(), when, text)
}

// listWakeups prints the agent's wakeups.
func listWakeups(c *call) error {
	rows, err := c.wakeups()
	if err != nil {
		return err
	}
	if c.json {
		return c.out.JSON(rows)
	}
	var lines [][]string
	for _, row := range rows {
		lines = append(lines, []string{wakeupNumber(row), terminal.Clock(row.At, c.now()), string(row.Kind), plain.Line(row.Title) + waitNote(row.Held)})
	}
	return c.out.Grid([]terminal.Column{{}, {}, {}, {}}, lines)
}

func (c *call) wakeups() ([]view.Wakeup, error) {
	if c.insideTurn() {
		turn, err := c.turn()
		if err != nil {
			return nil, err
		}
		return turn.wakeups(c.ctx)
	}
	a, err := c.load()
	if err != nil {
		return nil, err
	}
	return a.Wakeups(cycle.Inside{})
}

// wakeupNumber returns the number of a wakeup for the inbox commands, or its key if it has no
// number.
func wakeupNumber(row view.Wakeup) string {
	if row.Seq == 0 {
		return plain.Line(row.Key)
	}
	return strconv.FormatUint(row.Seq, 10)
}

// waitNote returns the reason why a due wakeup still waits.
func waitNote(why string) string {
	if why == "" {
		return ""
	}
	return " (waits: " + why + ")"
}
