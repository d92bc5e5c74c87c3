package cycle

import (
	"context"
	"errors"
	"time"
)

// Ring nudges this agent: it puts a file into nudges/, which is durable when Ring
// returns. The next poll sees it; a poll under way looks for it before it ends.
func (a *Agent) Ring(from, reason string) error { return a.Store.Ring(from, reason) }

// RecordedNudge identifies a recorded nudge, for AwaitNudge.
type RecordedNudge struct {
	mark string
	at   time.Time
}

// RingAtOnce is Ring for a caller that polls meanwhile, and for AwaitNudge. The nudge is
// durable when settle has returned nil. The caller must call settle once.
func (a *Agent) RingAtOnce(from, reason string) (rung RecordedNudge, settle func() error, err error) {
	mark, settle, err := a.Store.RingAtOnce(from, reason)
	return RecordedNudge{mark, a.Now().UTC()}, settle, err
}

// ErrNoMesh means that another agent cannot be reached, because no mesh is configured.
var ErrNoMesh = errors.New("no mesh is configured: set url in [mesh] to reach other agents")

// RingOther nudges another agent through the mesh. It returns ErrNoMesh if no
// mesh is configured.
func (a *Agent) RingOther(ctx context.Context, handle, from, reason string) error {
	if a.Mesh == nil {
		return ErrNoMesh
	}
	if from == "" {
		from = a.Handle
	}
	return a.Mesh.Carrier.Nudge(ctx, handle, from, reason)
}
