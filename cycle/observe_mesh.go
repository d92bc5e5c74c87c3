package cycle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// observeMesh reads our mailbox on the mesh.
func (o *observer) observeMesh(ctx context.Context, ad *admission, room int, obs *observation) {
	read := o.mesh.Carrier.Take
	if o.dry {
		read = func(ctx context.Context) (mesh.Mailbox, error) { return o.mesh.Carrier.Mailbox(ctx, 0) }
	}
	box, err := read(ctx)
	if err != nil {
		obs.fail(state.Mesh, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mesh})
		return
	}
	obs.events = append(obs.events,
		state.CredentialWorked{Name: state.CredentialMesh, Reading: true},
		state.SourceRead{Source: state.Mesh},
	)
	if !box.HaltUnproven {
		obs.events = append(obs.events, state.Switched{Mesh: true, On: box.Halted})
	}
	list := files.Downloader{Carrier: o.mesh.Carrier, Store: o.store, Now: o.now, Until: o.now().Add(startWithin)}
	pace := senderPace{state: ad.state, now: o.now()}
	var rejected []mesh.Message // with files; accepted messages download theirs first
	for _, m := range box.Messages {
		if room <= 0 && causesTurn(m) {
			continue // it stays on the mesh; reports and nudges do not
		}
		if gate, _ := ad.mesh.gate(m); o.mesh.Paces && gate == "" && !pace.admits(m) {
			continue // it comes again
		}
		if ad.holdsFiles(m) && !o.dry {
			rejected = append(rejected, m)
			continue
		}
		if ad.needsFiles(m) && !o.dry {
			if m, err = list.Fetch(ctx, m); err != nil {
				obs.fail(state.Mesh, err)
			}
			if errors.Is(err, files.ErrLater) {
				continue
			}
			if err != nil {
				return
			}
		}
		event, err := ad.takeMesh(m)
		if err != nil {
			obs.fail(state.Mesh, err)
			return
		}
		if _, takesRoom := event.(state.Arrived); takesRoom {
			room--
		}
		obs.events = append(obs.events, event)
	}
	for _, m := range rejected {
		event, err := ad.rejectWithFiles(ctx, list, m)
		if err != nil {
			obs.fail(state.Mesh, err)
			return
		}
		if event != nil {
			obs.events = append(obs.events, event)
		}
	}
	for _, u := range box.Undecoded {
		event, err := ad.rejectUndecoded(u)
		if err != nil {
			obs.fail(state.Mesh, err)
			return
		}
		obs.events = append(obs.events, event)
	}
}

// needsFiles reports whether a new message passes the gate and has files that its payload
// names.
func (ad *admission) needsFiles(m mesh.Message) bool {
	if len(m.Files) == 0 || m.From == ad.handle {
		return false
	}
	if _, known := ad.state.Seen[m.Key()]; known {
		return false
	}
	gate, _ := ad.mesh.gate(m)
	return gate == "" && (causesTurn(m) || m.Kind == mesh.KindReport)
}

// rejectUndecoded keeps an undecodable message in quarantine, as the mesh showed it, and
// returns its event.
func (ad *admission) rejectUndecoded(u mesh.Undecoded) (state.Event, error) {
	e := state.Rejected{
		Key: u.Key(), Source: state.Mesh, From: plain.Brief(u.From), Gate: "form", Reason: u.Reason, At: ad.now().UTC(), MeshID: u.ID,
	}
	var err error
	e.Unkept, err = ad.quarantine.Keep(quarantine.Verdict{
		Key: e.Key, Source: e.Source, From: e.From, Gate: e.Gate, Reason: e.Reason, At: e.At,
	}, "", int64(len(u.Raw)), bytes.NewReader(u.Raw))
	return e, err
}

