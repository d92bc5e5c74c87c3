package commands

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

type pollCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func pollCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "poll",
		Usage: "one cycle: read mail and mesh, answer, set the next poll",
		Description: `Reads the operator's mail and the agent's mesh mailbox, runs the agent on what
came, mails the answer, and rewrites the crontab line. Cron runs this; by hand
it does the same at once, and tries to send what waits after a failure. With
[turn] collect it stays while a sender may still write, a minute at a time.
Prints nothing if nothing came. Exits 3 if a source cannot be read, or something
cannot be sent.

With --linger it then stays for a while. It polls at once for new mail (IMAP
IDLE), mesh messages and nudges, until shortly before cron comes again, or until
a turn is due, which it runs. [schedule] linger does this in PREP and ACTIVE.

Example:
  agentstateloop poll --dry-run     # what would a poll do now?
  agentstateloop poll --linger 50s`,
		Flags: []cli.Flag{
			switchFlag("if-due", "do nothing before the next poll is due"),
			switchFlag("dry-run", "print what would happen, and change nothing"),
			switchFlag("quiet", "for cron: print nothing; busy is not an error"),
			durationFlag("linger", "stay for `DURATION` and react at once", 0),
			switchFlag("no-turn", "leave the messages to a later poll"),
		},
		Action: pollCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

func (k pollCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return withinMemory(a, maxMemory, func() error { return dryRun(c, a, k.out) })
	}
	quiet := c.Bool("quiet")
	o := cycle.PollOptions{
		IfDue:  c.Bool("if-due"),
		NoTurn: c.Bool("no-turn"),
		Stay:   quiet, // a person at a terminal does not wait
		ByHand: !quiet && !c.Bool("if-due") && k.agents.loader.Env("AGENTSTATELOOP_TURN") == "",
	}
	poll := a.Poll
	if d := durationOf(c, "linger"); d > 0 {
		poll = func(ctx context.Context, o cycle.PollOptions) (cycle.Report, error) {
			return a.PollLingering(ctx, o, d)
		}
	}
	if k.agents.loader.Env("GOGC") == "" {
		// A poll is short, and an empty one has no garbage to collect. A backlog makes
		// the same garbage for each message; withinMemory bounds it.
		debug.SetGCPercent(pollGC)
	}
	var r cycle.Report
	err = withinMemory(a, maxMemory, func() (err error) {
		r, err = poll(c.Context, o)
		if err != nil || o.NoTurn || r.Skipped != "" {
			return err
		}
		return k.collect(c.Context, a, o, &r)
	})
	if quiet && errors.Is(err, cycle.ErrBusy) {
		r, err = cycle.Report{Skipped: err.Error()}, nil
	}
	if quiet && errors.Is(err, cycle.ErrInterrupted) {
		return silentError{err}
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := k.printJSON(a, r); err != nil {
			return err
		}
	} else if r.Found() && !quiet {
		k.out.Printf("%s\n", reportText(r, k.now()))
	}
	return failedSources(r.Failed, quiet)
}

// collect waits while a sender is still writing, and polls again for the new messages. Each wait
// ends within a minute, and all of them with the turn.
func (k pollCmd) collect(ctx context.Context, a *cycle.Agent, o cycle.PollOptions, r *cycle.Report) error {
	return collect(ctx, a.CollectWait, func() (cycle.Report, error) { return a.Poll(ctx, cycle.PollOptions{Stay: o.Stay}) }, r)
}

// collect polls again after each wait, until nextWait returns 0.
func collect(ctx context.Context, nextWait func() (time.Duration, error), poll func() (cycle.Report, error), r *cycle.Report) error {
	for range maxCollectPolls {
		wait, err := nextWait()
		if err != nil || wait == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait + time.Millisecond):
		}
		more, err := poll()
		if errors.Is(err, cycle.ErrBusy) {
			return nil // that poll runs the turn, and this one has finished its own work
		}
		if err != nil {
			return err
		}
		r.Add(more)
	}
	return nil
}

// pollGC is the GOGC value of a poll, in percent.
const pollGC = 300

// maxCollectPolls limits the polls of one process while senders are still writing.
const maxCollectPolls = 10

// pollOutput is the JSON output of poll.
type pollOutput struct {
	cycle.Report
	Skipped *string    `json:"skipped"` // why the poll was skipped
	NextDue *time.Time `json:"next_due"`
}

// reportOf converts a report to its JSON output.
func reportOf(r cycle.Report) pollOutput {
	r.Failed = append([]cycle.SourceFailure{}, r.Failed...)
	v := pollOutput{Report: r, Skipped: orNull(r.Skipped)}
	if !r.NextDue.IsZero() {
		utc := r.NextDue.UTC()
		v.NextDue = &utc
	}
	return v
}

// printJSON prints a report. For a skipped poll it adds the current state.
func (k pollCmd) printJSON(a *cycle.Agent, r cycle.Report) error {
	if r.Skipped != "" {
		s, err := a.Store.Read()
		if err != nil {
			return err
		}
		r.Before, r.After, r.NextDue = s.Phase, s.Phase, s.NextDue
	}
	return k.out.JSON(reportOf(r))
}

// reportText returns the report of a poll in one line.
func reportText(r cycle.Report, now time.Time) string {
	parts := []string{string(r.After)}
	if r.Before != r.After {
		parts[0] = fmt.Sprintf("%s → %s", r.Before, r.After)
	}
	for _, n := range []struct {
		number     int
		noun, does string
	}{
		{r.Nudges, "nudge", ""}, {r.Arrived, "message", " in"}, {r.Rejected, "message", " rejected"},
		{r.Turns, "turn", " run"}, {r.Sent, "mail", " sent"}, {r.Posted, "message", " sent to other agents"},
	} {
		if n.number > 0 {
			parts = append(parts, terminal.Count(n.number, n.noun)+n.does)
		}
	}
	if !r.NextDue.IsZero() {
		parts = append(parts, "next poll "+terminal.Clock(r.NextDue, now))
	}
	return strings.Join(parts, ", ")
}

// failedSources returns the error of a poll that failed to read a source. If quiet is true, it
// has no text: cron would mail it each minute, and log and status have it too.
func failedSources(failed []cycle.SourceFailure, quiet bool) error {
	if len(failed) == 0 {
		return nil
	}
	e := &sourceError{}
	for _, f := range failed {
		if !quiet {
			e.failed = append(e.failed, fmt.Sprintf("%s: %s", f.Source, strings.TrimPrefix(plain.Line(f.Reason), string(f.Source)+": ")))
		}
	}
	return e
}
