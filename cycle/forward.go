package cycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// A standby forwards to the host that acts: nudges, the operator's words at its terminal, and the
// files in its nudges/ (docs/protocol.md, "A standby"). They go into the agent's own
// mailbox on the mesh, signed with the agent's own key, so they keep their rights.

// forwarded is the content of a forwarded item.
type forwarded struct {
	as         string // what it is: one of the forms below
	key        string // under which the host that acts takes it, once
	from, text string
}

// The forms of forwarded items.
const (
	asNudge = "nudge" // text is the reason
	asTell  = "tell"  // the operator's message from the terminal
	asMail  = "mail"  // the same, with the answer by mail
	asEvent = "event" // the message of a program
)

// The members of the fields of the mesh message.
const (
	forwardAs   = "as"
	forwardKey  = "key"
	forwardFrom = "from"
)

// forwarder sends what a standby forwards.
type forwarder struct {
	core
	mesh *Mesh
}

func (a *Agent) forwarder() *forwarder { return &forwarder{core: a.core(), mesh: a.Mesh} }

// ForwardNudge nudges the agent from a standby. The nudge is in the servers when it returns.
func (a *Agent) ForwardNudge(ctx context.Context, from, reason string) error {
	return a.forwarder().send(ctx, forwarded{as: asNudge, key: "nudge:" + store.NewID(), from: from, text: reason})
}

// ForwardTell is Tell on a standby, from the user with that name. With mail, the answer is mailed
// to the operator. The message is in the servers when ForwardTell returns.
func (a *Agent) ForwardTell(ctx context.Context, user, text string, mail bool) (key string, err error) {
	if fault := store.EventFault([]byte(text)); fault != "" {
		return "", fmt.Errorf("%w: %s", ErrEventText, fault)
	}
	f := forwarded{as: asTell, key: "cli:" + store.NewID(), from: user + "@" + a.Seat.Host, text: text}
	if mail {
		f.as, f.key = asMail, "event:"+store.NewID()
	}
	return f.key, a.forwarder().send(ctx, f)
}

// lookEvery is how often AwaitForwarded looks for a new state.
const lookEvery = time.Second

// AwaitForwarded is Await on a standby. It keeps the directory a copy of the newest state.
func (a *Agent) AwaitForwarded(ctx context.Context, key string, watch ...func(view.Waiting) error) (Deliverable, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	look := *a.Seat
	look.Auto = false // a poll takes the seat
	go a.Secrets.Guarded(func() {
		for a.core().rest(ctx, lookEvery) {
			_ = look.Look(ctx) // without an answer of the servers, the next look follows
		}
	})()
	return a.Await(ctx, key, watch...)
}

// send puts an item into the agent's own mailbox, and rings the host that acts. The same key may be
// sent again.
func (f *forwarder) send(ctx context.Context, item forwarded) error {
	fields := mesh.Fields{}
	for _, member := range [][2]string{{forwardAs, item.as}, {forwardKey, item.key}, {forwardFrom, item.from}} {
		value, err := json.Marshal(member[1])
		if err != nil {
			return err
		}
		fields = append(fields, mesh.Field{Name: member[0], Value: value})
	}
	if f.mesh == nil {
		return ErrNoMesh
	}
	_, err := f.mesh.Carrier.Send(ctx, mesh.Message{
		ID: "forward." + store.Sum([]byte(f.seat.Host+" "+item.key)), To: f.handle, Kind: mesh.KindForward, Text: item.text, Fields: fields,
	})
	return err
}

// forwardFiles forwards the files in nudges/ of a standby, and removes each when the servers have
// it. Messages wait here while the inbox has no room for them. A file that cannot be forwarded
// stays: it counts when this host acts.
func (f *forwarder) forwardFiles(ctx context.Context) error {
	s, err := f.store.Read()
	if err != nil {
		return err
	}
	list, err := f.store.Nudges(s)
	if err != nil {
		return err
	}
	taken := list.Taken
	for began := f.now(); len(list.New) > 0 && err == nil && mayStart(began, f.now()); list.New = list.New[1:] {
		var done bool
		if done, err = f.forwardFile(ctx, s, list.New[0]); done {
			taken = append(taken, list.New[0])
		}
	}
	for _, n := range taken {
		err = cmp.Or(err, f.store.Unring(n))
	}
	return err
}