// takeMesh keeps an item of the mesh's mailbox and returns its event. An item
// that fails the gate is kept in quarantine.
func (ad *admission) takeMesh(m mesh.Message) (state.Event, error) {
	gate, reason := ad.mesh.gate(m)
	switch {
	case m.Kind == mesh.KindNudge && gate == "":
		return state.Nudged{Key: m.Key(), From: m.From, Reason: plain.Brief(m.Text), At: m.SentAt, MeshID: ackID(m)}, nil
	case m.Kind == mesh.KindNudge: // a nudge has no payload to keep
		return ad.rejectMesh(m, gate, reason, true), nil
	case ad.isForwarded(m):
		return ad.takeForwarded(m)
	case m.From == ad.handle && m.Malformed() == "":
		return notedEvent(m, "an echo of our own"), nil
	}
	if gate != "" {
		e := ad.rejectMesh(m, gate, reason, false)
		return ad.quarantineMesh(e, verdictOnMesh(e), m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return ad.meshArrived(ad.files, ad.state, m, raw)
}

// quarantineMesh keeps a message that a gate rejects, and returns its event.
func (ad *admission) quarantineMesh(e state.Rejected, v quarantine.Verdict, m mesh.Message) (state.Event, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	e.Unkept, err = ad.quarantine.Keep(v, "", int64(len(raw))+v.Files, bytes.NewReader(raw))
	return e, err
}

// verdictOnMesh returns the verdict on a message that a gate rejects.
func verdictOnMesh(e state.Rejected) quarantine.Verdict {
	return quarantine.Verdict{Key: e.Key, Source: e.Source, From: e.From, Gate: e.Gate, Reason: e.Reason, At: e.At}
}

// firstYear is the earliest year that a message may give as its sending time.
const firstYear = 1970

// rejectMesh returns the event of an item that the gate rejects. It shortens the sender's name,
// which may have any size.
func (ad *admission) rejectMesh(m mesh.Message, gate, reason string, unkept bool) state.Rejected {
	at := m.SentAt
	if now := ad.now().UTC(); at.Year() < firstYear || at.After(now) {
		at = now
	}
	return state.Rejected{
		Key: m.Key(), Source: state.Mesh, From: plain.Brief(m.From), Gate: gate, Reason: reason, At: at, MeshID: ackID(m), Unkept: unkept,
	}
}

// ackID returns the id for acknowledging a message, or "". A message that cannot be
// acknowledged comes again, and is recognized by its key.
func ackID(m mesh.Message) string {
	if !m.CanAck() {
		return ""
	}
	return cmp.Or(m.AckID, m.ID)
}

// meshArrived returns the event of an accepted message, and keeps its payload if a turn or a
// relay needs it.
func (ac accepter) meshArrived(list payloads, s state.State, m mesh.Message, raw []byte) (state.Event, error) {
	switch {
	case m.Kind == mesh.KindRelay:
		// The whole request is kept, because its mail may be truncated or never be made.
		_, _, err := keepMesh(list, s, m, raw)
		return state.RelayAsked{Key: m.Key(), From: m.From, Text: m.Text, MeshID: ackID(m)}, err
	case m.Kind == mesh.KindReport: // it causes no turn of its own
		payload, sum, err := keepMesh(list, s, m, raw)
		return state.Reported{Key: m.Key(), From: m.From, Payload: payload, Sum: sum, MeshID: ackID(m), ToolCallID: m.Correlation, At: m.SentAt, Status: m.Status, Trace: m.Trace, Proven: m.Proven}, err
	case m.Kind == mesh.KindAsk && slices.Contains(m.Hops, ac.handle):
		return ac.busy(m), nil
	case isScript(m):
		return scriptArrived(list, s, m)
	case !causesTurn(m):
		return notedEvent(m, "a "+m.Kind+" causes no turn"), nil
	}
	payload, sum, err := keepMesh(list, s, m, raw)
	if err != nil {
		return nil, err
	}
	return state.Arrived{
		Message: state.Message{
			Key: m.Key(), Source: state.Mesh, Kind: m.Kind, From: m.From, Proof: proofOf(m), At: m.SentAt, Payload: payload, Sum: sum, Size: len(raw),
			Correlation: correlation(m), AsksFields: len(m.ResultFields) > 0, Trace: m.Trace,
		},
		MeshID: ackID(m),
	}, nil
}

// isScript reports whether the sender of a message is not an agent: the sender is unproven, and
// its name is a label instead of a handle.
func isScript(m mesh.Message) bool { return !m.Proven && !state.ValidHandle(m.From) }

// scriptGate is gate for a message from a sender that is not an agent. Such a message counts as
// a program's, like one from `tell --from` or from a file in nudges/.
func (m *Mesh) scriptGate(msg mesh.Message) (gate, reason string) {
	switch {
	case !m.Open:
		return "proof", "the sender is not an agent and not proven, and trust.mesh is \"token\": " + state.HandleRule
	case msg.Kind != mesh.KindNudge && msg.Kind != mesh.KindMessage, len(msg.Files) > 0, len(msg.ResultFields) > 0:
		return "form", "the sender is not an agent, and may send only nudges, and messages without files: " + state.HandleRule
	case msg.Malformed() != "":
		return "form", msg.Malformed()
	case msg.Kind == mesh.KindMessage && store.EventFault([]byte(msg.Text)) != "":
		return "form", store.EventFault([]byte(msg.Text))
	}
	return "", ""
}

// scriptArrived returns the event of a message whose sender is not an agent. The message stays
// on the mesh while the limit of waiting messages from programs is reached.
func scriptArrived(list payloads, s state.State, m mesh.Message) (state.Event, error) {
	var arrived state.Arrived
	if _, known := s.Seen[m.Key()]; known {
		arrived.Message = state.Message{Key: m.Key(), Source: state.EventSource, From: eventName(m.From)}
	} else {
		var err error
		if arrived, err = eventArrived(list, m.Key(), EventMessage{From: m.From, Text: m.Text}); err != nil {
			return nil, err
		}
	}
	arrived.Message.At, arrived.Message.Trace = m.SentAt, m.Trace
	arrived.MeshID, arrived.IfRoom = ackID(m), true
	return arrived, nil
}

// proofOf returns the proof of a message's sender.
func proofOf(m mesh.Message) state.Proof {
	if m.Proven {
		return state.ByToken
	}
	return state.ByNone
}

// causesTurn reports whether a message is of a kind that causes a turn
// (docs/protocol.md, "The mesh").
func causesTurn(m mesh.Message) bool { return m.Kind == mesh.KindMessage || m.Kind == mesh.KindAsk }

// keepMesh keeps a message of the mesh, unless it came before. It returns the file
// and its sum.
func keepMesh(list payloads, s state.State, m mesh.Message, raw []byte) (payload, sum string, err error) {
	payload = store.PayloadName(store.MessagesDir, m.Key(), ".json")
	if _, known := s.Seen[m.Key()]; known {
		return payload, store.Sum(raw), nil
	}
	sum, err = list.KeepSummed(payload, bytes.NewReader(raw))
	return payload, sum, err
}

// busy returns the event that answers "busy" to a question which passed us before. The asking
// agent waits for us, so waiting for it would never end (docs/design.md, "Suspension").
func (ac accepter) busy(m mesh.Message) state.Event {
	e := notedEvent(m, "it has already passed through this agent, answered busy")
	e.Answer = &state.Effect{
		Kind: state.Answer, Channel: state.ByMesh, To: m.From, Text: "busy",
		Correlation: correlation(m), Hops: replyHops(m.Hops, ac.handle), Trace: m.Trace, Outcome: state.Failed, AfterExecution: mesh.Continue,
	}
	return e
}

// correlation returns the id that an answer to m repeats: its correlation id, or
// else its own id.
func correlation(m mesh.Message) string { return cmp.Or(m.Correlation, m.ID) }

func notedEvent(m mesh.Message, why string) state.Noted {
	return state.Noted{Key: m.Key(), Kind: m.Kind, From: m.From, Reason: why, Source: state.Mesh, MeshID: ackID(m), Trace: m.Trace}
}

// lists reports whether a handle is that of a listed peer.
func (m *Mesh) lists(handle string) bool { return slices.Contains(m.Peers, handle) }

// gate returns the gate that a message or nudge fails and the reason, or "" if it passes. The
// sender must be a listed peer, or our own handle for a nudge. A token must prove the sender
// unless trust.mesh is "open". Hops end loops, and the texts of a message have limits
// (docs/protocol.md, "The mesh").
func (m *Mesh) gate(msg mesh.Message) (gate, reason string) {
	ours := msg.Kind == mesh.KindNudge && msg.From == m.Handle
	if isScript(msg) {
		return m.scriptGate(msg)
	}
	switch {
	case !m.lists(msg.From) && !ours:
		return "peer", "the sender is not listed in mesh.peers"
	case !msg.Proven && msg.Kind == mesh.KindRelay:
		return "proof", "the sender is not proven, and a mail in its name requires a proof"
	case !msg.Proven && !m.Open:
		return "proof", "the sender is not proven, and trust.mesh is \"token\""
	case len(msg.Hops) > mesh.MaxHops:
		return "hops", "it passed through more than four agents: " + plain.Brief(strings.Join(msg.Hops[:mesh.MaxHops+1], ", "))
	case msg.Malformed() != "":
		return "form", msg.Malformed()
	}
	return "", ""
}
