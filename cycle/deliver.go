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

	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// deliverableFile is where a turn's final text lies in its output box.
const deliverableFile = "deliverable.txt"

// deliver closes a turn of s, whose attempt has ended and came to r: what was
// submitted, else its final text, becomes a file of the output box, its reply is
// rendered, and one commit makes both count. If the turn is not ours any more,
// the commit leaves a history line and nothing else.
func (a *Agent) deliver(ctx context.Context, s state.State, w turnMessage, r turn.Result) (state.State, error) {
	next, err := a.tryDeliver(ctx, s, w, r)
	if !diskFull(err) || !a.makeRoom(w, &r) {
		return next, err
	}
	return a.tryDeliver(ctx, s, w, r)
}

func (a *Agent) tryDeliver(ctx context.Context, s state.State, w turnMessage, r turn.Result) (state.State, error) {
	if s.Turn.Submitted != "" && s.Turn.Owns(w.head.TurnID, w.head.Epoch) {
		r = a.submitted(w, s.Turn.Submitted, r)
	}
	a.keepWhole(w, &r)
	files, unsent := a.attachments(w, r)
	text := deliverable(r, unsent)
	box := path.Join(w.dir(), "output")
	if err := a.keepDeliverable(box, text); err != nil {
		return s, err
	}
	reply, err := a.reply(w, text, files)
	if err != nil {
		return s, fmt.Errorf("render reply: %w", err)
	}
	events := append(a.bill(s, w.head, r.Bill), state.Ended{
		TurnID: w.head.TurnID, Epoch: w.head.Epoch,
		Outcome: state.Outcome(r.Status), Reason: r.Reason,
		OutputBox: box, Deliverable: deliverableFile, Reply: reply, Session: a.nextSession(s, r),
	})
	if r.Status == turn.Success && a.Turn != nil {
		events = append(events, state.CredentialWorked{Name: a.Turn.Login()})
	}
	if s, err = a.commit(ctx, events...); err != nil {
		return s, err
	}
	if reply != nil && !slices.ContainsFunc(s.Outbox, func(e state.Effect) bool { return e.File == reply.File }) {
		_ = os.Remove(a.Store.Path(reply.File)) // stale: it is not sent, and need not lie about
	}
	return s, nil
}

// nextSession is what the next turn goes on with. An inference that failed
// keeps the session that was (DESIGN 6).
func (a *Agent) nextSession(s state.State, r turn.Result) state.Session {
	if r.Session == "" || a.Turn == nil {
		return s.Session
	}
	return a.session(s, r)
}

// keepDeliverable writes the text into the box. An agent that has put something
// in the way of it loses that, not us.
func (a *Agent) keepDeliverable(box, text string) error {
	dir := a.Store.Path(box)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		if err := os.Remove(dir); err != nil {
			return fmt.Errorf("keep deliverable: %w", err)
		}
	}
	if err := os.RemoveAll(path.Join(dir, deliverableFile)); err != nil {
		return fmt.Errorf("keep deliverable: %w", err)
	}
	if err := a.Store.KeepAmong(path.Join(box, deliverableFile), strings.NewReader(text)); err != nil {
		return fmt.Errorf("keep deliverable: %w", err)
	}
	return nil
}

// submitted replaces an attempt's own ending by what it submitted: that is the
// deliverable, however the process ended.
func (a *Agent) submitted(w turnMessage, file string, r turn.Result) turn.Result {
	r.TextFile = ""
	text, err := os.ReadFile(a.Store.Path(path.Join(w.dir(), file)))
	if err != nil {
		r.Status, r.Reason = turn.Partial, "what was submitted cannot be read: "+err.Error()
		return r
	}
	r.Status, r.Reason, r.Text = turn.Success, "", string(text)
	return r
}

// deliverable is the text a turn hands back: its answer, and whatever must be
// said about how it ended.
func deliverable(r turn.Result, unsent []string) string {
	var parts []string
	if r.Text != "" {
		parts = append(parts, r.Text)
	}
	switch {
	case r.Status == turn.Failed:
		parts = append(parts, "Inference failed. "+r.Reason)
		if r.Stderr != "" {
			parts = append(parts, r.Stderr)
		}
	case r.Status != turn.Success:
		parts = append(parts, fmt.Sprintf("[%s: %s]", r.Status, r.Reason))
	}
	if notes := append(slices.Clone(r.Notes), unsent...); len(notes) > 0 {
		parts = append(parts, "["+strings.Join(notes, "; ")+"]")
	}
	return strings.Join(parts, "\n\n")
}

// reply is the effect that hands a turn's deliverable to whoever caused it: a
// mail to the operator who wrote, a report to the peer who asked, nothing for
// `tell`, which reads it from the box.
func (a *Agent) reply(w turnMessage, text string, files []message.Attachment) (*state.Effect, error) {
	e := state.Effect{ID: "reply." + w.head.TurnID, Kind: state.Reply, To: w.msg.From, TurnID: w.head.TurnID}
	var data []byte
	var err error
	switch {
	case w.msg.Source == state.Mail && a.Mail != nil:
		e.Channel, e.Thread = state.ByMail, w.thread
		data, err = a.renderMail(e, text, files, a.Now())
	case w.msg.Source == state.Mesh:
		e.Channel = state.ByMesh
		data, err = json.Marshal(report(a.Handle, e.ID, w, text))
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
func report(handle, id string, w turnMessage, text string) mesh.Message {
	return mesh.Message{
		ID: id, From: handle, To: w.msg.From, Text: fit(text, mostPosted), Kind: mesh.KindReport,
		Correlation: w.msg.Correlation, Hops: passed(w.sent.Hops, handle),
	}
}

// mostAttached bounds, in bytes, what a reply carries.
const mostAttached = 10 << 20

// attachments are the files that the agent left in its output box, for a mail;
// unsent says which do not come with it, and why.
func (a *Agent) attachments(w turnMessage, r turn.Result) (files []message.Attachment, unsent []string) {
	left := int64(mostAttached)
	for _, name := range r.Output {
		if name == deliverableFile {
			continue
		}
		if w.msg.Source != state.Mail {
			unsent = append(unsent, "file left in the output box: "+name)
			continue
		}
		data, err := a.readOutput(w, name, left)
		if err != nil {
			unsent = append(unsent, fmt.Sprintf("file not attached: %s: %v", name, err))
			continue
		}
		left -= int64(len(data))
		files = append(files, message.Attachment{Name: path.Base(name), Data: data})
	}
	return files, unsent
}

// readOutput reads a file of the output box, if it has no more than n bytes.
func (a *Agent) readOutput(w turnMessage, name string, n int64) ([]byte, error) {
	f, err := turn.OpenOutput(a.Store.Path(w.dir()), name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, n+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > n {
		return nil, fmt.Errorf("it does not fit into the %d MiB a reply may carry", mostAttached>>20)
	}
	return data, nil
}
