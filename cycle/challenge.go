package cycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// excerptLength is how much of a mail a challenge quotes, in characters.
const excerptLength = 200

// challenge asks the operator about a mail that nothing proves to be his, if it
// is time to. The token is in the bytes of the challenge only, and those are
// removed when it has left; the state has its hash.
func (a *Agent) challenge(ctx context.Context, s state.State) (state.State, error) {
	key, due := s.ToChallenge(a.Policy, a.Now())
	if !due {
		return s, nil
	}
	item, raw, err := a.itemWithPayload(key)
	if err != nil { // it can be shown to nobody, and must not stop the poll
		return a.unasked(ctx, key, "cannot be asked about: "+err.Error())
	}
	if s.WasReleased(item.same(raw)) {
		return a.unasked(ctx, key, state.CopyOfReleased)
	}
	token := mail.NewToken()
	e := state.Effect{
		ID: fmt.Sprintf("%s.%s", state.Challenge, store.NewID()), Kind: state.Challenge,
		Channel: state.ByMail, To: a.Policy.Operator,
	}
	shown := e
	shown.ID = mail.ChallengeID(token)
	shown.Thread.Subject = a.challengeSubject()
	data, err := a.renderMail(shown, a.challengeText(item, raw, token), nil, a.Now())
	if err != nil {
		return s, fmt.Errorf("render challenge: %w", err)
	}
	e.File = effectFile(e)
	if err := a.Store.Keep(e.File, bytes.NewReader(data)); err != nil {
		return s, fmt.Errorf("keep challenge: %w", err)
	}
	s, err = a.commit(ctx, state.Challenged{Key: key, Hash: state.HashToken(token), Mail: e})
	if err != nil {
		return s, err
	}
	if _, made := s.Effect(e.ID); !made { // something came between
		err = a.Store.Remove(e.File)
	}
	return s, err
}

// unasked takes out an item that the operator is not asked about.
func (a *Agent) unasked(ctx context.Context, key, reason string) (state.State, error) {
	s, err := a.commit(ctx, state.Discarded{Key: key, Reason: reason})
	if err != nil {
		return s, err
	}
	return a.clearLeft(ctx, s)
}

func (a *Agent) challengeSubject() string { return "@" + a.Handle + ": did you write this?" }

// challengeText is the challenge about an item whose payload is raw. Its token
// does not stand first: a program that answers with our own text must not say
// YES.
func (a *Agent) challengeText(item Quarantined, raw []byte, token string) string {
	content := message.ReadContent(bytes.NewReader(raw))
	quote := mail.Excerpt(content.Text, excerptLength)
	if quote == "" {
		quote = "(no text)"
	}
	return fmt.Sprintf(`A mail came to @%s that says it is from you, and nothing proves it.
It is in quarantine: nothing was run, nobody was answered.

It came on %s, has %d characters and %d attachments,
and begins:

> %s

If you wrote it, and want it done, answer with this line and nothing
above it:

YES %s

Any other answer to this mail counts as a message from you by itself,
and leaves that one in quarantine. Either works once, within 24 hours.
If you did not write it, do nothing.
`, a.Handle, item.At.UTC().Format(time.RFC1123),
		utf8.RuneCountInString(content.Text), len(content.Attachments), quote, token)
}

// peekLength is how much of a mail is looked at for a control and for what
// answers a challenge, in bytes.
const peekLength = 256 << 10

// peek reads the beginning of a mail, and gives the whole of it to be read from
// its first byte on.
func peek(raw io.Reader) (head []byte, whole io.Reader, err error) {
	head, err = io.ReadAll(io.LimitReader(raw, peekLength))
	return head, io.MultiReader(bytes.NewReader(head), raw), err
}

// acceptOrRefuse takes a mail that passed the gate, or lacks a proof of its sender
// only, and gives what the machine is to be told of it. Such a mail comes in if
// it answers an open challenge.
func (q *quarantine) acceptOrRefuse(m *mail.Message, raw io.Reader) (state.Event, error) {
	head, whole, err := peek(raw)
	if err != nil {
		return nil, err
	}
	content := message.ReadContent(bytes.NewReader(head))
	control := ""
	if len(head) < peekLength {
		control = message.Control(content.Text)
	}
	if token := mail.Consent(content.Text); token != "" && q.agent.Mail.Filter.Challenges() {
		return q.consent(m, token, whole)
	}
	if m.Gate == "" {
		return mailArrived(*m, control), q.store.Keep(mailPayload(m.Key), whole)
	}
	tokens := mail.Tokens(m.Header, q.agent.Handle, q.agent.Mail.Address, content.Full)
	answered, open := q.open(tokens...)
	if !open {
		return q.refuse(m, m.Ask, whole)
	}
	return state.Vouched{
		Key: m.Key, Hash: answered.Hash, UID: m.UID, At: m.At,
		Then: mailArrived(*m, control), Else: rejection(m, true, false),
	}, q.store.Keep(mailPayload(m.Key), whole)
}

// consent takes a mail that says YES with a token: it releases what the token's
// challenge asks about, and is no message itself. Where that challenge is not
// open any more a proved one is told so, since another YES would come to
// nothing, too; one that is not proved is refused, and nobody asked about it.
func (q *quarantine) consent(m *mail.Message, token string, whole io.Reader) (state.Event, error) {
	late := state.Event(rejection(m, true, false))
	if m.Gate == "" {
		late = mailArrived(*m, message.ControlYes)
	}
	answered, open := q.open(token)
	if open {
		event, err := q.released(answered.Key)
		if err == nil {
			return state.Vouched{Key: m.Key, Hash: answered.Hash, UID: m.UID, At: m.At, Then: event, Else: late}, nil
		}
		if !errors.Is(err, ErrNotQuarantined) {
			return nil, err
		}
	}
	if m.Gate == "" {
		return late, nil
	}
	return q.refuse(m, false, whole)
}

// open finds the first of tokens whose challenge is open; each is found once in
// an observation.
func (q *quarantine) open(tokens ...string) (state.OpenChallenge, bool) {
	for _, token := range tokens {
		t, ok := q.state.ChallengeOf(token, q.agent.Now())
		if ok && !q.shown[t.ID] {
			if q.shown == nil {
				q.shown = map[string]bool{}
			}
			q.shown[t.ID] = true
			return t, true
		}
	}
	return state.OpenChallenge{}, false
}

// released lets in the item under key, since the operator said YES.
func (q *quarantine) released(key string) (state.Event, error) {
	item, raw, err := q.agent.itemWithPayload(key)
	if err != nil {
		return nil, err
	}
	event, err := q.agent.letIn(q.store, q.state, item, raw)
	if err != nil {
		return nil, err
	}
	return state.Released{Key: key, Reason: "the operator said YES", Same: item.same(raw), Event: event}, nil
}
