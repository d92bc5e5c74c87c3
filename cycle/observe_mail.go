package cycle

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// observeMail scans the mailbox. Mails taken before a failure count.
func (o *observer) observeMail(ctx context.Context, ad *admission, room int, obs *observation) {
	filter, err := o.idKeys.filter(o.mail)
	if err != nil {
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail})
		return
	}
	mailbox := o.mail.Mailbox
	mailbox.Until = time.Now().Add(startWithin)
	mailbox.Room = ad.mayKeep
	mailbox.Ahead = ad.state.Cursor
	mailbox.Sweep, mailbox.Known = ad.state.SweepDue(*o.policy, o.now()), ad.knowsMail
	session, err := o.session.open(ctx, mailbox)
	if err != nil {
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail})
		return
	}
	obs.mailbox = session
	obs.events = append(obs.events, state.CredentialWorked{Name: state.CredentialIMAP, Reading: true})

	ad.lookBack(ctx, session, filter)
	if err := ad.readSentFirst(); err != nil {
		obs.fail(state.Mail, err)
		obs.events = append(append(obs.events, ad.restored.events(o.store, ad.state)...), state.SourceFailed{Source: state.Mail})
		return
	}
	o.markPending(ad.state.ToFlag, obs)
	began := ad.state.Cursor
	events := map[string]state.Event{} // by key
	scan, err := session.Scan(ctx, began, filter, room, func(m *mail.Message, raw io.Reader) (err error) {
		events[m.Key], err = ad.takeMail(m, raw)
		return err
	})
	switch {
	case err != nil:
		obs.close() // the connection may be broken: \Seen is for the next cycle
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail, Cursor: &scan.Cursor, Large: began.Large})
	case scan.Rest || len(scan.Cursor.Unseen) > 0:
		// An unread mail may be the operator's, so this was not silence.
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail, Cursor: &scan.Cursor, Large: began.Large})
	default:
		obs.events = append(obs.events, state.SourceRead{Source: state.Mail, Cursor: &scan.Cursor, Large: began.Large})
	}
	o.awaitMarks(ctx, ad.state.ToFlag, obs)
	if err == nil {
		o.lookElsewhere(ctx, ad.state, scan, session, obs)
	}
	o.refetch(ctx, ad, obs, mailbox.Until)
	if err == nil {
		obs.failWithheld(scan)
	}
	ad.endLookBack(obs, events)
	obs.addScan(scan, events)
	if scan.Swept != nil {
		obs.events = append(obs.events, state.Swept{Keys: scan.Swept.Keys, Looked: scan.Swept.Looked})
	}
}

// markPending marks the mails that earlier polls committed but did not see marked: those polls did
// not wait for the server, or died.
func (o *observer) markPending(owed state.ToFlag, obs *observation) {
	if !o.dry && obs.isMailboxOf(owed) {
		obs.mailbox.Mark(owed.UIDs, owed.Answered)
	}
}

// awaitMarks waits until the server has marked the mails of markPending. It drops the UIDs of
// another or a renumbered mailbox, which are meaningless.
func (o *observer) awaitMarks(ctx context.Context, owed state.ToFlag, obs *observation) {
	if o.dry || len(owed.UIDs)+len(owed.Answered) == 0 || obs.mailbox == nil {
		return
	}
	if err := obs.mailbox.Marked(ctx); err != nil {
		if ctx.Err() == nil {
			obs.failed = append(obs.failed, SourceFailure{Source: state.Mail, Reason: err.Error()})
		}
		return
	}
	obs.events = append(obs.events, state.Flagged(owed))
}

// markSeen asks the server to mark the committed mail \Seen, and the answered mail \Answered. It does not wait, because that
// would be one more round trip. The mark stays pending until the next poll, which asks again
// and waits.
func (obs *observation) markSeen(owed state.ToFlag) {
	if obs.isMailboxOf(owed) {
		obs.mailbox.Mark(owed.UIDs, owed.Answered)
	}
}

// isMailboxOf reports whether the open mailbox is the one of the UIDs.
func (obs *observation) isMailboxOf(owed state.ToFlag) bool {
	return obs.mailbox != nil && owed.Mailbox == obs.mailbox.ID() && owed.Validity == obs.mailbox.UIDValidity()
}

