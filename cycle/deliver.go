package cycle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// deliverableFile is where a turn's final text lies in its output box.
const deliverableFile = "deliverable.txt"

// deliver closes a turn: its text becomes a file of the output box, its reply
// is rendered, and one commit makes both count. If the turn is not ours any
// more, the commit leaves a history line and nothing else.
func (a *Agent) deliver(ctx context.Context, w work, r turn.Result) (state.State, error) {
	text := deliverable(r)
	box := path.Join(w.dir(), "output")
	file := path.Join(box, deliverableFile)
	if err := a.Store.Keep(file, strings.NewReader(text)); err != nil {
		return state.State{}, fmt.Errorf("keep deliverable: %w", err)
	}
	reply, err := a.reply(w, text, r)
	if err != nil {
		return state.State{}, fmt.Errorf("render reply: %w", err)
	}
	events := []state.Event{state.Ended{
		TurnID: w.head.TurnID, Epoch: w.head.Epoch,
		Outcome: state.Outcome(r.Status), Reason: r.Reason,
		OutputBox: box, Deliverable: deliverableFile, Reply: reply,
	}}
	if refused, ok := state.CredentialFailure(r.Credential); ok {
		events = append(events, state.CredentialFailed{Name: refused.Name, Reason: refused.Err.Error()})
	}
	s, err := a.commit(ctx, events...)
	if err != nil {
		return s, err
	}
	if reply != nil && !slices.ContainsFunc(s.Outbox, func(e state.Effect) bool { return e.File == reply.File }) {
		_ = os.Remove(a.Store.Path(reply.File)) // stale: it is not sent, and need not lie about
	}
	return s, nil
}

// deliverable is the text a turn hands back: its answer, and whatever must be
// said about how it ended.
func deliverable(r turn.Result) string {
	var parts []string
	if r.Text != "" {
		parts = append(parts, r.Text)
	}
	if r.Status != turn.Success {
		parts = append(parts, fmt.Sprintf("[%s: %s]", r.Status, r.Reason))
	}
	if r.Status == turn.Failed && r.Text == "" && r.Stderr != "" {
		parts = append(parts, r.Stderr)
	}
	return strings.Join(parts, "\n\n")
}

// reply is the effect that hands a turn's deliverable to whoever caused it: a
// mail to the operator who wrote, a report to the peer who asked, nothing for
// `tell`, which reads it from the box.
func (a *Agent) reply(w work, text string, r turn.Result) (*state.Effect, error) {
	e := state.Effect{ID: "reply." + w.head.TurnID, Kind: state.Reply, To: w.msg.From, TurnID: w.head.TurnID}
	var data []byte
	var err error
	switch w.msg.Source {
	case state.Mail:
		e.Channel, e.Thread = state.ByMail, w.thread
		data, err = a.renderMail(e, text, a.attachments(w, r), a.Now())
	case state.Mesh:
		e.Channel = state.ByMesh
		data, err = json.Marshal(report(a.Handle, e.ID, w.sent, text))
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	named := e
	named.ID = fmt.Sprintf("%s.%d", e.ID, w.head.Epoch) // a stale runner must not write over its successor's bytes
	e.File = effectFile(named)
	return &e, a.Store.Keep(e.File, bytes.NewReader(data))
}

// report is a peer's deliverable. It repeats the correlation id of its cause,
// else the cause's own id, and its hops, us added (DESIGN 8).
func report(handle, id string, cause mesh.Message, text string) mesh.Message {
	correlation := cause.Correlation
	if correlation == "" {
		correlation = cause.ID
	}
	return mesh.Message{
		ID: id, From: handle, To: cause.From, Text: clip(text, mesh.MaxMessage-4<<10), Kind: mesh.KindReport,
		Correlation: correlation, Hops: append(slices.Clone(cause.Hops), handle),
	}
}

// clip cuts a text to fit into n bytes, and says so.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = "\n[cut: the rest did not fit]"
	return strings.ToValidUTF8(text[:n-len(mark)], "") + mark
}

// mostAttached bounds what a reply carries.
const mostAttached = 10 << 20

// attachments are the files that the agent left in its output box.
func (a *Agent) attachments(w work, r turn.Result) []mail.Attachment {
	var files []mail.Attachment
	left := int64(mostAttached)
	for _, name := range r.Output {
		f, err := turn.OpenOutput(a.Store.Path(w.dir()), name)
		if err != nil {
			continue // it changed since the agent ended: what it is now is not sent
		}
		data, err := readUpTo(f, left)
		f.Close()
		if err != nil {
			continue
		}
		left -= int64(len(data))
		files = append(files, mail.Attachment{Name: path.Base(name), Data: data})
	}
	return files
}

// readUpTo reads all of f, or nothing of it when that is more than n bytes.
func readUpTo(f *os.File, n int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, n+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > n {
		return nil, fmt.Errorf("%s does not fit", f.Name())
	}
	return data, nil
}
