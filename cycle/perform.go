package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/mail"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// errWithdrawn stops a send whose row was removed or put on hold after the send began.
var errWithdrawn = errors.New("withdrawn")

// performer sends the effects of the outbox.
type performer struct {
	committer
	mail   *Mail // nil: no mail is configured
	mesh   *Mesh // nil: no mesh is configured
	mender *effectMender
}

// perform sends the effects of the outbox, one at a time, and commits each result before it
// begins the next. It begins no send after startWithin. It returns the resulting state, and
// adds the sent and the failed effects to the report; failures are also logged. The caller
// holds cycle.lock.
func (p *performer) perform(ctx context.Context, s state.State, r *Report) (state.State, error) {
	sg := sendSession{performer: p}
	defer sg.close()
	for began := p.now(); mayStart(began, p.now()) && ctx.Err() == nil; {
		bounded, release, err := p.mayBegin(ctx)
		if err != nil {
			p.logf("send: %v", err)
			break
		}
		result := sg.next(bounded, s)
		release()
		if len(result) == 0 {
			break
		}
		interrupted := ctx.Err() != nil // which alone may explain a failed send
		next, err := p.journal.commit(ctx, result...)
		if err != nil {
			return s, err
		}
		if _, ok := result[0].(state.Sent); ok {
			r.sent(sg.last.Channel)
		}
		if f, failed := failedSend(sg.last, result); failed && !interrupted {
			r.fail([]SourceFailure{f})
			p.logf("send: %s", f.Reason)
		}
		s = next
	}
	return s, nil
}

// sendSession holds the connections and intermediate results of one perform.
type sendSession struct {
	*performer
	sender *mail.Sender // opened by the first mail
	last   state.Effect // the effect that was tried last

	mended     map[string]bool // ids of the effects whose files were made again
	down       bool            // no connection to the SMTP server could be opened
	loginTried bool            // a login was tried again after an earlier denial
	listed     bool            // online holds the mesh's registry
	online     []string        // handles
	routed     string          // id of the relay request for which online was committed
}

// close ends the connection to the SMTP server.
func (sg *sendSession) close() {
	if sg.sender != nil {
		sg.sender.Close()
		sg.sender = nil
	}
}

// next does the next due step and returns its result as events: it tries a login again, looks
// up who is online, or sends one effect. It returns no events if nothing is due.
func (sg *sendSession) next(ctx context.Context, s state.State) []state.Event {
	if sg.mail != nil && s.Fails(state.CredentialSMTP) && !s.Denied(state.CredentialSMTP) && !sg.loginTried {
		sg.loginTried = true
		if events := sg.tryLogin(ctx); events != nil {
			return events
		}
	}
	due := slices.DeleteFunc(s.DueEffects(sg.now()), func(e state.Effect) bool {
		return sg.down && e.Channel == state.ByMail // it waits: each connect may last until its timeout
	})
	switch {
	case len(due) > 0 && due[0].Kind == state.Relay && sg.routed != due[0].ID:
		sg.routed = due[0].ID
		return []state.Event{state.Online{Handles: sg.whoIsOnline(ctx)}}
	case len(due) > 0:
		sg.last = due[0]
		return sg.send(ctx, s, due[0])
	}
	return nil
}

// whoIsOnline asks the mesh's registry, once. It returns nil if the registry does not answer.
func (sg *sendSession) whoIsOnline(ctx context.Context) []string {
	if sg.listed || sg.mesh == nil {
		return sg.online
	}
	sg.listed = true
	online, err := sg.mesh.Carrier.Online(ctx)
	if err != nil {
		return nil
	}
	for _, other := range online {
		sg.online = append(sg.online, other.Handle)
	}
	return sg.online
}

// tryLogin logs in again after an earlier cycle was denied. Each cycle does so even with an
// empty outbox; otherwise a working login would go unnoticed.
func (sg *sendSession) tryLogin(ctx context.Context) []state.Event {
	sender, err := sg.mail.SMTP.OpenSender(ctx)
	if denied, ok := state.CredentialFailure(err); ok {
		return []state.Event{state.CredentialFailed{Name: denied.Name, Reason: denied.Err.Error()}}
	}
	if err != nil {
		return nil // a network error says nothing about the login; a mail that waits meets it again
	}
	sg.sender = sender
	return []state.Event{state.CredentialWorked{Name: state.CredentialSMTP}}
}

