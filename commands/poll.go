package commands

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

// pollOptions are the flags of poll.
type pollOptions struct {
	ifDue, dryRun, quiet, noTurn, detach bool
	linger                               time.Duration
}

func pollCommand(p *program) *cli.Command {
	var o pollOptions
	return &cli.Command{
		Name:  "poll",
		Usage: "run a cycle: read mail and mesh, answer, set the next poll",
		Description: `Reads your mail to the agent and its mesh mailbox, runs the agent on new
messages, mails the answers, and rewrites the crontab line. Cron runs this
command. By hand it does the same, and also retries deliveries that failed. With
[turn] collect it waits for further messages of a sender, up to a minute at a
time. Prints nothing if no message has arrived. Exits 3 if a source cannot be
read or a message cannot be sent.

With --linger it then keeps running. It polls immediately for new mail (IMAP
IDLE), mesh messages and nudges, until shortly before the next cron run, or
until a turn is due, which it runs. [schedule] linger does this in PREP and
ACTIVE.

With --detach it starts another process for all this, and ends at once. A timer
of systemd or launchd needs that: it starts nothing while its last process runs.

Examples:
  agentstateloop poll --dry-run     # what would a poll do now?
  agentstateloop poll --linger 50s`,
		Flags: []cli.Flag{
			switchFlag(&o.ifDue, "if-due", "do nothing unless a poll is due"),
			switchFlag(&o.dryRun, "dry-run", "print what would happen, and change nothing"),
			switchFlag(&o.quiet, "quiet", "for cron: print nothing, and exit 0 if busy"),
			durationFlag(&o.linger, "linger", "keep running for `DURATION` and react immediately", 0),
			switchFlag(&o.noTurn, "no-turn", "leave the messages to a later poll"),
			switchFlag(&o.detach, "detach", "for timers: poll in a process of its own, and end at once"),
		},
		// A preview shows messages of others.
		Before: p.checkCaller(func(*call) bool { return !o.dryRun }),
		Action: p.action(0, 0, func(c *call) error {
			a, err := c.load()
			if err != nil {
				return o.withoutConfig(c, err)
			}
			if o.quiet && o.ifDue {
				forgetMissing(c.loader, a.Handle)
			}
			return o.run(c, a)
		}),
	}
}

func (o *pollOptions) run(c *call, a *cycle.Agent) error {
	if o.dryRun && o.detach {
		return terminal.Usagef("use one of them", "--dry-run and --detach exclude each other")
	}
	if o.dryRun {
		return withinMemory(a, maxMemory, func() error { return dryRun(c, a) })
	}
	options := cycle.PollOptions{
		IfDue:  o.ifDue,
		NoTurn: o.noTurn,
		Stay:   o.quiet, // a person at a terminal does not wait
		ByHand: !o.quiet && !o.ifDue && !c.insideTurn(),
	}
	if o.detach {
		r, err := a.PollDetached(options, o.linger)
		if err == nil && c.json {
			err = c.printReport(a, r)
		}
		return err
	}
	poll := a.Poll
	if o.linger > 0 {
		poll = func(ctx context.Context, options cycle.PollOptions) (cycle.Report, error) {
			return a.PollLingering(ctx, options, o.linger)
		}
	}
	if c.loader.Env("GOGC") == "" {
		// A poll is short, and an empty one has no garbage to collect. A backlog makes
		// the same garbage for each message; withinMemory bounds it.
		debug.SetGCPercent(pollGC)
	}
	var r cycle.Report
	err := withinMemory(a, maxMemory, func() (err error) {
		r, err = poll(c.ctx, options)
		if err != nil || o.noTurn || r.Skipped != "" {
			return err
		}
		// Each wait ends within a minute, and all of them with the turn.
		again := func() (cycle.Report, error) { return a.Poll(c.ctx, cycle.PollOptions{Stay: o.quiet}) }
		return collect(c.ctx, a.CollectWait, again, &r)
	})
	if o.quiet && a.Seat != nil {
		err = quietSeat(c, a, err)
	}
	if o.quiet && (errors.Is(err, cycle.ErrBusy) || onStandby(err)) {
		r, err = cycle.Report{Skipped: err.Error()}, nil
	}
	if o.quiet && errors.Is(err, cycle.ErrInterrupted) {
		return silentError{err}
	}
	if err != nil {
		return err
	}
	if c.json {
		if err := c.printReport(a, r); err != nil {
			return err
		}
	} else if r.Found() && !o.quiet {
		c.out.Printf("%s\n", present.Report(r, c.now()))
	}
	if two := r.TwoMachines; two != nil && !o.quiet {
		c.out.Warn("TWO MACHINES: %s", present.TwoMachines(a.Handle, *two, c.now()))
	}
	return failedSources(r.Failed, o.quiet)
}

