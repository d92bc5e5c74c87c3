package cycle

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// deliverableFile is the name of a turn's final text in its output folder.
const deliverableFile = "deliverable.txt"

// isDeliverable reports whether a file of the output folder is ours and stays out of every
// reply. This includes an unfinished file that a killed process may have left.
func isDeliverable(name string) bool {
	name = strings.TrimSuffix(name, ".tmp")
	return name == deliverableFile || name == fieldsFile
}

// ofAgent returns the names of an output folder without our own files.
func ofAgent(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), isDeliverable)
}

// deliverer ends turns with their deliverable.
type deliverer struct {
	committer
	replier  *replier
	backend  backend
	sessions sessions
	biller   *biller
}

// deliver ends the turn of s with the result r of its attempt. The submitted text, or else the
// final text, becomes a file of the output folder. Its reply is rendered, and one commit makes
// both count. If another attempt owns the turn by now, the commit only leaves a history line.
func (d *deliverer) deliver(ctx context.Context, s state.State, m turnMessage, r turn.Result) (state.State, error) {
	next, err := d.tryDeliver(ctx, s, m, r)
	if !diskFull(err) || !d.makeRoom(m, &r) {
		return next, err
	}
	// A process that is about to end may hold a removed file open, which still takes disk
	// space.
	for range 10 {
		if next, err = d.tryDeliver(ctx, s, m, r); !diskFull(err) {
			break
		}
		pause(ctx, 100*time.Millisecond, nil)
	}
	return next, err
}

func (d *deliverer) tryDeliver(ctx context.Context, s state.State, m turnMessage, r turn.Result) (state.State, error) {
	worked := r.Status == turn.Success
	var back deliverableBody
	if s.Turn.Submitted != "" && s.Turn.Owns(m.head.TurnID, m.head.Epoch) {
		back.Fields, r = d.submitted(m, s.Turn, r)
	} else {
		back.Fields, r = m.printed(r)
	}
	d.keepWhole(m, &r)
	list, unsent, err := d.attachments(&m, r.Output)
	if err != nil {
		files.Outgoing{Store: d.store}.Drop(m.outgoing)
		return s, err
	}
	if why := d.backend.instead(s); why != "" && m.msg.Operator && d.backend.turn != nil {
		unsent = append(unsent, why)
	}
	for _, what := range r.Refused {
		unsent = append(unsent, "not permitted: "+what)
	}
	back.Text = deliverable(r, unsent)
	box := path.Join(m.dir(), "output")
	fields, err := d.keepDeliverable(box, back)
	if err != nil {
		files.Outgoing{Store: d.store}.Drop(m.outgoing)
		return s, err
	}
	m.thread = d.replier.threadOf(m)
	var reply *state.Effect
	if len(back.Fields) > 0 || !m.needsNoReply(r) {
		reply, err = d.replier.reply(m, state.Outcome(r.Status), back, list)
	}
	if err != nil {
		files.Outgoing{Store: d.store}.Drop(m.outgoing)
		return s, fmt.Errorf("render reply: %w", err)
	}
	var events []state.Event
	if r.Rest == nil { // a lingering agent is still spending
		events = d.biller.bill(s, m.head, r.Bill)
	}
	if r.Outage != nil { // the next message waits for its end
		events = append(events, d.backend.failed(*r.Outage))
	}
	events = append(events, state.Ended{
		TurnID: m.head.TurnID, Epoch: m.head.Epoch,
		Outcome: state.Outcome(r.Status), Reason: r.Reason,
		OutputBox: box, Deliverable: deliverableFile, Fields: fields, Reply: reply, Session: d.nextSession(s, m, r),
		Lingers: r.Rest != nil, Submitted: s.Turn.Submitted, Refused: strings.Join(r.Refused, "; "),
	})
	if worked && d.backend.turn != nil {
		if r.Rest == nil {
			events = append(events, d.billedEvent(r.Bill))
		}
		events = append(events, state.CredentialWorked{Name: d.backend.turn.Login()}, state.BackendWorked{Backend: d.backend.name()})
	}
	if r.Rest == nil {
		clearContext(d.store, m.dir())
	}
	if s, err = d.journal.commit(ctx, events...); err != nil {
		return s, err
	}
	if reply != nil && !slices.ContainsFunc(s.Outbox, func(e state.Effect) bool { return e.File == reply.File }) {
		_ = d.store.Remove(reply.File) // another attempt owned the turn: this reply is not sent
		files.Outgoing{Store: d.store}.Drop(reply.Files)
		return s, nil
	}
	turn.DropEarlier(d.store.Path(m.dir()), r.Output)
	if r.Rest == nil {
		files.Outgoing{Store: d.store}.TakeOut(m.outgoing)
	}
	return s, nil
}

// billedEvent returns the event that records whether a successful attempt reported its cost.
func (d *deliverer) billedEvent(b turn.Bill) state.Billed {
	return state.Billed{Backend: d.backend.name(), Known: b.Settled || b.CostUSD != 0 || b.Usage != (turn.Usage{})}
}

