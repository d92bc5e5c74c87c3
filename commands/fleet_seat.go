package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/fleet/seat"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state/store"
)

// This file has the commands for one agent on several hosts (package fleet/seat).

// seatAction is agentAction for a command that needs [fleet] in the configuration.
func (p *program) seatAction(do func(*call, *cycle.Agent) error) cli.ActionFunc {
	return p.agentAction(0, 0, func(c *call, a *cycle.Agent) error {
		switch {
		case a.Seat == nil:
			return &config.Error{Path: a.Config, Text: "it has no [fleet] table, so @" + a.Handle + " lives on this host alone",
				Advice: "add the table [fleet], which needs url in [mesh] with the servers; then run `" + name + " fleet join`"}
		case c.insideTurn():
			return notAllowed("run it outside the agent's turn", "%s decides where the turn may run", c.helpName())
		}
		return do(c, a)
	})
}

// seatOutput is the JSON output of fleet join, leave, take and release.
type seatOutput struct {
	Agent  string  `json:"agent"`
	Host   string  `json:"host"`   // this one
	Holder *string `json:"holder"` // null: no host acts
	Term   uint64  `json:"term"`
	Next   string  `json:"next"`
}

// print prints the result of one of these commands.
func (r seatOutput) print(c *call, did string) error {
	return c.print(r, "%s\n\n%s\n", did, r.Next)
}

// seatNow returns the output for the seat as this host knows it.
func seatNow(a *cycle.Agent) (seatOutput, seat.View, error) {
	v, err := a.Seat.View()
	return seatOutput{Agent: a.Handle, Host: a.Seat.Host, Holder: orNull(v.Holder), Term: v.Term}, v, err
}

// fleetJoinOptions are the flags of fleet join.
type fleetJoinOptions struct{ replace bool }

func fleetJoinCommand(p *program) *cli.Command {
	var o fleetJoinOptions
	return &cli.Command{
		Name:  "join",
		Usage: "let the agent of this host live on several hosts",
		Description: `The servers keep the state of the agent for all its hosts, and one host acts. On
the first host, join puts the state of this directory there. On each other host
it makes this directory a copy of that state. init does the same.

If this directory has a state that the servers never had, join refuses. With
--replace it sets that state aside, in the same folder. If the servers have lost
the state, --replace on the host that acted last puts its state there.

Examples:
  agentstateloop fleet join
  agentstateloop fleet join --replace`,
		Flags: []cli.Flag{
			switchFlag(&o.replace, "replace", "set a state aside that the servers never had"),
		},
		Action: p.seatAction(o.run),
	}
}

// fleetJoinOutput is the JSON output of fleet join.
type fleetJoinOutput struct {
	seatOutput
	Made  bool `json:"made"`  // the servers got the state of this directory
	Aside bool `json:"aside"` // the state of this directory was set aside

	text string // all of it in words
}

func (o *fleetJoinOptions) run(c *call, a *cycle.Agent) error {
	r, err := c.join(a, o.replace)
	if err != nil {
		return err
	}
	return c.print(r, "%s\n\n%s\n", r.text, r.Next)
}

// join joins a host.
func (c *call) join(a *cycle.Agent, replace bool) (*fleetJoinOutput, error) {
	release, err := c.stopOldProcesses(a)
	if err != nil {
		return nil, err
	}
	defer release()
	j, err := a.Seat.Join(c.ctx, replace)
	if err != nil {
		return nil, err
	}
	return &fleetJoinOutput{joinedSeat(a, j), j.Made, j.Aside, joinedText(a, j)}, nil
}

// stopOldProcesses waits until no process works that began before [fleet] was set, and so commits
// past the servers. It returns what lets processes begin again.
func (c *call) stopOldProcesses(a *cycle.Agent) (release func(), err error) {
	v, err := a.Seat.View()
	if err != nil || v.Joined {
		return func() {}, err
	}
	noted := ""
	return a.Store.Hold(c.ctx, func(lock string) error {
		what := map[string]string{store.TurnLock: "the running turn", store.CycleLock: "the running poll", store.ListenLock: "the listener: stop it, and start it again after this"}[lock]
		if lock != noted {
			c.out.Note("note", "waiting for %s", what)
			noted = lock
		}
		return nil
	}, store.ListenLock, store.TurnLock, store.CycleLock)
}

