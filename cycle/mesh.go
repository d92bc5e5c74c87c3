package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// Carrier carries the messages of one agent on a mesh. It is a *mesh.Client over HTTP,
// on one machine, or a *natsmesh.Client over NATS, between machines. Its methods may be
// called concurrently. Their errors are those of mesh.Client: an *mesh.Error, or a
// *state.CredentialError named "mesh".
type Carrier interface {
	// Address returns the address of the mesh, for people.
	Address() string

	// Take returns our pending messages, for a poll that commits them and then acknowledges
	// them. Messages without an acknowledgement come again, on NATS after a minute.
	Take(ctx context.Context) (mesh.Mailbox, error)

	// Mailbox returns our pending messages, for people. A poll still finds all of them. While
	// the mailbox is empty, Mailbox waits, for a minute at most.
	Mailbox(ctx context.Context, wait time.Duration) (mesh.Mailbox, error)

	// Watch returns as soon as a poll might find something, and after wait at the latest. Its
	// result shows the senders and the HALT; a nudge in it may represent any message.
	Watch(ctx context.Context, wait time.Duration) (mesh.Mailbox, error)

	// Ack acknowledges a committed message. It is not an error if the message is gone already.
	Ack(ctx context.Context, id string) error

	// Send sends a message, and returns its id. It may be repeated with the same id.
	Send(ctx context.Context, m mesh.Message) (id string, err error)
	Nudge(ctx context.Context, handle, from, reason string) error

	Register(ctx context.Context, p mesh.Presence) error

	// Online returns the agents that looked for work lately. Seen also returns the agents that
	// did not, until the mesh forgets them: over NATS after a week, over HTTP at once.
	Online(ctx context.Context) ([]mesh.Presence, error)
	Seen(ctx context.Context) ([]mesh.Presence, error)
	Status(ctx context.Context) (mesh.Status, error)

	// Hosts returns the name of this machine, and the other machines where an agent with our
	// handle looked for work. A mesh over HTTP is on one machine, so there it returns nothing.
	Hosts(ctx context.Context) (here string, others []mesh.HostSeen, err error)

	// Announce announces the outcome of a turn to those who watch the mesh, once for each t. On
	// a mesh over HTTP it does nothing: such a mesh is on one machine, where `events` shows the
	// same. So the caller need not know which carrier it has.
	Announce(ctx context.Context, t mesh.Task) error

	Halt(ctx context.Context) error
	Go(ctx context.Context) error

	// PutBlob uploads the bytes of a file for an agent, before the message with the file is
	// sent. GetBlob downloads the bytes of a file from an agent.
	PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error
	GetBlob(ctx context.Context, from string, f mesh.File, take func(io.Reader) error) error

	// Close ends the connection after sending everything. The next call opens another one.
	Close()
}

// Close waits for pending announcements and ends the agent's connections. The agent can be used
// again.
func (a *Agent) Close() {
	if a.Mesh != nil {
		a.Mesh.announcing.Wait()
		a.Mesh.Carrier.Close()
	}
}

// announcer announces the outcomes of turns on the mesh, for those who watch agents on many
// machines (docs/events.md, "Through the mesh"). A failed announcement changes nothing, because
// the history is authoritative. Only the end of the process waits for announcements.
type announcer struct {
	core
	mesh *Mesh // nil: no mesh is configured
}

// announcePatience is the timeout of one announcement. A leader election among servers lasts a
// few seconds.
const announcePatience = 5 * time.Second

// announce announces the turns that end in lines, the history lines of one commit. head is the
// turn head before that commit.
func (a announcer) announce(head state.Head, lines []state.Line) {
	if a.mesh == nil {
		return
	}
	for _, l := range lines {
		if l.Kind != state.LineTask {
			continue
		}
		t := mesh.Task{
			Event: "task." + string(l.Outcome), ID: fmt.Sprintf("%d.%d", l.Serial, l.N), Agent: a.handle, At: l.At.UTC(),
			TurnID: l.TurnID, Epoch: l.Epoch, Status: l.Outcome,
		}
		if head.TurnID == l.TurnID {
			t.Began = head.Since.UTC()
		}
		a.mesh.announcing.Go(a.secrets.Guarded(func() { a.publish(t) }))
	}
}

