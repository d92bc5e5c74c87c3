package cycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// startWithin is how long observing and performing may begin new work. The rest waits for the
// next cycle, so a stalled server costs one cycle.
const startWithin = 20 * time.Second

// mayStart reports whether work that started at began may still begin a new step.
func mayStart(began, now time.Time) bool { return now.Sub(began) < startWithin }

// maxAtOnce is how many messages one poll takes, and maxWaiting how many may wait. Above it the
// cursor stays and the mail remains on the server (docs/design.md, "The inbox").
const (
	maxAtOnce  = 200
	maxWaiting = 1000
)

// maxFromPeers is how many messages of other agents may wait. They must not keep out the
// operator's mail, HALT included.
const maxFromPeers = maxWaiting / 2

// SourceFailure is a source that could not be read in this cycle.
type SourceFailure struct {
	Source state.Source `json:"source"`
	Reason string       `json:"reason"`
}

// observer reads the sources.
type observer struct {
	core
	mail     *Mail // nil: no mail is configured
	mesh     *Mesh // nil: no mesh is configured
	session  *mailSession
	accepter accepter
	idKeys   idKeys
	dry      bool // a dry run downloads no files
}

// dryRun returns an observer that downloads no files.
func (o *observer) dryRun() *observer {
	dry := *o
	dry.dry = true
	return &dry
}

// observation holds the events and failures of one reading of every source.
type observation struct {
	events  []state.Event
	failed  []SourceFailure
	nudges  []store.NudgeFile
	mailbox *mail.Session // still open, so that \Seen needs no second login; or nil
}

// close ends the mail session.
func (obs *observation) close() {
	if obs.mailbox != nil {
		obs.mailbox.Close()
		obs.mailbox = nil
	}
}

// observe reads every source, mail and mesh at the same time, and keeps the payloads for this
// agent in files. They count only after the commit. observe never fails: a failed source is an
// event. In a further round of the same poll (again) it skips a source whose credential was
// denied.
func (o *observer) observe(ctx context.Context, files payloads, s state.State, again bool) *observation {
	room, forPeers := takeLimits(s)
	ad := o.accepter.admission(files, s)
	var byMail, byMesh observation
	var wg sync.WaitGroup
	switch {
	case o.mail == nil:
	case again && s.Denied(state.CredentialIMAP):
		byMail.skip(state.Mail, s.Credentials[state.CredentialIMAP])
	default:
		wg.Go(o.secrets.Guarded(func() { o.observeMail(ctx, ad, room, &byMail) }))
	}
	switch {
	case o.mesh == nil:
	case again && s.Denied(state.CredentialMesh):
		byMesh.skip(state.Mesh, s.Credentials[state.CredentialMesh])
	default:
		wg.Go(o.secrets.Guarded(func() { o.observeMesh(ctx, ad, forPeers, &byMesh) }))
	}
	obs := o.observeNudges(ad)
	wg.Wait()
	obs.events = append(obs.events, byMail.events...)
	obs.events = append(obs.events, limitArrivals(room-countArrivals(byMail.events), byMesh.events)...)
	obs.events = append(obs.events, ad.quarantine.Events()...)
	obs.events = append(obs.events, state.Polled{Again: again})
	obs.failed = append(append(obs.failed, byMail.failed...), byMesh.failed...)
	obs.mailbox = byMail.mailbox
	return obs
}

// takeLimits returns how many messages a poll takes, and how many of them may come from other
// agents.
func takeLimits(s state.State) (room, forPeers int) {
	room = min(maxAtOnce, maxWaiting-len(s.Inbox))
	return room, min(room, maxFromPeers-ofPeers(s))
}

// RoomOf returns how many messages a poll takes that finds this state.
func RoomOf(s state.State) int {
	room, _ := takeLimits(s)
	return room
}

// admission returns the admission of one observation, which begins with s.
func (ac accepter) admission(files payloads, s state.State) *admission {
	folder := quarantine.Folder{Store: ac.store}
	return &admission{
		accepter: ac, files: files, state: s, now: ac.now, folder: folder,
		quarantine: quarantine.NewIntake(folder, files, s, ac.now, ac.isKnown), answered: map[string]bool{},
	}
}

// done ends an observation.
func (o *observer) done(obs *observation) { o.session.done(obs) }

// ofPeers counts the messages of other agents that wait.
func ofPeers(s state.State) (n int) {
	for _, m := range s.Inbox {
		if m.Source == state.Mesh {
			n++
		}
	}
	return n
}

// countArrivals counts the messages among events.
func countArrivals(events []state.Event) (n int) {
	for _, e := range events {
		if _, ok := e.(state.Arrived); ok {
			n++
		}
	}
	return n
}

// limitArrivals returns events without the arrivals beyond room. Uncommitted messages stay on the
// mesh.
func limitArrivals(room int, events []state.Event) []state.Event {
	return slices.DeleteFunc(events, func(e state.Event) bool {
		if _, ok := e.(state.Arrived); !ok {
			return false
		}
		room--
		return room < 0
	})
}

// observeNudges takes the nudges, and the messages of programs for which the inbox has room. The others
// stay in nudges/.
func (o *observer) observeNudges(ad *admission) *observation {
	var obs observation
	list, err := o.store.Nudges(ad.state)
	if err != nil {
		obs.fail(state.Nudge, err)
		return &obs
	}
	obs.nudges = list.Taken
	rejected := 0
	for _, n := range list.New {
		if !o.store.ReadNudge(&n) {
			continue
		}
		if !n.IsMessage {
			obs.nudges = append(obs.nudges, n)
			obs.events = append(obs.events, n.Nudged)
			continue
		}
		events, err := ad.takeMessageFile(n)
		if err != nil {
			obs.fail(state.EventSource, err)
			continue
		}
		if len(events) == 0 {
			rejected++
			continue
		}
		obs.nudges = append(obs.nudges, n)
		obs.events = append(obs.events, events...)
	}
	if rejected > 0 {
		o.logf("%d files of programs are no messages, and the quarantine has no room for them: they are in %s", rejected, store.RejectedDir)
		obs.events = append(obs.events, state.RejectedMore{Gate: formGate, Source: state.EventSource, Count: rejected})
	}
	var keys []string
	for _, n := range obs.nudges {
		keys = append(keys, n.Key)
	}
	obs.events = append(obs.events, state.NudgeFiles{Keys: keys})
	return &obs
}

// skip leaves a source to the next cycle.
func (obs *observation) skip(source state.Source, c state.Credential) {
	obs.failed = append(obs.failed, SourceFailure{Source: source, Reason: c.Reason})
	obs.events = append(obs.events, state.SourceFailed{Source: source})
}

// fail records a source that could not be read. A denied credential is also an event, under the
// credential's name (docs/design.md, "Credentials").
func (obs *observation) fail(source state.Source, err error) {
	obs.failed = append(obs.failed, SourceFailure{Source: source, Reason: err.Error()})
	if denied, ok := state.CredentialFailure(err); ok {
		obs.events = append(obs.events, state.CredentialFailed{Name: denied.Name, Reason: denied.Err.Error()})
	}
}

// isMissing reports whether a source could not be read.
func (obs *observation) isMissing(source state.Source) bool {
	return slices.ContainsFunc(obs.failed, func(f SourceFailure) bool { return f.Source == source })
}