// send performs one effect and returns its result: first the effect's own event, then the event
// about the credential. If the file of the effect is damaged, the result is the events about
// the damage.
func (sg *sendSession) send(ctx context.Context, s state.State, e state.Effect) []state.Event {
	body, damage := sg.mender.read(s, e)
	switch {
	case damage != nil:
		return sg.limitMending(e, damage)
	case e.Channel == state.ByMesh:
		return sg.sendMesh(ctx, e, body)
	}
	return sg.sendMail(ctx, e, body)
}

// limitMending returns the events for an effect whose file is damaged. A file that is damaged
// again just after it was rewritten waits for a later cycle.
func (sg *sendSession) limitMending(e state.Effect, damage []state.Event) []state.Event {
	again, ok := damage[0].(state.Rendered)
	if !ok {
		return damage
	}
	if sg.mended[e.ID] {
		return []state.Event{state.SendFailed{ID: e.ID, Unknown: e.Unknown, Reason: "its file was rendered again, and is damaged again: " + again.Reason}}
	}
	if sg.mended == nil {
		sg.mended = map[string]bool{}
	}
	sg.mended[e.ID] = true
	return damage
}

func (sg *sendSession) sendMail(ctx context.Context, e state.Effect, body []byte) []state.Event {
	if sg.mail == nil {
		return []state.Event{state.SendFailed{ID: e.ID, Permanent: true, Reason: "no mail is configured any more"}}
	}
	whole, closeAll, err := wholeMail(sg.store, e, body)
	if err != nil {
		damaged := errors.Is(err, store.ErrDamaged)
		return []state.Event{state.SendFailed{ID: e.ID, Permanent: damaged, Unknown: damaged && e.MayHaveLeft() || !damaged && e.Unknown, Reason: err.Error()}}
	}
	defer closeAll()
	if sg.sender == nil {
		if sg.sender, err = sg.mail.SMTP.OpenSender(ctx); err != nil {
			sg.down = true
			return sg.mailFailed(ctx, e, err)
		}
	}
	var withdrawn error
	err = sg.sender.Send(ctx, sg.mail.Address, []string{e.To}, whole, func() error {
		withdrawn = sg.beforeDot(ctx, e.ID)
		return withdrawn
	})
	if err == nil {
		return []state.Event{state.Sent{ID: e.ID}, state.CredentialWorked{Name: state.CredentialSMTP}}
	}
	sg.close()
	if withdrawn != nil {
		return sendFailed(e, err)
	}
	return sg.mailFailed(ctx, e, err)
}

// mailFailed is sendFailed for an error of the connection or the server. It distinguishes one
// mail's failure from the server's: a refusal by a recipient's mailbox concerns only that
// recipient, unless it is the operator.
func (sg *sendSession) mailFailed(ctx context.Context, e state.Effect, err error) []state.Event {
	unsent, answered := errors.AsType[*mail.SendError](err)
	result := sendFailed(e, err)
	failed := result[0].(state.SendFailed)
	failed.Server = ctx.Err() == nil && (!answered || !unsent.Recipient || e.To == sg.journal.policy.Operator)
	result[0] = failed
	return result
}

// beforeDot commits that the effect may have happened from now on. It returns errWithdrawn if
// the effect must not be sent any more.
func (p *performer) beforeDot(ctx context.Context, id string) error {
	s, err := p.journal.commit(ctx, state.Sending{ID: id})
	if err != nil {
		return err
	}
	if row, ok := s.Effect(id); !ok || s.Held(row) {
		return errWithdrawn
	}
	return nil
}

// sendFailed turns an error of sending into events.
func sendFailed(e state.Effect, err error) []state.Event {
	event := state.SendFailed{ID: e.ID, Reason: err.Error()}
	var unsentMail *mail.SendError
	var unsentMesh *mesh.Error
	switch {
	case errors.As(err, &unsentMail):
		event.Permanent = unsentMail.Verdict == mail.Permanent
		event.Unknown = unsentMail.Verdict == mail.Unknown
	case errors.As(err, &unsentMesh):
		event.Permanent = !unsentMesh.Temporary()
		event.RetryAfter = unsentMesh.RetryAfter
		event.NoReceipt = errors.Is(err, mesh.ErrNotTaken)
	}
	events := []state.Event{event}
	if credential, ok := state.CredentialFailure(err); ok {
		event.Permanent, event.Denied = false, true
		events[0] = event
		events = append(events, state.CredentialFailed{Name: credential.Name, Reason: credential.Err.Error()})
	}
	return events
}