// collect waits while a sender is still writing, and polls again for the new messages, until
// nextWait returns 0.
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
	r.Failed = orEmpty(r.Failed)
	return pollOutput{Report: r, Skipped: orNull(r.Skipped), NextDue: orNull(r.NextDue.UTC())}
}

// printReport prints a report as JSON. For a skipped poll it adds the current state.
func (c *call) printReport(a *cycle.Agent, r cycle.Report) error {
	if r.Skipped != "" {
		s, err := a.Store.Read()
		if err != nil {
			return err
		}
		r.Before, r.After, r.NextDue = s.Phase, s.Phase, s.NextDue
	}
	return c.out.JSON(reportOf(r))
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

// dryRun prints the actions that a poll would take now.
func dryRun(c *call, a *cycle.Agent) error {
	preview, err := a.Preview(c.ctx)
	if err != nil {
		return err
	}
	if c.json {
		err = c.out.JSON(previewJSON(preview))
	} else {
		printPreview(&c.out, preview)
	}
	if err != nil {
		return err
	}
	return failedSources(preview.Failed, false)
}

// previewJSON returns v with empty lists instead of nil.
func previewJSON(v cycle.Preview) cycle.Preview {
	v.Transitions, v.Failed = orEmpty(v.Transitions), orEmpty(v.Failed)
	v.Arrived, v.Rejected, v.Mails = orEmpty(v.Arrived), orEmpty(v.Rejected), orEmpty(v.Mails)
	return v
}

func printPreview(out *terminal.Output, v cycle.Preview) {
	out.Printf("dry run: nothing is changed\n")
	for _, m := range v.Arrived {
		out.Printf("would take    a message from %s (%s)\n", plain.Line(m.From), plain.Line(m.Key))
	}
	for _, m := range v.Rejected {
		if m.Key == "" { // of a flood
			out.Printf("would reject  further messages: %s\n", plain.Line(m.Reason))
			continue
		}
		out.Printf("would reject  a message from %s (%s): %s\n", plain.Line(m.From), plain.Line(m.Key), plain.Line(m.Reason))
	}
	for _, t := range v.Transitions {
		out.Printf("would change  %s\n", plain.Line(t))
	}
	if len(v.Transitions) == 0 {
		out.Printf("would stay    %s\n", v.After)
	}
	for _, m := range v.Mails {
		out.Printf("would send    a %s to %s\n", map[bool]string{true: "mail", false: "mesh message"}[m.Channel == "mail"], plain.Line(m.To))
		if m.Subject != "" {
			out.Printf("  | Subject: %s\n", plain.Line(m.Subject))
		}
		for line := range strings.Lines(terminal.Printable(m.Text)) {
			out.Printf("  | %s\n", strings.TrimRight(line, "\n"))
		}
	}
	if v.CrontabError != "" {
		out.Warn("the crontab cannot be read: %s", plain.Line(v.CrontabError))
	}
	if v.CrontabDiff != "" {
		out.Printf("would edit    the crontab\n%s", indented(terminal.Printable(v.CrontabDiff)))
	}
}

// indented returns text with two spaces before each line.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}
