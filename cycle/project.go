package cycle

import (
	"context"
	"errors"
	"os"
	"time"

	"agentstateloop/cron"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// verifyEvery is how often the installed crontab line is looked at when the
// state asks for the very line that was last verified (DESIGN 3).
const verifyEvery = 30 * time.Minute

// project makes the world look as the state says: nudge files that were taken
// are removed, mail of ours is marked \Seen, mesh messages are acknowledged,
// the crontab line is the one asked for, and the mesh's registry shows the
// phase. None of these is an effect: each is derived from the state, compared,
// and repaired by the next cycle if this one is cut short. What changed is
// committed.
func (a *Agent) project(ctx context.Context, s state.State, obs *observation) (state.State, error) {
	var events []state.Event
	if obs != nil {
		a.dropNudges(s, obs.rung)
		events = append(events, a.markSeen(ctx, s, obs)...)
	}
	events = append(events, a.ackMesh(ctx, s)...)
	events = append(events, a.projectLine(ctx, s)...)
	events = append(events, a.publish(ctx, s, obs)...)
	if len(events) == 0 {
		return s, nil
	}
	return a.commit(ctx, events...)
}

// dropNudges removes the nudge files whose nudges are committed. One that
// cannot be removed is known by its key and wakes nobody twice.
func (a *Agent) dropNudges(s state.State, rung []store.NudgeFile) {
	for _, n := range rung {
		if s.TookNudge(n.Key) {
			_ = a.Store.Unring(n)
		}
	}
}

// markSeen sets \Seen on what was committed. UIDs of a mailbox that is
// another, or was renumbered, since mean nothing any more and are let go.
func (a *Agent) markSeen(ctx context.Context, s state.State, obs *observation) []state.Event {
	owed := s.ToFlag
	if len(owed.UIDs) == 0 || obs.inbox == nil {
		return nil
	}
	if owed.Mailbox == a.Mail.Mailbox.ID() && owed.Validity == obs.inbox.UIDValidity() {
		if err := obs.inbox.MarkSeen(ctx, owed.UIDs); err != nil {
			obs.failed = append(obs.failed, SourceFailure{Source: state.Mail, Reason: err.Error()})
			return nil
		}
	}
	return []state.Event{state.Flagged(owed)}
}

// ackMesh takes what was committed out of the mesh's mailbox. The first failure
// ends it, and a mesh that is slow: the next cycle goes on.
func (a *Agent) ackMesh(ctx context.Context, s state.State) []state.Event {
	if a.Mesh == nil || len(s.ToAck) == 0 {
		return nil
	}
	var acked state.MeshAcked
	began := a.Now()
	for _, id := range s.ToAck {
		if a.Now().Sub(began) >= startWithin {
			break
		}
		if err := a.Mesh.Client.Ack(ctx, id); err != nil {
			break
		}
		acked.IDs = append(acked.IDs, id)
	}
	if len(acked.IDs) == 0 {
		return nil
	}
	return []state.Event{acked}
}

// projectLine installs the crontab line that the state asks for, unless that is
// the line last verified and it was looked at lately: a steady poll starts no
// crontab process.
func (a *Agent) projectLine(ctx context.Context, s state.State) []state.Event {
	if a.Schedule.Mode != ModeCrontab || s.Schedule.Removed {
		return nil
	}
	job := a.Job(s)
	line, err := job.Line()
	if err != nil {
		return a.unscheduled(s, s.Schedule.Installed, err)
	}
	fresh := a.Now().Sub(s.Schedule.Verified) < verifyEvery
	if line == s.Schedule.Installed && s.Schedule.Error == "" && fresh {
		return nil
	}
	if _, err := a.Schedule.Table.Install(ctx, job); err != nil {
		return a.unscheduled(s, a.installed(ctx), err)
	}
	// An `uninstall` that came since may have taken out the line before we wrote
	// it.
	if now, err := a.Store.Read(); err == nil && now.Schedule.Removed {
		if _, err := a.Schedule.Table.Remove(ctx, a.Handle); err != nil {
			return a.unscheduled(s, line, err)
		}
		return nil
	}
	return []state.Event{state.Scheduled{Line: line, Binary: job.Binary}}
}

// unscheduled reports a line that could not be installed.
func (a *Agent) unscheduled(s state.State, installed string, err error) []state.Event {
	e := state.Scheduled{Line: installed, Binary: s.Schedule.Binary, Reason: err.Error()}
	return []state.Event{e}
}

// Job is the line the state asks for. The binary is the one that the line was
// first installed with, as long as it is there, so that trying out another
// build does not move the agent to it.
func (a *Agent) Job(s state.State) cron.Job {
	binary := a.Schedule.Binary
	if pinned := s.Schedule.Binary; pinned != "" {
		if _, err := os.Stat(pinned); err == nil {
			binary = pinned
		}
	}
	job := cron.Job{Agent: a.Handle, Binary: binary, Config: a.Config, Interval: s.Interval(a.Policy)}
	if a.Schedule.Linger > 0 && s.Phase.Engaged() && !s.Halted() {
		job.Args = []string{"--linger", a.Schedule.Linger.String()}
	}
	return job
}

// installed is the line that is in the table now, as far as it can be read.
func (a *Agent) installed(ctx context.Context) string {
	table, err := a.Schedule.Table.Read(ctx)
	if err != nil {
		return ""
	}
	lines := cron.Find(table, a.Handle)
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// Install takes the crontab line into our care, also after an `uninstall`, and
// installs the one that the state asks for. What was in its way is then in the
// state's Schedule.Error. A cycle that is under way does it in our stead.
func (a *Agent) Install(ctx context.Context) (state.State, error) {
	s, err := a.commit(ctx, state.Unscheduled{Removed: false})
	if err != nil {
		return s, err
	}
	_, err = a.withLock(store.CycleLock, func() error {
		if s, err = a.Store.Read(); err != nil {
			return err
		}
		s.Schedule.Verified = time.Time{} // somebody asks: look
		if events := a.projectLine(ctx, s); len(events) > 0 {
			s, err = a.commit(ctx, events...)
		}
		return err
	})
	return s, err
}

// Uninstall removes our crontab line and remembers that it is to stay away:
// cycles leave the table alone until `init` or `transition`.
func (a *Agent) Uninstall(ctx context.Context) (cron.Change, error) {
	if a.Schedule.Mode != ModeCrontab {
		return cron.Change{}, errors.New("schedule.mode is not \"crontab\": the line, if there is one, is yours to remove")
	}
	if _, err := a.commit(ctx, state.Unscheduled{Removed: true}); err != nil {
		return cron.Change{}, err
	}
	return a.Schedule.Table.Remove(ctx, a.Handle)
}
