package cycle

import (
	"context"
	"errors"
	"os"
	"path"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// projector makes the outside world match the state.
type projector struct {
	committer
	mail    *Mail // nil: no mail is configured
	mesh    *Mesh // nil: no mesh is configured
	crontab *crontab
}

// project removes the nudge files that were taken, acknowledges mesh messages, installs the
// wanted crontab line, and shows the phase in the mesh's registry. These are not effects: each
// is derived from the state, and the next cycle repairs it if this one is cut short. project
// commits the changes.
func (p *projector) project(ctx context.Context, s state.State, obs *observation) (state.State, error) {
	var events []state.Event
	if obs != nil {
		p.dropNudges(s, obs.nudges)
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
		if err := p.mesh.Carrier.Ack(ctx, id); err != nil && !isRefusal(err) {
			break
		}
		acked.IDs = append(acked.IDs, id)
	}
	if len(acked.IDs) == 0 {
		return nil
	}
	return []state.Event{acked}
}

// isRefusal reports whether the mesh refused a call for good, for a reason other than the
// credential.
func isRefusal(err error) bool {
	if _, denied := state.CredentialFailure(err); denied {
		return false
	}
	answer, ok := errors.AsType[*mesh.Error](err)
	return ok && !answer.Temporary()
}

// pruneEvery is how often the folders are searched: a search costs more, the more they hold.
// pruneAtOnce is how many entries one cycle removes (docs/design.md, "Costs").
const (
	pruneEvery  = 24 * time.Hour
	pruneAtOnce = 100
)

// pruner removes old files.
type pruner struct {
	committer
	keep time.Duration // 0: keep everything
}

// due reports whether a search of the folders is due.
func (p *pruner) due(s state.State) bool { return p.keep > 0 && p.now().Sub(s.Pruned) >= pruneEvery }

// prune removes turns, messages, quarantine, sent mails and leftover rendered effects that are
// older than keep, unless the state still needs them. It makes the attempts of other turns
// writable that a crash left read-only.
func (p *pruner) prune(ctx context.Context, s state.State) (state.State, error) {
	now := p.now()
	if !p.due(s) {
		return s, nil
	}
	if more, err := p.removeOld(s); err != nil || more {
		return s, err // the next cycle goes on
	}
	held, err := quarantine.Folder{Store: p.store}.Count()
	if err != nil {
		return s, err
	}
	return p.journal.commit(ctx, state.Pruned{Before: now.Add(-p.keep)}, state.QuarantineHolds{Items: held})
}

// removeOld does the removals of prune, at most pruneAtOnce of them.
func (p *pruner) removeOld(s state.State) (more bool, err error) {
	needed := map[string]bool{}
	for _, name := range named(s, p.filesOf) {
		needed[name] = true
	}
	for _, id := range s.TurnsInUse() {
		needed[turnFolder(id)] = true
	}
	left := pruneAtOnce
	for _, folder := range []string{store.TurnsDir, store.MessagesDir, store.OutboxDir, store.SentDir, store.QuarantineDir} {
		spared := func(name string) bool { return needed[path.Join(folder, name)] }
		n, err := p.store.Prune(folder, p.now().Add(-p.keep), spared, left)
		if err != nil {
			return false, err
		}
		if left -= n; left == 0 {
			return true, nil
		}
	}
	p.makeWritable(s.Turn.TurnID)
	return false, nil
}

// filesOf returns the files that a payload of the mesh names.
func (p *pruner) filesOf(payload, sum string) (names []string) {
	for _, f := range (files.Incoming{Store: p.store}).FilesIn(payload, sum) {
		names = append(names, f.Name)
	}
	return names
}

// makeWritable makes the attempts of all turns except the active one writable. The watchdog does
// that for a turn whose runner died, but a turn is unknown to it if the state was lost.
func (p *pruner) makeWritable(active string) {
	turns, err := os.ReadDir(p.store.Path(store.TurnsDir))
	if err != nil || p.store.CheckFolders(path.Join(store.TurnsDir, active)) != nil { // turns/ may be a link
		return
	}
	for _, t := range turns {
		if !t.IsDir() || t.Name() == active {
			continue
		}
		dir := p.store.Path(path.Join(store.TurnsDir, t.Name()))
		attempts, _ := os.ReadDir(dir)
		for _, a := range attempts {
			if a.IsDir() {
				turn.MakeWritable(path.Join(dir, a.Name()))
			}
		}
	}
}