// sendMesh sends a message to the mesh. The mesh keeps each id once, so a message
// whose answer was lost is simply sent again.
func (sg *sendSession) sendMesh(ctx context.Context, e state.Effect, body []byte) []state.Event {
	if sg.mesh == nil {
		return []state.Event{state.SendFailed{ID: e.ID, Permanent: true, Reason: "no mesh is configured any more"}}
	}
	var m mesh.Message
	if err := json.Unmarshal(body, &m); err != nil {
		return []state.Event{state.SendFailed{ID: e.ID, Permanent: true, Reason: fmt.Sprintf("read rendered message: %v", err)}}
	}
	if e.Credential != "" {
		// Without this record, a notice that was sent just before this process
		// died could be withdrawn, or be sent by another channel too.
		if err := sg.beforeDot(ctx, e.ID); err != nil {
			return sendFailed(e, err)
		}
	}
	if len(e.Files) > 0 {
		var err error
		if m, err = sg.uploadFiles(ctx, e, m); err != nil {
			return uploadFailed(e, err)
		}
	}
	m.SentAt = e.Created // a repeat is identical to the bit
	if _, err := sg.mesh.Carrier.Send(ctx, m); err != nil {
		if len(e.Files) > 0 {
			return uploadFailed(e, err)
		}
		return sendFailed(e, err)
	}
	return []state.Event{state.Sent{ID: e.ID}, state.CredentialWorked{Name: state.CredentialMesh}}
}

// uploadFiles uploads the files of a message, and returns the message to post. Repeating it is
// cheap: the mesh does not read a file again that it holds. A report goes without the files
// that can never go, and names them. Its text is always the same: once a report is on the mesh,
// another one under its id changes nothing.
func (sg *sendSession) uploadFiles(ctx context.Context, e state.Effect, m mesh.Message) (mesh.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*startWithin)
	defer cancel()
	var unsent []string
	for _, ref := range e.Files {
		err := sg.upload(ctx, e.To, ref)
		if err == nil {
			continue
		}
		err = fmt.Errorf("the file %s: %w", ref.FileName, err)
		if e.Kind != state.Reply || !neverGoes(err) {
			return m, err
		}
		m.Files = slices.DeleteFunc(m.Files, func(f mesh.File) bool { return f.SHA256 == ref.Sum && f.Name == ref.FileName })
		reason := err.Error()
		if errors.Is(err, store.ErrDamaged) { // the error names the copy, but our paths must not go out
			reason = fmt.Sprintf("the file %s: its copy was damaged before it was sent", ref.FileName)
		}
		unsent = append(unsent, "file not sent: "+plain.Brief(reason))
	}
	if len(unsent) > 0 {
		note := "\n\n[" + strings.Join(unsent, "; ") + "]"
		m.Text = truncateJSON(m.Text, maxPosted-jsonSize(note)-m.Fields.Size()) + note
	}
	return m, nil
}

func (sg *sendSession) upload(ctx context.Context, to string, ref state.FileRef) error {
	f, err := sg.store.OpenSummed(ref.File, ref.Sum, ref.Size)
	if err != nil {
		return err
	}
	defer f.Close()
	return sg.mesh.Carrier.PutBlob(ctx, to, ref.Sum, ref.Size, f)
}

// neverGoes reports whether a file can never be uploaded: its copy is damaged, or the
// mesh refuses it for good.
func neverGoes(err error) bool {
	if errors.Is(err, store.ErrDamaged) {
		return true
	}
	if _, denied := state.CredentialFailure(err); denied {
		return false
	}
	e, ok := errors.AsType[*mesh.Error](err)
	return ok && !e.Temporary()
}

// uploadFailed is sendFailed for a message that has files. A mesh that has lost a file gets it
// again.
func uploadFailed(e state.Effect, err error) []state.Event {
	events := sendFailed(e, err)
	failed := events[0].(state.SendFailed)
	if errors.Is(err, store.ErrDamaged) {
		failed.Permanent = true
	}
	if conflict, ok := errors.AsType[*mesh.Error](err); ok && conflict.Code == http.StatusConflict {
		failed.Permanent = false
	}
	events[0] = failed
	return events
}
