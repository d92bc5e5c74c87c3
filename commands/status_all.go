package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// agentTable holds our agents, and the other agents that a mesh has seen lately.
type agentTable struct {
	agents []view.Status
	others []mesh.Presence // nil if no mesh could be queried

	hosts map[string][]mesh.HostSeen // of our agents on several hosts, by handle
}

// statusAllOutput is the JSON output of status --all: our agents, and the other agents that the
// mesh has seen lately. If no mesh could be queried, Others is null, and Error is the reason.
type statusAllOutput struct {
	Agents []view.Status    `json:"agents"`
	Fleets []fleetOutput    `json:"fleets"`
	Others []presenceOutput `json:"others"`
	Error  *errorOutput     `json:"error"`
}

// fleetOutput is the JSON output for one of our agents that lives on several hosts.
type fleetOutput struct {
	Agent string       `json:"agent"`
	Hosts []hostOutput `json:"hosts"`
}

// fleets returns the JSON output for the hosts of our agents.
func (h agentTable) fleets() []fleetOutput {
	list := []fleetOutput{}
	for _, s := range h.agents {
		if s.Fleet != nil {
			list = append(list, fleetOutput{s.Agent, hostsOutput(h.hosts[s.Agent])})
		}
	}
	return list
}

// presenceOutput is the JSON output for an agent that the mesh has seen.
type presenceOutput struct {
	Handle   string      `json:"handle"`
	Callsign string      `json:"callsign"`
	Phase    state.Phase `json:"phase"` // "" if unknown
	Asleep   bool        `json:"asleep"`
	Tier     state.Tier  `json:"tier"`
	SeenAt   *time.Time  `json:"seen_at"`
	Away     bool        `json:"away"` // seen, but not lately

	Hosts []hostOutput `json:"hosts"` // over NATS
}

// hostOutput is a host of an agent on the mesh.
type hostOutput struct {
	Host   string     `json:"host"`
	SeenAt *time.Time `json:"seen_at"`
	Away   bool       `json:"away"`

	Version *string `json:"version"` // of the program there; null: unknown
}

func hostsOutput(hosts []mesh.HostSeen) []hostOutput {
	list := []hostOutput{}
	for _, h := range hosts {
		list = append(list, hostOutput{h.Host, orNull(h.SeenAt.UTC()), h.Away, orNull(h.Version)})
	}
	return list
}

// presencesOf converts presences on the mesh to their JSON output.
func presencesOf(seen []mesh.Presence) []presenceOutput {
	if seen == nil {
		return nil
	}
	list := []presenceOutput{}
	for _, p := range seen {
		list = append(list, presenceOutput{p.Handle, p.Callsign, p.Phase, p.Asleep, p.Tier, orNull(p.SeenAt.UTC()), p.Away, hostsOutput(p.Hosts)})
	}
	return list
}

// statusAll shows the agents from the arguments, or else all agents whose configurations are in the
// same folder as ours.
func statusAll(c *call) error {
	all, err := c.agentsToShow()
	if err != nil {
		return err
	}
	mayRead, err := c.mayReadOthers()
	if err != nil {
		return err
	}
	var h agentTable
	for _, a := range all {
		s, err := a.View().Status()
		if err != nil {
			return fmt.Errorf("@%s: %w", a.Handle, err)
		}
		if !mayRead {
			s = s.WithoutWords()
		}
		h.agents = append(h.agents, s)
	}
	var failed error
	if h.others, h.hosts, err = otherPresences(c.ctx, all); err != nil {
		failed = terminal.WithHint(&sourceError{failed: []string{plain.Line(err.Error())}},
			"the status of agents elsewhere is unknown; `"+name+" doctor` checks the mesh")
	}
	if c.json {
		err = c.out.JSON(statusAllOutput{Agents: h.agents, Fleets: h.fleets(), Others: presencesOf(h.others), Error: outputOf(failed)})
	} else {
		err = h.print(&c.out, c.now())
	}
	return errors.Join(err, failed)
}

// agentsToShow loads the agents that status --all shows.
func (c *call) agentsToShow() ([]*cycle.Agent, error) {
	if len(c.args) > 0 {
		return c.loadNamed()
	}
	a, err := c.load()
	if err != nil {
		return nil, err
	}
	return c.neighbours(a)
}

// otherPresences returns the agents on our meshes except ours, and the hosts of ours. The first of
// our agents that reaches a mesh asks it, once.
func otherPresences(ctx context.Context, ours []*cycle.Agent) ([]mesh.Presence, map[string][]mesh.HostSeen, error) {
	found := map[string]mesh.Presence{}
	queried := map[string]bool{}
	var failed []error
	for _, a := range ours {
		if a.Mesh == nil || queried[a.Mesh.Carrier.Address()] {
			continue
		}
		online, err := a.Others(ctx)
		if err != nil {
			// Agents of the same mesh report the same error if it is down.
			if !slices.ContainsFunc(failed, func(other error) bool { return other.Error() == err.Error() }) {
				failed = append(failed, err)
			}
			continue
		}
		queried[a.Mesh.Carrier.Address()] = true
		for _, other := range online {
			found[other.Handle] = other
		}
	}
	if len(queried) == 0 {
		return nil, nil, errors.Join(failed...)
	}
	hosts := map[string][]mesh.HostSeen{}
	for _, a := range ours {
		hosts[a.Handle] = found[a.Handle].Hosts
		delete(found, a.Handle)
	}
	list := []mesh.Presence{}
	for _, other := range found {
		list = append(list, other)
	}
	order.Sort(list, func(a, b mesh.Presence) int { return strings.Compare(a.Handle, b.Handle) })
	return list, hosts, nil
}

// print prints a line for each agent.
func (h agentTable) print(out *terminal.Output, now time.Time) error {
	var rows [][]string
	for _, s := range h.agents {
		since := ""
		if s.PhaseSince != nil {
			since = "since " + terminal.Clock(*s.PhaseSince, now)
		}
		rows = append(rows, []string{"@" + s.Agent, string(s.Phase), since, strings.Join(present.Brief(s, now), ", ")})
		if s.Fleet == nil {
			continue
		}
		holder := ""
		if s.Fleet.Holder != nil {
			holder = *s.Fleet.Holder
		}
		for _, seen := range h.hosts[s.Agent] {
			rows = append(rows, present.HostRow(seen, holder, now))
		}
	}
	for _, other := range h.others {
		phase, seen := plain.Line(string(other.Phase)), "seen "
		if other.Away {
			phase, seen = "AWAY", "last seen " // its last reported phase is old
		}
		rows = append(rows, []string{plain.Line("@" + other.Handle), phase, seen + terminal.Clock(other.SeenAt, now), present.Whereabouts(other, now)})
	}
	return out.Grid([]terminal.Column{{Least: 12}, {Least: 8}, {}, {}}, rows)
}
