package cycle

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
)

// observeMail scans the mailbox. What it took before a failure counts.
func (o observer) observeMail(ctx context.Context, ad *admission, room int, obs *observation) {
	filter, err := o.idKeys.filter(o.mail)
	if err != nil {
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail})
		return
	}
	mailbox := o.mail.Mailbox
	mailbox.Until = time.Now().Add(startWithin)
	mailbox.Room = func(m *mail.Message) bool {
		room, err := ad.hasRoom(m)
		return room || err != nil // then keeping it fails as well, and says why
	}
	session, err := o.session.open(ctx, mailbox)
	if err != nil {
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail})
		return
	}
	obs.mailbox = session
	obs.events = append(obs.events, state.CredentialWorked{Name: state.CredentialIMAP, Reading: true})

	events := map[string]state.Event{} // by key
	scan, err := session.Scan(ctx, ad.state.Cursor, filter, room, func(m *mail.Message, raw io.Reader) (err error) {
		events[m.Key], err = ad.takeMail(m, raw)
		return err
	})
	switch {
	case err != nil:
		obs.close() // the connection may be broken: \Seen is for the next cycle
		obs.fail(state.Mail, err)
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail, Cursor: &scan.Cursor})
	case scan.Rest:
		// What was not read may be the operator's, so silence was not observed.
		obs.events = append(obs.events, state.SourceFailed{Source: state.Mail, Cursor: &scan.Cursor})
	default:
		obs.events = append(obs.events, state.SourceRead{Source: state.Mail, Cursor: &scan.Cursor})
	}
	for _, uid := range scan.Failed {
		obs.events = append(obs.events, state.Unreadable{Key: fmt.Sprintf("mail:%s.%d.%d", o.mail.Mailbox.ID(), scan.Cursor.Validity, uid)})
	}
	for _, m := range scan.Messages {
		obs.events = append(obs.events, events[m.Key])
	}
	for _, m := range scan.Beyond {
		obs.events = append(obs.events, rejection(&m, true, false))
	}
	for _, gate := range slices.Sorted(maps.Keys(scan.Further)) {
		obs.events = append(obs.events, state.RejectedMore{Gate: gate, Source: state.Mail, Count: scan.Further[gate]})
	}
}