func (a announcer) publish(t mesh.Task) {
	ctx, cancel := context.WithTimeout(context.Background(), announcePatience)
	defer cancel()
	if err := a.mesh.Carrier.Announce(ctx, t); err != nil {
		a.logf("the outcome of turn %s was not announced: %v", t.TurnID, err)
	}
}

// takenAMinute limits how many messages of one sender are taken within a minute if the mesh has
// no rate limit itself. The others wait there (docs/protocol.md, "The mesh over NATS").
const takenAMinute = 5

// senderPace counts the messages that are taken from each sender within a minute.
type senderPace struct {
	state state.State // at the start of the observation
	now   time.Time
	taken map[string]int // by sender, filled on first use
}

// admits reports whether a message that passed the gate may be taken now, and counts it. A
// repeated message is always taken, so that it is acknowledged. So is a nudge.
func (p *senderPace) admits(m mesh.Message) bool {
	if _, known := p.state.Seen[m.Key()]; known || m.Kind == mesh.KindNudge {
		return true
	}
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	n, counted := p.taken[m.From]
	if !counted {
		n = p.recentFrom(m)
	}
	if n >= takenAMinute {
		return false
	}
	p.taken[m.From] = n + 1
	return true
}

// recentFrom counts the messages taken from this sender within the last minute.
func (p *senderPace) recentFrom(m mesh.Message) (n int) {
	prefix := m.SenderKey()
	for key, at := range p.state.Seen {
		if age := p.now.Sub(time.Unix(at, 0)); strings.HasPrefix(key, prefix) && age >= 0 && age < time.Minute {
			n++
		}
	}
	return n
}

// republishEvery is how often an unchanged presence is published again, in case the mesh has
// lost it. It can be rare: reading the mailbox shows that we are there, and an empty cycle
// makes no call for this (docs/design.md, "Promises" 9).
const republishEvery = 6 * time.Hour

// publish writes our presence to the mesh's registry if it has changed: the phase, whether we
// sleep, and the budget tier. Then it looks there for other machines that work as this agent. It leaves the wake address there to the listener. It makes no
// call if the mesh did not answer in this cycle. A mesh that rejects the request lacks a
// registry, and counts as informed.
func (p *projector) publish(ctx context.Context, s state.State, obs *observation) []state.Event {
	if p.mesh == nil || obs == nil || obs.isMissing(state.Mesh) {
		return nil
	}
	tier := s.Tier(*p.policy, p.now())
	now := state.Registered{Phase: s.Phase, Asleep: s.Asleep, Tier: tier, Host: s.Elsewhere.Host}
	published := s.Published.Phase == now.Phase && s.Published.Asleep == now.Asleep && cmp.Or(s.Published.Tier, state.TierNormal) == tier
	if published && p.now().Sub(s.Published.At) < republishEvery {
		return nil
	}
	err := p.mesh.Carrier.Register(ctx, mesh.Presence{Phase: now.Phase, Asleep: now.Asleep, Tier: tier, Callsign: "@" + p.handle})
	if rejected, ok := errors.AsType[*mesh.Error](err); err != nil && (!ok || rejected.Temporary()) {
		return nil
	}
	if err != nil {
		return []state.Event{now} // the mesh has none
	}
	here, others, err := p.mesh.Carrier.Hosts(ctx)
	if err != nil {
		p.logf("the other machines of this agent could not be listed: %v", err)
		return []state.Event{now}
	}
	now.Host = here
	events := []state.Event{now}
	for _, h := range others {
		events = append(events, state.ElsewhereSeen{Host: h.Host, At: h.SeenAt})
	}
	return events
}

// Others returns the agents that the mesh has seen, including this one.
func (a *Agent) Others(ctx context.Context) ([]mesh.Presence, error) {
	if a.Mesh == nil {
		return nil, errors.New("no mesh is configured: set url in [mesh]")
	}
	return a.Mesh.Carrier.Seen(ctx)
}
