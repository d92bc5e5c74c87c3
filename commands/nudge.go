package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
)

// nudgeTimeout is the default timeout of nudge --wait.
const nudgeTimeout = 5 * time.Minute

// nudgeOptions are the flags of nudge.
type nudgeOptions struct {
	from, reason string
	wait         optional
	timeout      time.Duration
	noPoll       bool
}

func nudgeCommand(p *program) *cli.Command {
	o := nudgeOptions{wait: optional{without: string(view.PointPolled), choices: points}}
	return &cli.Command{
		Name:      "nudge",
		Usage:     "wake the agent now, or another one through the mesh",
		ArgsUsage: "[HANDLE]",
		Description: `Works like a doorbell: an agent in IDLE changes to PREP and checks for messages
every minute. The nudge is recorded first, so it cannot get lost. Then one cycle
runs immediately; a poll in the background runs the turns. The sender and the
reason are shown in the mail that says the agent is awake, in its next prompt
for you, and in status.

With --wait it returns when the nudge is polled. With --wait=POINT it returns
when the nudge is queued, polled, turned (all turns that it caused have run) or
delivered (and their answers are sent; done means the same). Exits 4 if HALT or
the mesh refuses the nudge, 5 after --timeout, and 6 if a turn or a delivery
failed.

HANDLE names another agent. If its configuration is in the same folder as yours,
it is nudged directly. Otherwise your agent nudges it through the mesh; it must
list your agent in its peers, and only --wait=queued works. On a standby
(docs/fleet.md), a nudge for your own agent goes through the mesh too.

Examples:
  make && agentstateloop nudge --reason "build is green"
  agentstateloop nudge --wait=done --timeout 2m --json`,
		Flags: []cli.Flag{
			textFlag(&o.from, "from", "`NAME`: sender of the nudge"),
			textFlag(&o.reason, "reason", "`TEXT`: reason, in one line"),
			&cli.GenericFlag{Name: "wait", Value: &o.wait, Usage: "wait until the nudge is polled, or reaches `POINT`"},
			durationFlag(&o.timeout, "timeout", "give up waiting after `DURATION`", nudgeTimeout),
			switchFlag(&o.noPoll, "no-poll", "only record the nudge, for the next poll"),
		},
		Action: p.agentAction(0, 1, o.run),
	}
}

// nudgeOutput is the JSON output of nudge. poll is null if no cycle ran. receipt is null without
// --wait. error is the reason if the nudge has not reached the point of --wait.
type nudgeOutput struct {
	Agent   string        `json:"agent"`
	Poll    *pollOutput   `json:"poll"`
	Receipt *view.Receipt `json:"receipt"`
	Error   *errorOutput  `json:"error"`
}

func (o *nudgeOptions) run(c *call, a *cycle.Agent) error {
	handle := strings.TrimPrefix(c.arg(0), "@")
	if handle != "" && handle != a.Handle {
		own := c.neighbour(a, handle)
		if own == nil {
			return o.throughMesh(c, a, handle)
		}
		a = own
	}
	rung, settle, err := a.RingAtOnce(o.from, o.reason)
	if onStandby(err) {
		return o.forward(c, a, err)
	}
	if err != nil {
		return err
	}
	// The poll need not wait for the disk; only the report of success must.
	settled := make(chan error, 1)
	go c.loader.Secrets.Guarded(func() { settled <- settle() })()
	result := nudgeOutput{Agent: a.Handle}
	var polled error
	if !o.noPoll {
		var r cycle.Report
		if r, polled = c.runPoll(a); polled == nil {
			v := reportOf(r)
			result.Poll = &v
		}
	}
	if err := <-settled; err != nil {
		return err
	}
	if polled != nil && !errors.Is(polled, cycle.ErrBusy) && !errors.Is(polled, cycle.ErrInterrupted) && !onStandby(polled) {
		return terminal.WithHint(fmt.Errorf("the nudge is recorded, but the poll after it failed: %w", polled), "`"+name+" doctor` shows why; the next successful poll handles the nudge")
	}
	var failed error
	if point := o.point(); point != "" {
		r, err := awaitNudge(c.ctx, a, rung, point, o.timeout, &waitReporter{call: c, agent: a})
		result.Receipt, failed = &r, err
	}
	if c.json {
		result.Error = outputOf(failed)
		return errors.Join(c.out.JSON(result), failed)
	}
	if result.Receipt != nil {
		c.out.Printf("receipt: %s\n", present.Receipt(*result.Receipt, c.now()))
		return failed
	}
	text := "recorded; the running poll handles it"
	switch {
	case result.Poll != nil:
		text = present.Report(result.Poll.Report, c.now())
	case o.noPoll:
		text = "recorded for its next poll"
	case onStandby(polled):
		text = "recorded; " + polled.Error()
	case polled != nil && errors.Is(polled, cycle.ErrInterrupted):
		text = "recorded; the poll after it was interrupted, and the next one handles it"
	}
	c.out.Printf("nudged @%s: %s\n", a.Handle, text)
	return nil
}