// forwardFile forwards a file. done is false if it must stay.
func (f *forwarder) forwardFile(ctx context.Context, s state.State, n store.NudgeFile) (done bool, err error) {
	if knownKey(s, n.Key) {
		return true, nil
	}
	if !f.store.ReadNudge(&n) || n.Fault != "" {
		return false, nil
	}
	err = f.send(ctx, forwardedFile(n))
	if err != nil && isRefusal(err) {
		f.logf("%s/%s stays here: %v", store.NudgesDir, n.Name, err)
		return false, nil
	}
	return err == nil, err
}

// knownKey reports whether a message with this key was accepted.
func knownKey(s state.State, key string) bool {
	_, known := s.Seen[key]
	return known
}

// forwardedFile returns the item of a file in nudges/.
func forwardedFile(n store.NudgeFile) forwarded {
	if n.IsMessage {
		return forwarded{as: asEvent, key: n.Key, from: strings.TrimSuffix(n.Name, store.MessageSuffix), text: string(n.Text)}
	}
	return forwarded{as: asNudge, key: n.Key, from: n.From, text: n.Reason}
}

// errNotForwarded means that a message from the own handle is not a forwarded item.
var errNotForwarded = errors.New("it is not a forwarded item")

// forwardedIn returns the item in a message.
func forwardedIn(m mesh.Message) (item forwarded, err error) {
	members := map[string]*string{forwardAs: &item.as, forwardKey: &item.key, forwardFrom: &item.from}
	for _, field := range m.Fields {
		if member := members[field.Name]; member != nil && json.Unmarshal(field.Value, member) != nil {
			return item, errNotForwarded
		}
	}
	item.text = m.Text
	prefix := map[string]string{asNudge: "nudge:", asTell: "cli:", asMail: "event:", asEvent: "nudge:"}[item.as]
	if prefix == "" || !strings.HasPrefix(item.key, prefix) || item.as != asNudge && store.EventFault([]byte(item.text)) != "" {
		return item, errNotForwarded
	}
	return item, nil
}

// isForwarded reports whether a message can be a forwarded item: the agent has several hosts, and
// its own key proves that one of them sent the message.
func (ad *admission) isForwarded(m mesh.Message) bool {
	return ad.seat != nil && m.Kind == mesh.KindForward && m.From == ad.handle && m.Proven && m.Malformed() == ""
}

// takeForwarded returns the event of a forwarded item, as if it had come on this host.
func (ad *admission) takeForwarded(m mesh.Message) (state.Event, error) {
	item, err := forwardedIn(m)
	if err != nil {
		return notedEvent(m, err.Error()), nil
	}
	if item.as == asNudge {
		return state.Nudged{Key: m.Key(), From: plain.Brief(item.from), Reason: plain.Brief(item.text), At: m.SentAt, MeshID: ackID(m)}, nil
	}
	arrived := state.Arrived{Message: state.Message{Key: item.key, Source: state.EventSource, From: eventName(item.from)}}
	known := knownKey(ad.state, item.key)
	switch {
	case item.as == asTell && known:
		arrived.Message.Source = state.CLI
	case item.as == asTell:
		arrived, err = toldArrived(ad.files, item.key, eventName(item.from), item.text)
	case !known:
		arrived, err = eventArrived(ad.files, item.key, EventMessage{From: item.from, Text: item.text, Operator: item.as == asMail})
	}
	if err != nil {
		return nil, err
	}
	if item.as == asMail && ad.byThread {
		arrived.Message.ThreadID = message.NewThread(item.key)
	}
	arrived.Message.At, arrived.MeshID, arrived.IfRoom = m.SentAt, ackID(m), item.as == asEvent
	return arrived, nil
}
