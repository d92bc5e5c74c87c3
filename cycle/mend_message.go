package cycle

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"agentstateloop/mail"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// payloadGuard prevents turns with a damaged message (docs/design.md, "Damaged files").
type payloadGuard struct {
	core
	journal *journal
}

// check reads the payload of the message that would have its turn next. While that payload is
// damaged, check commits the damage and goes on with the next message. It returns the number of
// damaged messages.
func (g *payloadGuard) check(ctx context.Context, p state.Policy) (damaged int, err error) {
	s, err := g.store.Read()
	for found := map[string]bool{}; err == nil; damaged++ {
		msg, broken := g.firstDamaged(s.NextLease(p, g.now()))
		if broken == nil || found[msg.Key] { // a suspended turn goes on without it
			return damaged, nil
		}
		found[msg.Key] = true
		s, err = g.journal.commit(ctx, state.Damaged{Key: msg.Key, Reason: broken.Error()})
	}
	return damaged, err
}

// firstDamaged returns the first damaged message and its damage. It ignores other read errors:
// the turn meets them again and reports them.
func (g *payloadGuard) firstDamaged(all []state.Message) (state.Message, error) {
	for _, msg := range all {
		if _, err := g.store.ReadSummed(msg.Payload, msg.Sum); errors.Is(err, store.ErrDamaged) {
			return msg, err
		}
	}
	return state.Message{}, nil
}

// refetch fetches the damaged mails in the inbox again, through the open session of this
// observation. It accepts a mail only with the original bytes. It begins no fetch after until.
func (o *observer) refetch(ctx context.Context, ad *admission, obs *observation, until time.Time) {
	for _, msg := range ad.state.Inbox {
		if !msg.Damaged || msg.Source != state.Mail || obs.mailbox == nil || time.Now().After(until) {
			continue
		}
		err := mail.ErrNotThere
		if uid, ours := obs.mailbox.UID(cmp.Or(msg.FollowsUp, msg.Key)); ours {
			err = obs.mailbox.Refetch(ctx, uid, func(raw io.Reader) error {
				_, err := ad.files.KeepAgain(msg.Payload, msg.Sum, raw)
				return err
			})
		}
		switch {
		case err == nil:
			obs.events = append(obs.events, state.Mended{Key: msg.Key})
		case errors.Is(err, mail.ErrNotThere), errors.Is(err, store.ErrOtherBytes):
			obs.events = append(obs.events, state.NotMended{Key: msg.Key, Reason: err.Error()})
		default:
			obs.close()
			obs.fail(state.Mail, err)
		}
	}
}
