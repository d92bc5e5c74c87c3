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
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// eventsWidth is the maximum length of an event's line, in characters.
const eventsWidth = 80

type eventsCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
	unread func() bool
}

func eventsCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "events",
		Usage: "show what happens: turns, steps of the agent, phases",
		Description: `Shows the last events, the oldest first. With --follow it shows each new one as
it comes, until Ctrl-C. The steps of a running agent are among them: its tools,
sizes and states, and nothing that it says. docs/events.md lists all events.

Example:
  agentstateloop events --follow --json | jq 'select(.event == "task.failed")'`,
		Flags: []cli.Flag{
			switchFlag("follow", "wait for new events and show them"),
			&cli.StringFlag{Name: "since", Usage: "the events after that `ID`, or after that serial"},
			&cli.StringFlag{Name: "turn", Usage: "only events of the turn with this `ID`"},
			&cli.IntFlag{Name: "n", Value: 20, Usage: "show the last `NUMBER` of events; 0 shows all"},
		},
		Action: eventsCmd{p.agents(), &p.out, p.loader.Now, p.unread}.run,
	}
}

// errUnread ends a follower after the reader of its output has gone.
var errUnread = errors.New("nobody reads")

func (k eventsCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	if c.Int("n") < 0 {
		return terminal.Usagef("see "+name+" events --help", "-n must be a number of events, or 0 for all")
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	events, err := k.begin(c, a)
	if err != nil {
		return err
	}
	most := mostEvents(c)
	take := func(found []view.LiveEvent) error {
		if id := c.String("turn"); id != "" {
			found = slices.DeleteFunc(found, func(e view.LiveEvent) bool { return !e.OfTurn(id) })
		}
		if most > 0 {
			found = found[max(0, len(found)-most):]
		}
		most = 0 // the limit applies only to the first events
		return k.print(c, found)
	}
	if c.Bool("follow") {
		err := events.Follow(c.Context, func(found []view.LiveEvent) error {
			if len(found) == 0 && k.unread() {
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

// mostEvents limits the existing events that are shown. 0 means all.
func mostEvents(c *cli.Context) int {
	if !c.IsSet("n") && (c.IsSet("since") || c.IsSet("turn")) {
		return 0
	}
	return c.Int("n")
}

// begin returns the events, positioned at the first one to show.
func (k eventsCmd) begin(c *cli.Context, a *cycle.Agent) (*view.Events, error) {
	switch {
	case c.IsSet("since"):
		after, err := view.ParseCursor(c.String("since"))
		if err != nil {
			return nil, terminal.Usagef("see "+name+" events --help", "--since: %v", err)
		}
		return a.View().Events(after), nil
	case c.Bool("follow") && !c.IsSet("n") && !c.IsSet("turn"):
		return a.View().EventsFromNow()
	case c.IsSet("turn"):
		return a.View().LastEvents(0)
	}
	return a.View().LastEvents(c.Int("n"))
}

func (k eventsCmd) print(c *cli.Context, found []view.LiveEvent) error {
	for _, e := range found {
		if c.Bool("json") {
			if err := k.out.JSONLine(e); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintln(k.out.Stdout, eventText(e, k.now())); err != nil {
			return err
		}
	}
	return nil
}

// eventText returns an event as one line for a person.
func eventText(e view.LiveEvent, now time.Time) string {
	var parts []string
	add := func(format, text string) {
		if text != "" {
			parts = append(parts, fmt.Sprintf(format, plain.Line(text)))
		}
	}
	switch d := e.Data.(type) {
	case state.Details:
		if d.New != "" {
			add("%s", string(d.Old)+" → "+string(d.New))
		}
		add("from %s", d.From)
		add("to %s", d.To)
		add("%s", d.Credential)
		add("gate %s", d.Gate)
		add("%s", d.Reason)
		for _, id := range []string{d.TurnID, d.Effect, d.Key} {
			if id != "" {
				add("(%s)", id)
				break
			}
		}
	case view.StepDetails:
		add("%s", d.Tool)
		if d.Bytes > 0 {
			add("%s", terminal.Count(d.Bytes, "byte"))
		}
		if d.WaitingTools > 1 {
			add("%s", terminal.Count(d.WaitingTools, "tool")+" at once")
		}
		if d.Fails {
			add("%s", "failed")
		}
		add("%s", d.Reason)
	}
	line := []rune(fmt.Sprintf("%s  %-18s %s", terminal.Clock(e.At, now), e.Event, strings.Join(parts, " ")))
	if len(line) > eventsWidth {
		line = append(line[:eventsWidth-1], '…')
	}
	return strings.TrimRight(string(line), " ")
}
