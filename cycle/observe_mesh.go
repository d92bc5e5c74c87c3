package cycle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// observeMesh reads our mailbox on the mesh.
func (a *Agent) observeMesh(ctx context.Context, q *quarantine, room int, obs *observation) {
	box, err := a.Mesh.Client.Mailbox(ctx, 0)
	if err != nil {
		obs.fail(state.Mesh, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mesh})
		return
	}
	obs.events = append(obs.events,
		state.CredentialWorked{Name: state.CredentialMesh, Reading: true},
		state.SourceRead{Source: state.Mesh},
		state.Switched{Mesh: true, On: box.Halted},
	)
	for _, m := range box.Messages {
		if room <= 0 && causesTurn(m) {
			continue // it stays on the mesh; what others wait for does not
		}
		event, err := a.meshEvent(q, m)
		if err != nil {
			obs.fail(state.Mesh, err)
			return
		}
		if _, takesRoom := event.(state.Arrived); takesRoom {
			room--
		}
		obs.events = append(obs.events, event)
	}
}

// meshEvent judges one item of the mailbox and keeps its payload.
func (a *Agent) meshEvent(q *quarantine, m mesh.Message) (state.Event, error) {
	if m.Kind == mesh.KindNudge {
		return state.Nudged{Key: m.Key(), From: m.From, Reason: m.Text, At: m.SentAt, MeshID: m.ID}, nil
	}
	if m.From == a.Handle {
		return a.noted(m, "an echo of our own"), nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if gate, reason := a.Mesh.gate(m); gate != "" {
		r := Refusal{Key: m.Key(), Source: state.Mesh, From: m.From, Gate: gate, Reason: reason, At: m.SentAt}
		unkept, err := q.keep(r, "", int64(len(raw)), bytes.NewReader(raw))
		return state.Rejected{
			Key: r.Key, Source: r.Source, From: r.From, Gate: gate, Reason: reason, At: r.At, MeshID: m.ID, Unkept: unkept,
		}, err
	}
	return a.meshArrived(q.store, q.state, m, raw)
}

// meshArrived tells the machine of a message that comes in, and keeps its
// payload if anybody will want it.
func (a *Agent) meshArrived(store payloads, s state.State, m mesh.Message, raw []byte) (state.Event, error) {
	switch {
	case m.Kind == mesh.KindRelay:
		return a.relayAsked(store, s, m, raw)
	case m.Kind == mesh.KindReport:
		return a.reported(store, s, m, raw)
	case m.Kind == mesh.KindAsk && slices.Contains(m.Hops, a.Handle):
		return a.busy(m), nil
	case !causesTurn(m):
		return a.noted(m, "a "+m.Kind+" causes no turn"), nil
	}
	payload, err := keepMesh(store, s, m, raw)
	if err != nil {
		return nil, err
	}
	return state.Arrived{
		Message: state.Message{
			Key: m.Key(), Source: state.Mesh, Kind: m.Kind, From: m.From, At: m.SentAt, Payload: payload,
			Correlation: correlation(m),
		},
		MeshID: m.ID,
	}, nil
}

// causesTurn says whether a message is of a kind that causes one (DESIGN 8).
func causesTurn(m mesh.Message) bool { return m.Kind == mesh.KindMessage || m.Kind == mesh.KindAsk }

// keepMesh stores what the mesh holds for us, unless it came before.
func keepMesh(files payloads, s state.State, m mesh.Message, raw []byte) (payload string, err error) {
	payload = store.PayloadName(store.MessagesDir, m.Key(), ".json")
	if _, known := s.Seen[m.Key()]; known {
		return payload, nil
	}
	return payload, files.Keep(payload, bytes.NewReader(raw))
}

// reported keeps a peer's report. It causes no turn of its own.
func (a *Agent) reported(store payloads, s state.State, m mesh.Message, raw []byte) (state.Event, error) {
	payload, err := keepMesh(store, s, m, raw)
	return state.Reported{Key: m.Key(), From: m.From, Payload: payload, MeshID: m.ID, ToolCallID: m.Correlation}, err
}

// relayAsked keeps a peer's request to mail our operator. It is kept whole,
// since the mail may be cut, or not be made.
func (a *Agent) relayAsked(store payloads, s state.State, m mesh.Message, raw []byte) (state.Event, error) {
	_, err := keepMesh(store, s, m, raw)
	return state.RelayAsked{Key: m.Key(), From: m.From, Text: m.Text, MeshID: m.ID}, err
}

// busy answers a question that has passed us before: whoever asked us waits for
// us, so that waiting for them would never end (DESIGN 6).
func (a *Agent) busy(m mesh.Message) state.Event {
	e := a.noted(m, "it passed us before, answered busy").(state.Noted)
	e.Answer = &state.Effect{
		Kind: state.Answer, Channel: state.ByMesh, To: m.From, Text: "busy",
		Correlation: correlation(m), Hops: passed(m.Hops, a.Handle),
	}
	return e
}

// correlation is what an answer to m refers to: its correlation id, else its id.
func correlation(m mesh.Message) string { return cmp.Or(m.Correlation, m.ID) }

func (a *Agent) noted(m mesh.Message, why string) state.Event {
	return state.Noted{Key: m.Key(), Kind: m.Kind, From: m.From, Reason: why, Source: state.Mesh, MeshID: m.ID}
}

// gate is the gate of the mesh: only listed peers cause turns, a token must
// have proved who they are unless trust.mesh is open, and hops end loops
// (DESIGN 8). The gate is "" for what passes.
func (m *Mesh) gate(msg mesh.Message) (gate, reason string) {
	switch {
	case !slices.Contains(m.Peers, msg.From):
		return "peer", "the sender is not listed in mesh.peers"
	case !msg.Proven && msg.Kind == mesh.KindRelay:
		return "proof", "no token proved the sender, and a mail in its name needs that"
	case !msg.Proven && !m.Open:
		return "proof", "no token proved the sender, and trust.mesh is \"token\""
	case len(msg.Hops) > mesh.MaxHops:
		return "hops", "it passed more than four agents: " + strings.Join(msg.Hops, ", ")
	}
	return "", ""
}
