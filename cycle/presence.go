package cycle

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// republishEvery is how often the registry is told a phase that it was told
// before, for a mesh that has lost it. It need not be often: to read the mailbox
// is to be seen, and an empty cycle makes no call for this (DESIGN 13).
const republishEvery = 6 * time.Hour

// publish tells the mesh's registry our phase, whether we sleep, and what we can
// afford, when that is not what it was last told. The wake address in there is
// left as it is: a listener keeps it. A mesh that did not answer in this cycle is
// not asked twice; one that refuses knows no registry, and is left alone as if
// it had been told.
func (a *Agent) publish(ctx context.Context, s state.State, obs *observation) []state.Event {
	if a.Mesh == nil || obs == nil || obs.lacks(state.Mesh) {
		return nil
	}
	tier := s.Tier(a.Policy, a.Now())
	now := state.Registered{Phase: s.Phase, Asleep: s.Asleep, Tier: tier}
	told := s.Published.Phase == now.Phase && s.Published.Asleep == now.Asleep && cmp.Or(s.Published.Tier, state.TierNormal) == tier
	if told && a.Now().Sub(s.Published.At) < republishEvery {
		return nil
	}
	err := a.Mesh.Client.Register(ctx, mesh.Presence{Phase: now.Phase, Asleep: now.Asleep, Tier: tier, Callsign: "@" + a.Handle})
	if refused, ok := errors.AsType[*mesh.Error](err); err != nil && (!ok || refused.Temporary()) {
		return nil
	}
	return []state.Event{now}
}

// lacks says whether a source could not be read.
func (o *observation) lacks(source state.Source) bool {
	return slices.ContainsFunc(o.failed, func(f SourceFailure) bool { return f.Source == source })
}

// Others lists the agents that the mesh has seen lately, ours among them.
func (a *Agent) Others(ctx context.Context) ([]mesh.Presence, error) {
	if a.Mesh == nil {
		return nil, errors.New("no mesh is configured: set [mesh] url")
	}
	return a.Mesh.Client.Online(ctx)
}
