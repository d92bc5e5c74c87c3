package doctor

import (
	"context"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
)

// fleetCheck examines an agent on several hosts: who acts, the lease, the state in the servers, and
// the other hosts. meshCheck examines what the servers allow.
type fleetCheck struct {
	agent   *cycle.Agent
	mode    string // of [schedule]
	version string // of this program
	network bool
	now     func() time.Time
}

func (c fleetCheck) run(ctx context.Context) []Finding {
	const name = "fleet"
	s := c.agent.Seat
	if s == nil {
		return nil
	}
	v, err := s.View()
	if err != nil {
		return []Finding{failure(name, "the lease is measured with the clock of this boot: nothing runs here without it", err)}
	}
	found := append([]Finding{c.seat(v)}, c.settings()...)
	if v.Joined {
		found = append(found, size(v))
	}
	if !c.network {
		return append(found, skip(name, "the state in the servers and the other hosts need the network", "run doctor without --no-network"))
	}
	read := c.read(ctx, v)
	found = append(found, read)
	if read.Level == Error {
		return found
	}
	return append(found, c.hosts(ctx)...)
}

// seat says who acts.
func (c fleetCheck) seat(v seat.View) Finding {
	const name = "fleet"
	s := c.agent.Seat
	switch {
	case v.Trouble == seat.NotJoined:
		return bad(Error, name, "run `agentstateloop fleet join`, as `agentstateloop init` does", "[fleet] is set, but this host, %s, has not joined", s.Host)
	case v.Trouble != "":
		return bad(Error, name, "", "%s", v.Text)
	case v.CutOff && !v.Known:
		return bad(Warn, name, "run `agentstateloop poll`", "this host, %s, holds the seat (term %d), but no poll has reached the servers since it was copied or has started again: nothing begins", s.Host, v.Term)
	case v.CutOff:
		return bad(Error, name, "see mesh; nothing begins here until they answer, and another host may act",
			"CUT OFF: this host, %s, has not reached the servers since %s (term %d)", s.Host, terminal.Clock(c.now().Add(-v.Ago), c.now()), v.Term)
	case v.Here:
		return good(name, "this host, %s, acts (term %d); its lease of %s ends in %s", s.Host, v.Term, terminal.Short(v.Lease), terminal.Short(v.Left.Round(time.Second)))
	case v.Holder == "":
		return bad(Warn, name, "the next poll of a host takes it, or `agentstateloop fleet take`", "no host acts: the seat was released (term %d)", v.Term)
	case v.Known && v.Ago > seat.Silence(v.Lease):
		return bad(Warn, name, "the next poll here takes the seat; if not, run `agentstateloop fleet take`", "%s acts (term %d), but has been silent for %s; this host, %s, is a standby", v.Holder, v.Term, terminal.Short(v.Ago), s.Host)
	case v.Known:
		return good(name, "%s acts (term %d), with a lease of %s, and gave a sign %s ago; this host, %s, is a standby", v.Holder, v.Term, terminal.Short(v.Lease), terminal.Short(v.Ago.Round(time.Second)), s.Host)
	}
	return good(name, "%s acts (term %d); this host, %s, is a standby, and has not looked since it started", v.Holder, v.Term, s.Host)
}

// size says how large the state in the servers is.
func size(v seat.View) Finding {
	const name = "fleet"
	text := plain.Size(int64(v.Size))
	if v.Size > seat.WarnHead {
		return bad(Warn, name, "each change of the state is sent to the servers, which accept 1 MiB; `agentstateloop inbox list` and `agentstateloop outbox list` show the messages in it",
			"the state in the servers has %s", text)
	}
	return good(name, "the state in the servers has %s, and its history %s", text, terminal.Count(int(v.Blocks), "block"))
}

