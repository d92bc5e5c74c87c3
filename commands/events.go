package commands

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
)

// eventsOptions are the flags of events.
type eventsOptions struct {
	follow      bool
	since, turn string
	n           int
}

func eventsCommand(p *program) *cli.Command {
	var o eventsOptions
	return &cli.Command{
		Name:  "events",
		Usage: "show events: turns, steps of the agent, phases",
		Description: `Shows the latest events, oldest first. With --follow it also shows new events
until Ctrl-C. The steps of a running agent are included: its tools, sizes and
states, but none of its text. docs/events.md lists all events.

Example:
  agentstateloop events --follow --json | jq 'select(.event == "task.failed")'`,
		Flags: []cli.Flag{
			switchFlag(&o.follow, "follow", "keep running and show new events"),
			textFlag(&o.since, "since", "only events after this `ID` or serial"),
			textFlag(&o.turn, "turn", "only events of the turn `ID`"),
			&cli.IntFlag{Name: "n", Value: 20, Usage: "`NUMBER`: how many events to show; 0 for all", Destination: &o.n},
		},
		Action: p.action(0, 0, o.run),
	}
}

// errUnread ends a follower after the reader of its output has gone.
var errUnread = errors.New("nobody reads")

func (o *eventsOptions) run(c *call) error {
	if o.n < 0 {
		return terminal.Usagef("see "+name+" events --help", "-n must be a number of events, or 0 for all")
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	events, err := o.begin(c, a)
	if err != nil {
		return err
	}
	most := o.limit(c)
	take := func(found []view.LiveEvent) error {
		if id := o.turn; id != "" {
			found = slices.DeleteFunc(found, func(e view.LiveEvent) bool { return !e.OfTurn(id) })
		}
		if most > 0 {
			found = found[max(0, len(found)-most):]
		}
		most = 0 // the limit applies only to the first events
		return o.print(c, found)
	}
	if o.follow {
		err := events.Follow(c.ctx, func(found []view.LiveEvent) error {
			if len(found) == 0 && c.unread() {
				return errUnread
			}
			return take(found)
		})
		if errors.Is(err, errUnread) {
			err = nil
		}
		return err
	}
	found, err := events.Next()
	if err != nil {
		return err
	}
	return take(found)
}

// limit is the maximum of the existing events that are shown. 0 means all.
func (o *eventsOptions) limit(c *call) int {
	if c.given(&o.n) == "" && c.given(&o.since, &o.turn) != "" {
		return 0
	}
	return o.n
}

// begin returns the events, positioned at the first one to show.
func (o *eventsOptions) begin(c *call, a *cycle.Agent) (*view.Events, error) {
	switch {
	case c.given(&o.since) != "":
		after, err := view.ParseCursor(o.since)
		if err != nil {
			return nil, terminal.Usagef("see "+name+" events --help", "--since: %v", err)
		}
		return a.View().Events(after), nil
	case o.follow && c.given(&o.n, &o.turn) == "":
		return a.View().EventsFromNow()
	case c.given(&o.turn) != "":
		return a.View().LastEvents(0)
	}
	return a.View().LastEvents(o.n)
}

func (o *eventsOptions) print(c *call, found []view.LiveEvent) error {
	for _, e := range found {
		if c.json {
			if err := c.out.JSONLine(e); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintln(c.out.Stdout, present.Event(e, c.now())); err != nil {
			return err
		}
	}
	return nil
}
