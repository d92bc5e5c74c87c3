package natsmesh

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"agentstateloop/fleet"
	"agentstateloop/internal/order"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

const (
	// onlineFor is how long an agent is online after it was last seen.
	onlineFor = 35 * time.Minute

	maxRows = 30_000 // of the registry: agents and their hosts
)

// row is an agent's description of itself in the registry.
type row struct {
	Callsign string `json:"callsign,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Asleep   bool   `json:"asleep,omitempty"`
	Tier     string `json:"tier,omitempty"`
	Host     string `json:"host,omitempty"`
}

// Register publishes our presence. It does not publish p.Wake: rings need no address.
func (c *Client) Register(ctx context.Context, p mesh.Presence) error {
	const op = "register"
	r := row{Callsign: p.Callsign, Phase: string(p.Phase), Asleep: p.Asleep, Tier: string(p.Tier), Host: c.Host}
	body, err := json.Marshal(r)
	if err != nil {
		return &mesh.Error{Op: op, Err: err}
	}
	return failure(op, c.Conn().Register(ctx, body, c.now()))
}

// Online returns the agents that looked for work within the last 35 minutes, sorted by handle,
// with all their hosts.
func (c *Client) Online(ctx context.Context) ([]mesh.Presence, error) {
	seen, err := c.Seen(ctx)
	return slices.DeleteFunc(seen, func(p mesh.Presence) bool { return p.Away }), err
}

// Seen returns the agents that looked for work within a week, sorted by handle, with the hosts
// where they did. It ignores a row without a signature by the key of its handle, and a row that
// was stored long after it was signed. It believes a row whose key we do not have, because a
// row has no effect.
func (c *Client) Seen(ctx context.Context) ([]mesh.Presence, error) {
	const op = "list agents"
	rows, err := c.Conn().Rows(ctx, maxRows)
	if err != nil {
		return nil, failure(op, err)
	}
	keys, err := c.keyring(ctx)
	if err != nil {
		return nil, failure(op, err)
	}
	return keys.agents(rows, c.now()), nil
}

// Hosts returns the name of this host, and the other hosts where an agent with our handle looked for
// work within a week. There is one only if two machines work as this agent, or if it has moved.
func (c *Client) Hosts(ctx context.Context) (here string, others []mesh.HostSeen, err error) {
	const op = "list hosts"
	rows, err := c.Conn().Hosts(ctx)
	if err != nil {
		return "", nil, failure(op, err)
	}
	keys, err := c.keyring(ctx)
	if err != nil {
		return "", nil, failure(op, err)
	}
	for _, p := range keys.agents(rows, c.now()) {
		for _, h := range p.Hosts {
			if p.Handle == c.Handle && h.Host != c.Host {
				others = append(others, h)
			}
		}
	}
	return c.Host, others, nil
}

// Looked records that this host looks for work, and does not wait.
func (c *Client) Looked(ctx context.Context) error {
	return failure("register host", c.Conn().Looked(ctx, cmp.Or(c.Host, "host"), c.now()))
}

// agents returns the agents in the rows of a registry, sorted by handle.
func (k keyring) agents(rows []fleet.Row, now time.Time) (seen []mesh.Presence) {
	for _, r := range rows {
		if r.Stored.After(now) {
			now = r.Stored // our clock is behind the server's
		}
	}
	agents := map[string]*mesh.Presence{}
	for _, r := range rows {
		if !k.believes(r) {
			continue
		}
		p := agents[r.Handle]
		if p == nil {
			p = &mesh.Presence{Handle: r.Handle, Callsign: "@" + r.Handle}
			agents[r.Handle] = p
		}
		if r.Stored.After(p.SeenAt) {
			p.SeenAt = r.Stored
		}
		if r.Host == "" {
			describe(p, r.Body)
		} else {
			p.Hosts = append(p.Hosts, mesh.HostSeen{Host: r.Host, SeenAt: r.Stored, Away: now.Sub(r.Stored) >= onlineFor, Version: r.Version()})
		}
	}
	for _, p := range agents {
		p.Away = now.Sub(p.SeenAt) >= onlineFor
		order.Sort(p.Hosts, func(a, b mesh.HostSeen) int { return strings.Compare(a.Host, b.Host) })
		seen = append(seen, *p)
	}
	order.Sort(seen, func(a, b mesh.Presence) int { return strings.Compare(a.Handle, b.Handle) })
	return seen
}

// believes reports whether a row of the registry counts.
func (k keyring) believes(r fleet.Row) bool {
	if !state.ValidHandle(r.Handle) || r.Host != "" && r.Host != fleet.HostToken(r.Host) {
		return false
	}
	key := k.of(r.Handle)
	return key == "" || r.Stored.Sub(r.At) <= onlineFor && r.SignedBy(key)
}

// describe reads an agent's description of itself. It ignores values that a registry would
// refuse.
func describe(p *mesh.Presence, body []byte) {
	var r row
	if json.Unmarshal(body, &r) != nil {
		return
	}
	if len(r.Callsign) <= mesh.MaxCallsign && !strings.ContainsFunc(r.Callsign, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		p.Callsign = cmp.Or(r.Callsign, p.Callsign)
	}
	p.Phase, _ = state.ParsePhase(r.Phase) // "" if it is invalid
	p.Tier, _ = state.ParseTier(r.Tier)
	p.Asleep = r.Asleep
	if r.Host != "" && r.Host == fleet.HostToken(r.Host) {
		p.Host = r.Host
	}
}

// Status returns the health of the mesh and of our mailbox.
func (c *Client) Status(ctx context.Context) (mesh.Status, error) {
	const op = "read status"
	var s mesh.Status
	var err error
	if s.Date, err = c.Conn().Look(ctx, cmp.Or(c.Host, "host"), c.now()); err != nil {
		return mesh.Status{}, failure(op, err)
	}
	counted, err := c.Conn().Count(ctx)
	if err != nil {
		return mesh.Status{}, failure(op, err)
	}
	keys, err := c.keyring(ctx)
	if err != nil {
		return mesh.Status{}, failure(op, err)
	}
	s.Halted, _ = keys.halted(counted.Halt)
	online, err := c.Online(ctx)
	if err != nil {
		return mesh.Status{}, err
	}
	s.Waiting, s.Online = counted.Waiting, len(online)
	return s, nil
}