// joinedSeat returns the output of a join.
func joinedSeat(a *cycle.Agent, j seat.Joined) seatOutput {
	r := seatOutput{Agent: a.Handle, Host: a.Seat.Host, Holder: orNull(j.Holder), Term: j.Term}
	switch {
	case j.Here:
		r.Next = "Next: on each other host, copy agent.toml and its secrets, change host in [fleet], and run `" + name + " init`."
	case a.Seat.Auto:
		r.Next = "Next: nothing. This host acts by itself if the other one falls silent.\n`" + name + " fleet take` makes it act now."
	default:
		r.Next = "Next: nothing. `" + name + " fleet take` makes this host act."
	}
	return r
}

// joinedText says in words what a join did.
func joinedText(a *cycle.Agent, j seat.Joined) string {
	text := fmt.Sprintf("%s acts for @%s (term %d); this host, %s, is a standby", j.Holder, a.Handle, j.Term, a.Seat.Host)
	switch {
	case j.Made:
		text = fmt.Sprintf("the servers have the state of @%s now, and this host, %s, acts (term %d)", a.Handle, j.Holder, j.Term)
	case j.Here:
		text = fmt.Sprintf("this host, %s, acts for @%s (term %d)", j.Holder, a.Handle, j.Term)
	case j.Holder == a.Seat.Host:
		text += "\n" + seat.Namesake + "."
	case j.Holder == "":
		text = fmt.Sprintf("no host acts for @%s yet: the seat was released; this host, %s, is a standby", a.Handle, a.Seat.Host)
	}
	if j.Already {
		text += "; it has joined before"
	}
	if j.Aside {
		text += "\nThe old state of this directory was set aside, in " + a.Store.Dir + "."
	}
	return text
}

func fleetLeaveCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "leave",
		Usage: "let the agent live on this host alone again",
		Description: `Run it on the host that acts. This host goes on alone, and all other hosts stop.
Then remove the table [fleet] here. The state stays in the servers, and fleet
join puts a newer one there.

To remove a standby, use uninstall there.

Example:
  agentstateloop fleet leave`,
		Action: p.seatAction(fleetLeave),
	}
}

func fleetLeave(c *call, a *cycle.Agent) error {
	r, v, err := seatNow(a)
	switch {
	case err != nil:
		return err
	case !v.Joined:
		return &seat.TroubleError{Trouble: v.Trouble, Text: v.Text}
	case !v.Here:
		return terminal.WithHint(&seat.StandbyError{Handle: a.Handle, Holder: v.Holder, To: v.To, Term: v.Term, Ago: v.Ago},
			"fleet leave lets the agent live on alone on the host that acts. To remove this standby, run `"+name+" uninstall`; to keep the agent here, first `"+name+" fleet take`")
	}
	if _, err := a.Seat.Leave(c.ctx); err != nil {
		return err
	}
	r.Next = "Next: remove the table [fleet] from " + a.Config + ": until then nothing runs here.\nOn each other host: `" + name + " uninstall`."
	return r.print(c, fmt.Sprintf("@%s has left the fleet, and lives on this host, %s, alone", a.Handle, a.Seat.Host))
}

// takeWait is the default wait of fleet take: a holder that is silent loses a lease of 150 s
// within it, and one that is idle releases its seat at its next poll.
const takeWait = 4 * time.Minute

// fleetTakeOptions are the flags of fleet take.
type fleetTakeOptions struct{ timeout time.Duration }

func fleetTakeCommand(p *program) *cli.Command {
	var o fleetTakeOptions
	return &cli.Command{
		Name:  "take",
		Usage: "make this host act for the agent",
		Description: `Asks the host that acts to release the seat, which it does at its next poll, but
not while its agent works on a turn. If it is silent, this host acts when its
lease is over. No turn runs twice.

Prints each reason why it waits. Exits 75 at --timeout; the other host then goes
on. The default is enough for a silent host with a lease of 150s.

Examples:
  agentstateloop fleet take
  agentstateloop fleet take --timeout 1h`,
		Flags: []cli.Flag{
			durationFlag(&o.timeout, "timeout", "give up waiting after `DURATION`", takeWait),
		},
		Action: p.seatAction(o.run),
	}
}

