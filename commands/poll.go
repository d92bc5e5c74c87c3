package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

func (p *program) pollCommand() *cli.Command {
	return &cli.Command{
		Name:  "poll",
		Usage: "one cycle: read mail and mesh, answer, set the next poll",
		Description: `Reads the operator's mail and the agent's mesh mailbox, runs the agent on
what came, mails the answer, and rewrites the crontab line. Cron runs this;
by hand it does the same at once. Prints nothing if there was nothing.

With --linger it then stays for a while and polls at once for new mail (IMAP
IDLE), mesh messages and nudges, until shortly before cron comes again, or
until there is a turn, which it runs. [schedule] linger does this in PREP and
ACTIVE.

Example:
  agentstateloop poll --dry-run     # what would a poll do now?
  agentstateloop poll --linger 50s`,
		Flags: []cli.Flag{
			switchFlag("if-due", "do nothing before the next poll is due"),
			switchFlag("dry-run", "print what would happen, change nothing"),
			switchFlag("quiet", "for cron: print nothing; busy is no error"),
			durationFlag("linger", "stay on for so `LONG` and react at once, until cron comes again", 0),
			switchFlag("no-turn", "leave the messages to a later poll"),
		},
		Action: p.poll,
	}
}

func (p *program) poll(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return p.dryRun(c, a)
	}
	quiet := c.Bool("quiet")
	o := cycle.PollOptions{
		IfDue:  c.Bool("if-due"),
		NoTurn: c.Bool("no-turn"),
		Stay:   quiet, // a person at a terminal waits for nothing
	}
	poll := a.Poll
	if d := durationOf(c, "linger"); d > 0 {
		poll = func(ctx context.Context, o cycle.PollOptions) (cycle.Report, error) {
			return a.PollLingering(ctx, o, d)
		}
	}
	r, err := poll(c.Context, o)
	if quiet && errors.Is(err, cycle.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := p.out.JSON(reportJSON(r)); err != nil {
			return err
		}
	} else if r.Found() && !quiet {
		p.out.Printf("%s\n", reportText(r, p))
	}
	return failedSources(r.Failed, quiet)
}

// reportJSON has an empty list where a report has none.
func reportJSON(r cycle.Report) cycle.Report {
	if r.Failed == nil {
		r.Failed = []cycle.SourceFailure{}
	}
	return r
}

// reportText is a poll in one line.
func reportText(r cycle.Report, p *program) string {
	parts := []string{string(r.After)}
	if r.Before != r.After {
		parts[0] = fmt.Sprintf("%s → %s", r.Before, r.After)
	}
	for _, n := range []struct {
		number     int
		noun, does string
	}{
		{r.Nudges, "nudge", ""}, {r.Arrived, "message", " in"}, {r.Rejected, "message", " refused"},
		{r.Turns, "turn", " run"}, {r.Sent, "mail", " sent"},
	} {
		if n.number > 0 {
			parts = append(parts, terminal.Count(n.number, n.noun)+n.does)
		}
	}
	if !r.NextDue.IsZero() {
		parts = append(parts, "next poll "+terminal.Clock(r.NextDue, p.loader.Now()))
	}
	return strings.Join(parts, ", ")
}

// failedSources is the error of a poll that could not read everything. Under
// --quiet it has no text: cron would mail it each minute, and log and status
// tell it too.
func failedSources(failed []cycle.SourceFailure, quiet bool) error {
	if len(failed) == 0 {
		return nil
	}
	e := &sourceError{}
	for _, f := range failed {
		if !quiet {
			e.failed = append(e.failed, fmt.Sprintf("%s: %s", f.Source, plain.Line(f.Reason)))
		}
	}
	return e
}