// lookElsewhere looks in the folder for sent mail for mail of ours that another machine has sent
// since this state got its place. It does so with the daily sweep, and when somebody has opened a new
// mail before this machine took it. A failure is not an error of the mailbox.
func (o *observer) lookElsewhere(ctx context.Context, s state.State, scan mail.Scan, session *mail.Session, obs *observation) {
	opened := func(m mail.Message) bool { return m.Gate == "" && m.Seen && !m.Before }
	if o.dry || s.Place == "" || scan.Swept == nil && !slices.ContainsFunc(scan.Messages, opened) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	found, err := session.SentElsewhere(ctx, o.handle, s.Place, s.SignsSince(o.now()))
	if err != nil {
		o.logf("the folder for sent mail does not show whether another machine works as @%s: %v", o.handle, err)
		return
	}
	for _, m := range found {
		if !o.isOwn(s, m.Effect) {
			obs.events = append(obs.events, state.ElsewhereSeen{Place: m.Place, At: m.At})
			return
		}
	}
}

// isOwn reports whether this state has sent the mail of effect, or is about to. Such a mail has
// another place if it was rendered before a restore or a move. A challenge is not kept.
func (o *observer) isOwn(s state.State, effect string) bool {
	_, err := os.Stat(o.store.Path(sentFile(effect)))
	return err == nil || s.Keeps(effect) || strings.HasPrefix(effect, string(state.Challenge)+".")
}

// failWithheld records the refusals in a scan by a server that works as a whole.
func (obs *observation) failWithheld(scan mail.Scan) {
	if reason := fetchFailures(scan); reason != "" {
		obs.failed = append(obs.failed, SourceFailure{Source: state.Mail, Reason: reason})
	}
}

// addScan adds the events of a scan: events holds those of the taken mails, by key. It adds those
// beyond the room, and those whose fetch has ended.
func (obs *observation) addScan(scan mail.Scan, events map[string]state.Event) {
	for _, m := range scan.Messages {
		obs.events = append(obs.events, events[m.Key])
	}
	for _, m := range scan.Beyond {
		obs.events = append(obs.events, rejection(&m, true, false))
	}
	for _, r := range scan.Returned {
		obs.events = append(obs.events, state.Bounced{Key: r.Key, UID: r.UID, ID: r.Effect, To: r.To, Reason: r.Reason, Delayed: r.Delayed})
	}
	if scan.Uncalled > 0 {
		obs.events = append(obs.events, state.CalledNobody{Count: scan.Uncalled, At: scan.LastOne})
	}
	if scan.Forged > 0 {
		obs.events = append(obs.events, state.RejectedMore{Gate: trust.GateBounce, Source: state.Mail, Count: scan.Forged})
	}
	for _, gate := range slices.Sorted(maps.Keys(scan.Further)) {
		obs.events = append(obs.events, state.RejectedMore{Gate: gate, Source: state.Mail, Count: scan.Further[gate]})
	}
	for _, f := range scan.Ended {
		obs.events = append(obs.events, state.FetchEnded{Key: f.Key, Told: f.Failure.Told, Gone: f.Gone, Another: f.Another})
	}
}

// fetchFailures returns the refusals in a scan by a server that works as a whole, or "".
func fetchFailures(scan mail.Scan) string {
	var reasons []string
	if n := len(scan.Failed); n > 0 {
		f := scan.Failed[0]
		reason := fmt.Sprintf("could not fetch %s: %s; next try after %s", f.Key, f.Reason, f.Next.Format(time.RFC3339))
		if n > 1 {
			reason += fmt.Sprintf(", and %d more: see `agentstateloop inbox list`", n-1)
		}
		reasons = append(reasons, reason)
	}
	if scan.SweepErr != nil {
		reasons = append(reasons, scan.SweepErr.Error())
	}
	return strings.Join(reasons, "; ")
}

// knowsMail reports whether the mail under key was taken or rejected before.
func (ad *admission) knowsMail(key string) bool {
	return ad.state.KnowsRejected(key, "")
}
