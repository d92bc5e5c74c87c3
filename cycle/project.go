package cycle

import (
	"context"
	"errors"

	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// projector makes the outside world match the state.
type projector struct {
	core
	mail    *Mail // nil: no mail is configured
	mesh    *Mesh // nil: no mesh is configured
	journal *journal
	crontab *crontab
}

// project removes the nudge files that were taken, acknowledges mesh messages, installs the
// wanted crontab line, and shows the phase in the mesh's registry. These are not effects: each
// is derived from the state, and the next cycle repairs it if this one is cut short. project
// commits the changes.
func (p *projector) project(ctx context.Context, s state.State, obs *observation) (state.State, error) {
	var events []state.Event
	if obs != nil {
		p.dropNudges(s, obs.rung)
	}
	events = append(events, p.ackMesh(ctx, s)...)
	events = append(events, p.crontab.project(ctx, s)...)
	events = append(events, p.publish(ctx, s, obs)...)
	if len(events) == 0 {
		return s, nil
	}
	return p.journal.commit(ctx, events...)
}

// reschedule installs the crontab lines that the state asks for after a cycle has done all due
// work, and commits the change.
func (p *projector) reschedule(ctx context.Context, s state.State) (state.State, error) {
	events := p.crontab.reschedule(ctx, s)
	if len(events) == 0 {
		return s, nil
	}
	return p.journal.commit(ctx, events...)
}

// dropNudges removes the files of committed nudges. The state recognizes a file that cannot be
// removed by its key.
func (p *projector) dropNudges(s state.State, rung []store.NudgeFile) {
	for _, n := range rung {
		if s.TookNudge(n.Key) {
			_ = p.store.Unring(n)
		}
	}
}

// ackMesh removes committed messages from the mesh's mailbox. It stops at the first failure and
// after startWithin; the next cycle goes on. An acknowledgement that the mesh refuses for good
// does not hold up the others: if the message is still there, it comes again and is recognized.
func (p *projector) ackMesh(ctx context.Context, s state.State) []state.Event {
	if p.mesh == nil || len(s.ToAck) == 0 {
		return nil
	}
	var acked state.MeshAcked
	began := p.now()
	for _, id := range s.ToAck {
		if !mayStart(began, p.now()) {
			break
		}
		if err := p.mesh.Carrier.Ack(ctx, id); err != nil && !refused(err) {
			break
		}
		acked.IDs = append(acked.IDs, id)
	}
	if len(acked.IDs) == 0 {
		return nil
	}
	return []state.Event{acked}
}

// refused reports whether the mesh refused a call for good, for a reason other than the
// credential.
func refused(err error) bool {
	if _, denied := state.CredentialFailure(err); denied {
		return false
	}
	answer, ok := errors.AsType[*mesh.Error](err)
	return ok && !answer.Temporary()
}