// threadOf returns the mail thread for the answer of a turn. A turn without a mail begins a
// thread. A turn that the agent planned answers in the thread where it was planned.
func (rp *replier) threadOf(m turnMessage) state.Thread {
	subject := m.msg.Title
	switch m.msg.Source {
	case state.Mail, state.Mesh:
		return m.thread
	case state.Self:
		if m.msg.Thread != nil {
			return *m.msg.Thread
		}
	case state.Clock:
		at := m.msg.At.In(cmp.Or(rp.renderer.policy.Location, time.UTC))
		subject = m.msg.From + ", " + at.Format(dateAndTime)
	case state.CLI:
		subject = reportSource(m.head) + " reported"
	}
	return state.Thread{Subject: "@" + rp.handle + ": " + subject, ID: m.msg.ThreadID}
}

// plannedThread returns the mail thread for the answers of turns that the agent plans in this
// turn. It is nil if such an answer begins a thread, because the outcome of this turn is not
// mailed.
func (rp *replier) plannedThread(m turnMessage) (*state.Thread, error) {
	if m.msg.Source == state.CLI && !m.repliesByMail(rp.mail) || !m.msg.Operator || rp.mail == nil {
		return nil, nil
	}
	t := rp.threadOf(m)
	if t.MessageID == "" { // the thread begins with the answer of this turn
		key, err := rp.renderer.idKeys.key()
		if err != nil {
			return nil, err
		}
		ids := message.IDs{Handle: rp.handle, Address: rp.mail.Address, IDKey: key}
		t.MessageID = ids.Make(message.InThread("reply."+m.head.TurnID, t.ID), t.Subject)
	}
	return &t, nil
}

// reportSource names the source of the report that caused a turn of its own: "tool deploy".
func reportSource(h state.Head) string {
	for _, w := range h.Waiting {
		if w.Report != "" && w.To != awaitsSubmit && !w.Operator {
			return plain.Line(w.To)
		}
	}
	return "background work"
}

// nextSession returns the session for the next turn of the same conversation. A failed
// inference keeps the previous session (docs/design.md, "Turns").
func (d *deliverer) nextSession(s state.State, m turnMessage, r turn.Result) state.Session {
	failed := r.Status != turn.Success && r.Status != turn.Partial
	if r.Session == "" || d.backend.turn == nil || m.msg.Fresh && failed || m.ownSession {
		return s.ConversationOf(d.journal.policy.TalkOf(m.msg)).Session
	}
	return d.sessions.after(s, r)
}

// keepDeliverable writes the text and the fields into the output folder, and returns the file
// name of the fields, or "" without fields. It removes files of the agent that have these
// names.
func (d *deliverer) keepDeliverable(box string, back deliverableBody) (fieldsName string, err error) {
	if err := d.store.CheckFolders(box); err != nil {
		return "", fmt.Errorf("save deliverable: %w", err)
	}
	dir := d.store.Path(box)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		if err := os.Remove(dir); err != nil {
			return "", fmt.Errorf("save deliverable: %w", err)
		}
	}
	for _, name := range []string{deliverableFile, fieldsFile} {
		if err := osfile.RemoveAll(path.Join(dir, name)); err != nil {
			return "", fmt.Errorf("save deliverable: %w", err)
		}
	}
	if len(back.Fields) > 0 {
		data, err := back.Fields.MarshalJSON()
		if err == nil {
			err = d.store.KeepAmong(path.Join(box, fieldsFile), bytes.NewReader(data))
		}
		if err != nil {
			return "", fmt.Errorf("save deliverable fields: %w", err)
		}
		fieldsName = fieldsFile
	}
	if err := d.store.KeepAmong(path.Join(box, deliverableFile), strings.NewReader(back.Text)); err != nil {
		return "", fmt.Errorf("save deliverable: %w", err)
	}
	return fieldsName, nil
}

// submitted returns the fields and the result of a turn whose agent has submitted. The
// submitted deliverable replaces the attempt's own ending, however the process ended.
func (d *deliverer) submitted(m turnMessage, head state.Head, r turn.Result) (mesh.Fields, turn.Result) {
	r.TextFile = ""
	back, err := readSubmitted(d.store, m.dir(), head)
	if err != nil {
		r.Status, r.Reason = turn.Partial, "the submission cannot be read: "+err.Error()
		return nil, r
	}
	r.Status, r.Reason, r.Text = turn.Success, "", back.Text
	return back.Fields, r
}

// needsNoReply reports whether the turn stays silent. The agent woke itself, or was woken by a
// prompt that allows silence, and found no news for its operator.
func (m turnMessage) needsNoReply(r turn.Result) bool {
	return m.msg.MayBeSilent() && r.Status == turn.Success && hasNoNews(r.Text)
}

// deliverable returns the text that a turn hands back: its answer, and notes about how it
// ended.
func deliverable(r turn.Result, unsent []string) string {
	var parts []string
	if r.Text != "" {
		parts = append(parts, r.Text)
	}
	switch {
	case r.Status == turn.Failed:
		parts = append(parts, inferenceFailed+r.Reason)
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

// attachments returns the files of the output folder that go with a mail. Large files, and
// files for a report, are kept in the outbox and become m.outgoing. unsent names the others,
// each with the reason. A full disk is an error.
func (d *deliverer) attachments(m *turnMessage, names []string) (list []message.Attachment, unsent []string, err error) {
	switch {
	case m.msg.Source == state.Mail, m.repliesByMail(d.replier.mail):
		return d.replier.attachments(m, names)
	case m.msg.Source == state.Mesh:
		unsent, err = d.replier.keepForReport(m, names)
		return nil, unsent, err
	}
	for _, name := range names {
		if !isDeliverable(name) {
			unsent = append(unsent, "file left in the output folder: "+name)
		}
	}
	return nil, unsent, nil
}
