package commands

import (
	"errors"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
)

type remindCmd struct {
	agents agents
	input  input
	out    *terminal.Output
	now    func() time.Time
}

func remindCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "remind",
		Usage:     "wake the agent at a time, with a text",
		ArgsUsage: "DURATION|TIME TEXT",
		Description: `At that time the agent has a turn that is told TEXT. From inside a turn it is
the agent's own reminder; elsewhere it is yours, and counts as a word from you.
What the turn answers is mailed to you, unless it has nothing to say.

TIME is 08:00, "2026-03-02 08:00" or RFC 3339; without a zone it is local. The
limit is 366 days. A reminder stays, whatever comes meanwhile: a message, a
nudge, a reset. inbox drop KEY removes one. Of its own turns an agent may have
[turn] self_turns in a row without a word from its operator. With - as TEXT it
is read from standard input.

Example:
  agentstateloop remind 08:00 "send the report of the night"
  agentstateloop remind --list`,
		Flags:  []cli.Flag{switchFlag("list", "list what the agent will wake for, and when")},
		Action: remindCmd{p.agents(), p.input(), &p.out, p.loader.Now}.run,
	}
}

func (r remindCmd) run(c *cli.Context) error {
	if c.Bool("list") {
		if err := arguments(c, 0, 0); err != nil {
			return err
		}
		return r.list(c)
	}
	when, words := r.when(c)
	if err := arguments(c, words+1, words+1); err != nil {
		return err
	}
	// Report a misspelt time before loading the agent. Only the agent knows its time zone.
	if _, err := cycle.ParseWhen(when, r.now(), time.Local); errors.Is(err, cycle.ErrNotATime) {
		return terminal.Usagef("for example "+name+" remind 10m \"look at the build\"", "%v", err)
	}
	text, err := r.input.message(c, words)
	if err != nil {
		return err
	}
	at, err := r.remind(c, when, text)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return r.out.JSON(struct {
			At time.Time `json:"at"`
		}{at})
	}
	r.out.Printf("%s (%s)\n", terminal.Clock(at, r.now()), terminal.Distance(at, r.now()))
	return nil
}

// when returns the time in the arguments, and the number of its arguments: a date and a time of
// day need no quotes.
func (r remindCmd) when(c *cli.Context) (when string, words int) {
	if when = c.Args().First(); c.NArg() == 3 {
		both := when + " " + c.Args().Get(1)
		if _, err := cycle.ParseWhen(both, r.now(), time.Local); !errors.Is(err, cycle.ErrNotATime) {
			return both, 2
		}
	}
	return when, 1
}

// remind sets a reminder: the agent's own inside its turn, otherwise the operator's.
func (r remindCmd) remind(c *cli.Context, when, text string) (time.Time, error) {
	if r.insideTurn() {
		turn, err := r.agents.turn(c)
		if err != nil {
			return time.Time{}, err
		}
		return turn.remind(c.Context, when, text)
	}
	a, err := r.agents.load(c)
	if err != nil {
		return time.Time{}, err
	}
	return a.RemindByHand(c.Context, userName(), when, text)
}

// insideTurn reports whether an agent calls the command in its turn.
func (r remindCmd) insideTurn() bool { return r.agents.loader.Env("AGENTSTATELOOP_TURN") != "" }

// list prints the agent's wakeups.
func (r remindCmd) list(c *cli.Context) error {
	rows, err := r.wakeups(c)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return r.out.JSON(rows)
	}
	var lines [][]string
	for _, row := range rows {
		lines = append(lines, []string{wakeupNumber(row), terminal.Clock(row.At, r.now()), string(row.Kind), plain.Line(row.Title) + held(row.Held)})
	}
	return r.out.Grid([]terminal.Column{{}, {}, {}, {}}, lines)
}

func (r remindCmd) wakeups(c *cli.Context) ([]view.Wakeup, error) {
	if r.insideTurn() {
		turn, err := r.agents.turn(c)
		if err != nil {
			return nil, err
		}
		return turn.wakeups(c.Context)
	}
	a, err := r.agents.load(c)
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

// held returns the reason why a due wakeup still waits.
func held(why string) string {
	if why == "" {
		return ""
	}
	return " (waits: " + why + ")"
}
