package cycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// startWithin: observing and performing each start nothing after this long; the
// rest waits for the next cycle, so that a server that stalls costs one.
const startWithin = 20 * time.Second

// mostAtOnce is how many messages one poll takes, and mostWaiting how many may
// wait; above it the cursor waits and the mail stays on the server (DESIGN 6).
const (
	mostAtOnce  = 200
	mostWaiting = 1000
)

// mostOfPeers is how many messages of other agents may wait, so that none of
// them can keep the operator's mail out, his HALT included.
const mostOfPeers = mostWaiting / 2

// SourceFailure is a source that could not be read in this cycle.
type SourceFailure struct {
	Source state.Source `json:"source"`
	Reason string       `json:"reason"`
}

// observation is what one look at every source has shown.
type observation struct {
	events []state.Event
	failed []SourceFailure
	rung   []store.NudgeFile
	inbox  *mail.Session // still open, so that \Seen needs no second login; nil if there is none
}

// close ends the mail session.
func (o *observation) close() {
	if o.inbox != nil {
		o.inbox.Close()
		o.inbox = nil
	}
}

// observe looks at every source, side by side, and stores the payloads of what
// is for this agent below store: nothing of it counts before the commit. It
// never fails: a source that does is an event of its own. In a further round
// of the same poll (again) a source whose credential was refused is skipped.
func (a *Agent) observe(ctx context.Context, store payloads, s state.State, again bool) *observation {
	room := min(mostAtOnce, mostWaiting-len(s.Inbox))
	q := &quarantine{agent: a, store: store, state: s}
	forPeers := min(room, mostOfPeers-ofPeers(s))
	var byMail, byMesh observation
	var wg sync.WaitGroup
	switch {
	case a.Mail == nil:
	case again && s.Denied(state.CredentialIMAP):
		byMail.skip(state.Mail, s.Credentials[state.CredentialIMAP])
	default:
		wg.Go(a.Secrets.Guarded(func() { a.observeMail(ctx, q, room, &byMail) }))
	}
	switch {
	case a.Mesh == nil:
	case again && s.Denied(state.CredentialMesh):
		byMesh.skip(state.Mesh, s.Credentials[state.CredentialMesh])
	default:
		wg.Go(a.Secrets.Guarded(func() { a.observeMesh(ctx, q, forPeers, &byMesh) }))
	}
	obs := a.observeNudges()
	wg.Wait()
	obs.events = append(obs.events, byMail.events...)
	obs.events = append(obs.events, upTo(room-arrivals(byMail.events), byMesh.events)...)
	obs.events = append(obs.events, q.told()...)
	obs.events = append(obs.events, state.Polled{Again: again})
	obs.failed = append(append(obs.failed, byMail.failed...), byMesh.failed...)
	obs.inbox = byMail.inbox
	return obs
}

// ofPeers counts the messages of other agents that wait.
func ofPeers(s state.State) (n int) {
	for _, m := range s.Inbox {
		if m.Source == state.Mesh {
			n++
		}
	}
	return n
}

// arrivals counts the messages among events.
func arrivals(events []state.Event) (n int) {
	for _, e := range events {
		if _, ok := e.(state.Arrived); ok {
			n++
		}
	}
	return n
}

// upTo leaves out the arrivals above room: what was seen on the mesh and is not
// committed stays there.
func upTo(room int, events []state.Event) []state.Event {
	return slices.DeleteFunc(events, func(e state.Event) bool {
		if _, ok := e.(state.Arrived); !ok {
			return false
		}
		room--
		return room < 0
	})
}

// observeNudges lists nudges/.
func (a *Agent) observeNudges() *observation {
	var obs observation
	rung, err := a.Store.Rung()
	if err != nil {
		obs.fail(state.Nudge, err)
		return &obs
	}
	obs.rung = rung
	var keys []string
	for _, n := range rung {
		keys = append(keys, n.Key)
		obs.events = append(obs.events, n.Nudged)
	}
	obs.events = append(obs.events, state.NudgeFiles{Keys: keys})
	return &obs
}

// skip leaves a source to the next cycle.
func (o *observation) skip(source state.Source, c state.Credential) {
	o.failed = append(o.failed, SourceFailure{Source: source, Reason: c.Reason})
	o.events = append(o.events, state.SourceFailed{Source: source})
}

// fail notes a source that could not be read: an event, and for a credential
// that was refused one more, under its own name (DESIGN 10).
func (o *observation) fail(source state.Source, err error) {
	o.failed = append(o.failed, SourceFailure{Source: source, Reason: err.Error()})
	if refused, ok := state.CredentialFailure(err); ok {
		o.events = append(o.events, state.CredentialFailed{Name: refused.Name, Reason: refused.Err.Error()})
	}
}