func (o *fleetTakeOptions) run(c *call, a *cycle.Agent) error {
	if v, err := a.Seat.View(); err != nil {
		return err
	} else if !v.Joined { // nothing is lost by it: Join refuses otherwise
		if _, err := c.join(a, false); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, o.timeout)
	defer cancel()
	shown := ""
	err := a.Seat.Take(ctx, func(ctx context.Context) { ringHolder(ctx, a) }, func(err error) {
		if reason := c.whyWaits(a, err); reason != shown {
			c.out.Note("note", "%s", reason)
			shown = reason
		}
	})
	if err != nil && c.ctx.Err() != nil {
		return terminal.WithHint(coded(codeInterrupted, errors.New("interrupted: this host does not act")), "the request was taken back")
	}
	if err != nil && ctx.Err() != nil {
		return terminal.WithHint(fmt.Errorf("not within %s: %w", terminal.Short(o.timeout), err), "the request was taken back; try again, or wait longer with --timeout")
	}
	if err != nil {
		return err
	}
	c.pollAfter(a)
	r, v, err := seatNow(a)
	if err != nil {
		return err
	}
	r.Next = fmt.Sprintf("Each poll here renews the lease of %s; `%s status` shows it.", terminal.Short(v.Lease), name)
	return r.print(c, fmt.Sprintf("this host, %s, acts for @%s now (term %d)", a.Seat.Host, a.Handle, v.Term))
}

// ringHolder wakes a listener on the host that acts: its poll finds the request. Without one, cron
// polls within a minute.
func ringHolder(ctx context.Context, a *cycle.Agent) {
	if client, ok := a.Mesh.Carrier.(*natsmesh.Client); ok {
		_ = client.Conn().Ring(ctx, a.Handle) // the next poll of the holder comes anyway
	}
}

// whyWaits returns the reason why fleet take waits, without a time that changes each second.
func (c *call) whyWaits(a *cycle.Agent, err error) string {
	e, ok := errors.AsType[*seat.StandbyError](err)
	if !ok {
		return "the servers do not answer: " + err.Error()
	}
	if e.Holder == "" && e.To == "" {
		return "the seat was released"
	}
	if e.Holder == "" {
		return "the seat was released to " + e.To + ": this host acts if " + e.To + " does not"
	}
	if e.Reason == seat.Namesake {
		return e.Error()
	}
	who := fmt.Sprintf("%s acts for @%s (term %d)", e.Holder, a.Handle, e.Term)
	v, viewErr := a.Seat.View()
	s, stateErr := a.Store.Read()
	switch {
	case viewErr == nil && e.Ago > v.Lease*3/5: // a poll and its pause take two fifths
		return who + ", and is silent: this host acts when " + terminal.Short(seat.Silence(v.Lease)) + " have passed without a sign of it"
	case stateErr == nil && seat.Busy(s):
		return who + ", and works on a turn: waiting for its end; `" + name + " stop` on " + e.Holder + " ends it now"
	}
	return who + ": asked it to release the seat, which its next poll does"
}

func fleetReleaseCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "release",
		Usage: "let any other host act for the agent",
		Description: `Run it on the host that acts, for example before it shuts down. The next poll of
any other host makes that host act. If no other host comes, this one acts again
after one lease.

Example:
  agentstateloop fleet release`,
		Action: p.seatAction(fleetRelease),
	}
}

func fleetRelease(c *call, a *cycle.Agent) error {
	if err := a.Seat.Release(c.ctx); err != nil {
		return err
	}
	r, _, err := seatNow(a)
	if err != nil {
		return err
	}
	r.Next = "Next: the next poll of another host takes the seat. If this host stays off, nothing\nmore is needed; to remove it for good, run `" + name + " uninstall`."
	return r.print(c, fmt.Sprintf("no host acts for @%s now: this host, %s, has released the seat", a.Handle, a.Seat.Host))
}