// settings returns the findings about [fleet].
func (c fleetCheck) settings() (found []Finding) {
	const name = "fleet"
	s := c.agent.Seat
	if c.mode != cycle.ModeNone && s.Lease < seat.DefaultLease {
		found = append(found, bad(Warn, name, "set lease in [fleet] to "+seat.DefaultLease.String()+" or more, or keep `agentstateloop listen` running",
			"lease = %s, but polls come each minute: one that is late or missed can end the lease", terminal.Short(s.Lease)))
	}
	if !s.Auto {
		found = append(found, bad(Info, name, "", "auto = false in [fleet]: if the host that acts falls silent, only `agentstateloop fleet take` moves the seat here"))
	}
	return found
}

// read reads the state in the servers.
func (c fleetCheck) read(ctx context.Context, v seat.View) Finding {
	const name = "fleet"
	began := time.Now()
	h, err := c.agent.Seat.Engine.LoadHead(ctx)
	took := time.Since(began)
	switch {
	case err != nil:
		return failure(name, "see the other lines about the mesh; without the servers no host acts", err)
	case h.Revision == 0 && !v.Joined:
		return good(name, "the servers have no state of @%s yet", c.agent.Handle)
	case h.Body == nil:
		return bad(Error, name, "run `agentstateloop fleet join --replace` on the host that acted last", "the servers have no state of @%s", c.agent.Handle)
	case !h.Signed:
		return bad(Error, name, "find out who may write to the servers, then run `agentstateloop fleet join --replace` on the host that acted last", "the state in the servers is not signed by the key of @%s", c.agent.Handle)
	case took > slowTrip:
		return bad(Warn, name, "each change of the state waits for a round trip at least; use servers nearby", "a read of the state in the servers takes %s, with the connection", formatRoundTrip(took))
	}
	return good(name, "a read of the state in the servers takes %s, with the connection", formatRoundTrip(took))
}

// hosts returns the findings about the other hosts.
func (c fleetCheck) hosts(ctx context.Context) (found []Finding) {
	const name = "fleet"
	client, ok := c.agent.Mesh.Carrier.(*natsmesh.Client)
	if !ok {
		return nil
	}
	_, others, err := client.Hosts(ctx)
	if err != nil {
		return []Finding{failure(name, "see mesh", err)}
	}
	if len(others) == 0 {
		return []Finding{bad(Info, name, "copy agent.toml and its secrets to another host, and run `agentstateloop init` there", "no other host of @%s was seen within a week", c.agent.Handle)}
	}
	return c.others(others)
}

// others returns a finding for each other host.
func (c fleetCheck) others(hosts []mesh.HostSeen) (found []Finding) {
	const name = "fleet"
	for _, h := range hosts {
		host, seen := plain.Line(h.Host), terminal.Clock(h.SeenAt, c.now())
		switch version := plain.Line(h.Version); {
		case h.Away:
			found = append(found, bad(Warn, name, "if it is gone for good, nothing is to be done: its row goes after a week", "%s was last seen %s: it would not act if this host failed", host, seen))
		case version != "" && version != c.version:
			found = append(found, bad(Warn, name, "install the same version on both: an older one may not read what a newer one wrote", "%s runs version %s, and this host %s; seen %s", host, version, c.version, seen))
		case version == "":
			found = append(found, good(name, "%s was seen %s; its version is unknown", host, seen))
		default:
			found = append(found, good(name, "%s was seen %s, with version %s", host, seen, version))
		}
	}
	return found
}

// fleetRights returns the findings about the rights and streams that only an agent on several hosts
// needs.
func fleetRights(seen fleet.Examination) (found []Finding) {
	const name = "fleet"
	if len(seen.FleetMissing) > 0 {
		found = append(found, bad(Error, name, planHint, "the key lacks the rights for several hosts: it may not %s", strings.Join(seen.FleetMissing, "; ")))
	}
	var missing []string
	for _, a := range seen.FleetAssets {
		if a.State != fleet.AssetThere && a.State != fleet.AssetUnseen {
			missing = append(missing, a.Stream+" ("+a.Holds+")")
		}
	}
	if len(missing) > 0 {
		found = append(found, bad(Error, name, createHint, "no answer from %s", strings.Join(missing, ", ")))
	}
	return found
}
