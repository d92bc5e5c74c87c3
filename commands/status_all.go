package commands

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// household is what status --all --json prints: our agents, and the others that
// the mesh has seen lately; others is null where no mesh could be asked.
type household struct {
	Agents []cycle.Status  `json:"agents"`
	Others []mesh.Presence `json:"others"`
}

// statusAll shows the agents of the arguments, else all whose configurations
// lie beside ours.
func (p *program) statusAll(c *cli.Context) error {
	all, err := p.agentsBeside(c)
	if err != nil {
		return err
	}
	var h household
	for _, a := range all {
		s, err := a.Status()
		if err != nil {
			return fmt.Errorf("@%s: %w", a.Handle, err)
		}
		h.Agents = append(h.Agents, s)
	}
	var failed error
	if h.Others, err = others(c.Context, all); err != nil {
		failed = &sourceError{failed: []string{plain.Line(err.Error())}}
	}
	if c.Bool("json") {
		err = p.out.JSON(h)
	} else {
		err = p.printHousehold(h)
	}
	return errors.Join(err, failed)
}

// agentsBeside is agents, but without an argument all in the folder of the one.
func (p *program) agentsBeside(c *cli.Context) ([]*cycle.Agent, error) {
	if c.NArg() > 0 {
		return p.agents(c)
	}
	a, err := p.agent(c)
	if err != nil {
		return nil, err
	}
	all, err := p.agentsIn(filepath.Dir(a.Config))
	if err != nil {
		return []*cycle.Agent{a}, nil // its file has another ending, and is alone
	}
	all = slices.DeleteFunc(all, func(b *cycle.Agent) bool { return b.Handle == a.Handle })
	all = append([]*cycle.Agent{a}, all...)
	return all, distinct(all)
}

// others are the agents that the meshes of ours show beside ours. The first
// mesh that answers speaks for all agents that use it.
func others(ctx context.Context, ours []*cycle.Agent) ([]mesh.Presence, error) {
	found := map[string]mesh.Presence{}
	asked := map[string]bool{}
	var failed []error
	for _, a := range ours {
		if a.Mesh == nil || asked[a.Mesh.Client.URL] {
			continue
		}
		online, err := a.Others(ctx)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		asked[a.Mesh.Client.URL] = true
		for _, other := range online {
			found[other.Handle] = other
		}
	}
	if len(asked) == 0 {
		return nil, errors.Join(failed...)
	}
	for _, a := range ours {
		delete(found, a.Handle)
	}
	list := []mesh.Presence{}
	for _, other := range found {
		list = append(list, other)
	}
	slices.SortFunc(list, func(a, b mesh.Presence) int { return strings.Compare(a.Handle, b.Handle) })
	return list, nil
}

// printHousehold prints an agent a line.
func (p *program) printHousehold(h household) error {
	now := p.loader.Now()
	w := p.out.Table()
	for _, s := range h.Agents {
		since := ""
		if s.PhaseSince != nil {
			since = "since " + terminal.Clock(*s.PhaseSince, now)
		}
		fmt.Fprintf(w, "@%s\t%s\t%s\t%s\n", s.Agent, s.Phase, since, strings.Join(briefly(s, now), ", "))
	}
	for _, other := range h.Others {
		where := "over the mesh"
		if other.Asleep {
			where += ", asleep"
		}
		if other.Tier != "" && other.Tier != state.TierNormal {
			where += ", " + plain.Line(string(other.Tier))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain.Line("@"+other.Handle), plain.Line(string(other.Phase)), "seen "+terminal.Clock(other.SeenAt, now), where)
	}
	return w.Flush()
}

// briefly says what there is to say of an agent beside its phase, what is wrong
// in capitals.
func briefly(s cycle.Status, now time.Time) []string {
	var parts []string
	say := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	say(s.Halted, "HALTED")
	say(s.Tier == state.TierDead, "BROKE")
	say(s.Tier != state.TierDead && s.Tier != state.TierNormal, "%s", s.Tier)
	say(len(s.Credentials) > 0, "CREDENTIAL")
	say(s.Offline, "OFFLINE")
	say(s.Schedule.Error != nil, "CRONTAB")
	say(s.Outbox.Undeliverable > 0, "LOST %d", s.Outbox.Undeliverable)
	say(s.NextDue == nil, "never polled")
	if s.NextDue != nil {
		overdue := s.NextDue.Before(now.Add(-time.Minute))
		say(overdue, "OVERDUE since %s", terminal.Clock(*s.NextDue, now))
		say(!overdue, "next poll %s", terminal.Clock(*s.NextDue, now))
	}
	say(s.Inbox.Waiting > 0, "%s", terminal.Count(s.Inbox.Waiting, "message")+" waiting")
	say(s.Turn.ID != nil, "turn %s", s.Turn.Status)
	return parts
}