// forward nudges the host that acts for the agent. standby tells which.
func (o *nudgeOptions) forward(c *call, a *cycle.Agent, standby error) error {
	point := o.point()
	switch {
	case o.noPoll:
		return terminal.WithHint(standby, "--no-poll works on the host that acts: it decides when to poll")
	case point != "" && point != view.PointQueued:
		return terminal.WithHint(standby, "--wait=queued works here: it returns when the servers have the nudge")
	}
	if err := a.ForwardNudge(c.ctx, o.from, o.reason); err != nil {
		return refusedByMesh(err, point)
	}
	return o.queued(c, a.Handle, standby.Error())
}

// throughMesh nudges an agent without a configuration in this folder.
func (o *nudgeOptions) throughMesh(c *call, a *cycle.Agent, handle string) error {
	handle, err := parseHandle(handle)
	if err != nil {
		return err
	}
	if o.noPoll {
		return terminal.Usagef("", "--no-poll works only for your own agent: another agent decides when to poll")
	}
	point := o.point()
	if point != "" && point != view.PointQueued {
		hint := "--wait=queued works: it returns when the mesh has the nudge"
		if slices.Contains(points, handle) {
			hint = "did you mean --wait=" + handle + "? Without the = it is the handle of another agent"
		}
		return terminal.Usagef(hint, "cannot wait for @%s: its configuration is not in this folder", handle)
	}
	if err := a.RingOther(c.ctx, handle, o.from, o.reason); err != nil {
		return refusedByMesh(err, point)
	}
	return o.queued(c, handle, "")
}

// queued prints that the mesh has the nudge.
func (o *nudgeOptions) queued(c *call, handle, note string) error {
	result := nudgeOutput{Agent: handle}
	if o.point() != "" {
		now := c.now().UTC()
		result.Receipt = &view.Receipt{Queued: &now}
	}
	if note != "" {
		note = ": " + note
	}
	return c.print(result, "nudged @%s through the mesh%s\n", handle, note)
}

// points are the values of nudge --wait=POINT.
var points = []string{
	string(view.PointQueued), string(view.PointPolled), string(view.PointTurned), string(view.PointDelivered), pointDone,
}

// pointDone is a synonym for the last point.
const pointDone = "done"

// point returns the point of --wait, or "" without the flag.
func (o *nudgeOptions) point() view.Point {
	if o.wait.value == pointDone {
		return view.PointDelivered
	}
	return view.Point(o.wait.value)
}

// waitError is the reason why a nudge did not reach its point, with a separate exit code.
type waitError struct {
	error
	code int
}

func (e *waitError) Unwrap() error { return e.error }

// awaitNudge waits until a nudge has reached a point. The error is the reason if it has not.
func awaitNudge(ctx context.Context, a *cycle.Agent, nudge view.RecordedNudge, point view.Point, timeout time.Duration, why *waitReporter) (view.Receipt, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := a.View().AwaitNudge(waiting, nudge, point, why.show)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, view.ErrHalted):
		return r, &waitError{err, exitRefused}
	case errors.Is(err, view.ErrFailed):
		return r, &waitError{err, exitFailed}
	case ctx.Err() == nil && waiting.Err() != nil:
		return r, &waitError{fmt.Errorf("timed out after %s: the nudge is recorded, but not yet %s", terminal.Short(timeout), point), exitTimeout}
	}
	return r, err
}

// refusedByMesh adds the exit code of --wait to a refusal by the mesh. Without --wait, and for
// any other error, it returns err unchanged.
func refusedByMesh(err error, point view.Point) error {
	if refused, ok := errors.AsType[*mesh.Error](err); ok && point != "" && !refused.Temporary() {
		return &waitError{err, exitRefused}
	}
	return err
}
