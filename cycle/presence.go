package cycle

import (
	"cmp"
	"context"
	"errors"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// republishEvery is how often an unchanged presence is published again, in case the mesh has
// lost it. It can be rare: reading the mailbox shows that we are there, and an empty cycle
// makes no call for this (docs/design.md, "Promises" 9).
const republishEvery = 6 * time.Hour

// publish writes our presence to the mesh's registry if it has changed: the phase, whether we
// sleep, and the budget tier. It leaves the wake address there to the listener. It makes no
// call if the mesh did not answer in this cycle. A mesh that rejects the request lacks a
// registry, and counts as informed.
func (p *projector) publish(ctx context.Context, s state.State, obs *observation) []state.Event {
	if p.mesh == nil || obs == nil || obs.lacks(state.Mesh) {
		return nil
	}
	tier := s.Tier(*p.policy, p.now())
	now := state.Registered{Phase: s.Phase, Asleep: s.Asleep, Tier: tier}
	published := s.Published.Phase == now.Phase && s.Published.Asleep == now.Asleep && cmp.Or(s.Published.Tier, state.TierNormal) == tier
	if published && p.now().Sub(s.Published.At) < republishEvery {
		return nil
	}
	err := p.mesh.Carrier.Register(ctx, mesh.Presence{Phase: now.Phase, Asleep: now.Asleep, Tier: tier, Callsign: "@" + p.handle})
	if rejected, ok := errors.AsType[*mesh.Error](err); err != nil && (!ok || rejected.Temporary()) {
		return nil
	}
	return []state.Event{now}
}

// Others returns the agents that the mesh has seen, including this one.
func (a *Agent) Others(ctx context.Context) ([]mesh.Presence, error) {
	if a.Mesh == nil {
		return nil, errors.New("no mesh is configured: set url in [mesh]")
	}
	return a.Mesh.Carrier.Seen(ctx)
}
