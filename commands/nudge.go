package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/secret"
)

// nudgeTimeout is the default timeout of nudge --wait.
const nudgeTimeout = 5 * time.Minute

type nudgeCmd struct {
	agents  agents
	out     *terminal.Output
	now     func() time.Time
	secrets *secret.Known
}

func nudgeCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "nudge",
		Usage:     "wake the agent now, or another one through the mesh",
		ArgsUsage: "[HANDLE]",
		Description: `Works like a doorbell: an agent in IDLE goes to PREP and looks for messages each
minute. The nudge is recorded first and cannot get lost. Then one cycle runs at
once; a poll in the background runs the turns. Who nudged and why stands in the
mail that says the agent is awake, in its next prompt for you, and in status.

With --wait it returns when the nudge is polled, or with --wait=POINT when it is
queued, polled, turned (every turn that it caused has run) or delivered (and the
answers are sent; done is the same). It exits 4 if HALT or the mesh refuses the
nudge, 5 when --timeout is over, and 6 if a turn or a delivery failed.

HANDLE names another agent. If its configuration lies in the same folder as
yours, it is nudged in the same way. Any other is nudged through the mesh, as
your agent: it must list your agent in its peers. Only --wait=queued works then.

Example:
  make && agentstateloop nudge --reason "build is green"
  agentstateloop nudge --wait=done --timeout 2m --json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`NAME` of the sender"},
			&cli.StringFlag{Name: "reason", Usage: "why, as `TEXT` of one line"},
			&cli.GenericFlag{Name: "wait", Value: &optional{without: string(view.PointPolled), choices: points}, Usage: "wait until it is polled, or has reached `POINT`"},
			durationFlag("timeout", "give up waiting after `DURATION`", nudgeTimeout),
			switchFlag("no-poll", "only record it, for the next poll"),
		},
		Action: nudgeCmd{p.agents(), &p.out, p.loader.Now, p.loader.Secrets}.run,
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

func (n nudgeCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 1); err != nil {
		return err
	}
	a, err := n.agents.load(c)
	if err != nil {
		return err
	}
	handle := strings.TrimPrefix(c.Args().First(), "@")
	if handle != "" && handle != a.Handle {
		own := n.agents.neighbour(a, handle)
		if own == nil {
			return n.throughMesh(c, a, handle)
		}
		a = own
	}
	rung, settle, err := a.RingAtOnce(c.String("from"), c.String("reason"))
	if err != nil {
		return err
	}
	// The poll need not wait for the disk; only the report of success must.
	settled := make(chan error, 1)
	go n.secrets.Guarded(func() { settled <- settle() })()
	result := nudgeOutput{Agent: a.Handle}
	var polled error
	if !c.Bool("no-poll") {
		var r cycle.Report
		if r, polled = runPoll(c.Context, a, n.out); polled == nil {
			v := reportOf(r)
			result.Poll = &v
		}
	}
	if err := <-settled; err != nil {
		return err
	}
	if polled != nil && !errors.Is(polled, cycle.ErrBusy) && !errors.Is(polled, cycle.ErrInterrupted) {
		return terminal.WithHint(fmt.Errorf("the nudge is recorded, but the poll after it failed: %w", polled), "`"+name+" doctor` says why; the next poll that works sees the nudge")
	}
	var failed error
	if point := waitPoint(c); point != "" {
		r, err := awaitNudge(c.Context, a, rung, point, durationOf(c, "timeout"), &whyWaits{agent: a, out: n.out, now: n.now, quiet: c.Bool("json")})
		result.Receipt, failed = &r, err
	}
	if c.Bool("json") {
		result.Error = outputOf(failed)
		return errors.Join(n.out.JSON(result), failed)
	}
	if result.Receipt != nil {
		printReceipt(n.out, *result.Receipt, n.now())
		return failed
	}
	switch {
	case result.Poll != nil:
		n.out.Printf("nudged @%s: %s\n", a.Handle, reportText(result.Poll.Report, n.now()))
	case c.Bool("no-poll"):
		n.out.Printf("nudged @%s: recorded for its next poll\n", a.Handle)
	case polled != nil && errors.Is(polled, cycle.ErrInterrupted):
		n.out.Printf("nudged @%s: recorded; the poll after it was interrupted, and the next one sees it\n", a.Handle)
	default:
		n.out.Printf("nudged @%s: recorded; the poll that is running sees it\n", a.Handle)
	}
	return nil
}

// throughMesh nudges an agent without a configuration in this folder.
func (n nudgeCmd) throughMesh(c *cli.Context, a *cycle.Agent, handle string) error {
	handle, err := parseHandle(handle)
	if err != nil {
		return err
	}
	if c.Bool("no-poll") {
		return terminal.Usagef("", "--no-poll is for your own agent: another one decides itself when to poll")
	}
	point := waitPoint(c)
	if point != "" && point != view.PointQueued {
		hint := "--wait=queued returns when the mesh holds it"
		if slices.Contains(points, handle) {
			hint = "did you mean --wait=" + handle + "? without the = it is the handle of another agent"
		}
		return terminal.Usagef(hint, "cannot wait for @%s: its configuration is not in this folder", handle)
	}
	if err := a.RingOther(c.Context, handle, c.String("from"), c.String("reason")); err != nil {
		return refusedByMesh(err, point)
	}
	result := nudgeOutput{Agent: handle}
	if point != "" {
		now := n.now().UTC()
		result.Receipt = &view.Receipt{Queued: &now}
	}
	if c.Bool("json") {
		return n.out.JSON(result)
	}
	n.out.Printf("nudged @%s through the mesh\n", handle)
	return nil
}
