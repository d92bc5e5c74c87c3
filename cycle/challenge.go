package cycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// excerptLength is how many characters of a mail a challenge quotes.
const excerptLength = 200

// doubtLength is how many characters of a signed mail a challenge quotes: all that most people
// write on a phone.
const doubtLength = 2000

// challenger asks the operator about mails that are not proven to be theirs, and about doubtful
// ones.
type challenger struct {
	committer
	renderer *renderer
	sweeper  *sweeper
}

// challenge asks the operator about each mail that is due for a challenge.
func (c *challenger) challenge(ctx context.Context, s state.State) (state.State, error) {
	last := ""
	for {
		key, due := s.ToChallenge(*c.policy, c.now())
		if !due || key == last { // another process has asked
			return s, nil
		}
		last = key
		var err error
		if s, err = c.ask(ctx, s, key); err != nil {
			return s, err
		}
	}
}

// ask asks the operator about the mail under key. Only the bytes of the challenge hold the
// token, and they are removed once it is sent; the state holds the token's hash.
func (c *challenger) ask(ctx context.Context, s state.State, key string) (state.State, error) {
	item, raw, err := quarantine.Folder{Store: c.store}.Open(key)
	if err != nil { // it cannot be shown, and must not stop the poll
		return c.discard(ctx, key, "the operator cannot be asked about it: "+err.Error())
	}
	if s.WasReleased(item.Same(raw)) {
		return c.discard(ctx, key, state.CopyOfReleased)
	}
	token := trust.NewToken()
	e := state.Effect{
		ID: fmt.Sprintf("%s.%s", state.Challenge, store.NewID()), Kind: state.Challenge,
		Channel: state.ByMail, To: c.policy.Operator,
	}
	draft := e
	draft.ID = trust.ChallengeID(token)
	draft.Thread.Subject = challengeSubject(c.handle)
	data, err := c.renderer.renderMail(s.Place, draft, mailText{text: challengeText(c.handle, item, raw, token)}, nil, c.now())
	if err != nil {
		return s, fmt.Errorf("render challenge: %w", err)
	}
	e.File = effectFile(e)
	if e.Sum, err = c.store.KeepSummed(e.File, bytes.NewReader(data)); err != nil {
		return s, fmt.Errorf("save challenge: %w", err)
	}
	s, err = c.journal.commit(ctx, state.Challenged{Key: key, Hash: state.HashToken(token), Mail: e})
	if err != nil {
		return s, err
	}
	if _, queued := s.Effect(e.ID); !queued { // another process's commit came first
		err = c.store.Remove(e.File)
	}
	return s, err
}

// discard removes an item from quarantine without asking the operator.
func (c *challenger) discard(ctx context.Context, key, reason string) (state.State, error) {
	s, err := c.journal.commit(ctx, state.Discarded{Key: key, Reason: reason})
	if err != nil {
		return s, err
	}
	return c.sweeper.sweepLast(ctx, s)
}

func challengeSubject(handle string) string { return "@" + handle + ": did you write this?" }

// challengeText returns the challenge about an item whose payload is raw. The token is not at
// the beginning: a program that answers with our own text must not say YES.
func challengeText(handle string, item quarantine.Item, raw []byte, token string) string {
	content := message.ContentOf(raw, message.Sent{})
	arrival := fmt.Sprintf("It arrived on %s, with %s and %s", item.At.UTC().Format(time.RFC1123),
		counted(utf8.RuneCountInString(content.Text), "character"), counted(len(content.Attachments), "attachment"))
	if item.Doubtful {
		return doubtText(handle, item, arrival, content.Text, token)
	}
	quote := trust.Excerpt(content.Text, excerptLength)
	if quote == "" {
		quote = noText
	}
	return fmt.Sprintf(`@%s received a mail that claims to be from you, but nothing proves it.
It is in quarantine: nothing was run, and nobody got an answer.

%s,
and begins:

> %s

If you wrote it and want it done, reply with this line and nothing
above it:

YES %s

Any other reply to this mail counts as a new message from you, and
leaves the first mail in quarantine. Either works once, within 24 hours.
If you did not write it, do nothing.
`, handle, arrival, quote, token)
}

// doubtText returns the challenge about a signed mail with two readings. text is the reading
// that YES runs.
func doubtText(handle string, item quarantine.Item, arrival, text, token string) string {
	end := ""
	if utf8.RuneCountInString(text) > doubtLength {
		end = "\n\nThe rest is in `agentstateloop inbox list --quarantined`."
	}
	return fmt.Sprintf(`@%s received a mail from you. Its signature is valid, but its text may
not be what you wrote: %s.
It is in quarantine: nothing was run.

%s.
@%s reads this:

%s%s

If that is what you wrote and you want it done, reply with this line
and nothing above it:

YES %s

This works once, within 24 hours. If it is not what you wrote, do
nothing, and send it again as plain text in UTF-8.
`, handle, item.Reason, arrival, handle, quoteLines(text, doubtLength), end, token)
}

// noText is the text in a challenge for a mail without text.
const noText = "(no text)"

// quoteLines quotes the beginning of a text, line by line.
func quoteLines(text string, most int) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if most <= 0 {
			break
		}
		lines = append(lines, strings.TrimRight("> "+trust.Excerpt(line, most), " "))
		most -= utf8.RuneCountInString(line) + 1
	}
	if strings.TrimSpace(text) == "" {
		lines = []string{"> " + noText}
	}
	return strings.Join(lines, "\n")
}

// counted returns a number with its noun, such as "1 character" or "2 characters".
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// consent takes a mail that says YES with a token. It releases the item that the token's
// challenge asks about; the mail itself is not a message. If that challenge is closed already,
// a proven mail is answered with that fact, because another YES would fail too. An unproven
// mail is rejected without a challenge.
func (ad *admission) consent(m *mail.Message, token string, whole io.Reader) (state.Event, error) {
	late := state.Event(rejection(m, true, false))
	if m.Gate == "" {
		late = mailArrived(*m, "", message.ControlYes, "") // a control has no turn
	}
	answered, open := ad.openChallenge(token)
	if open {
		event, err := ad.releaseConsented(answered.Key)
		if err == nil {
			return state.Vouched{Key: m.Key, Hash: answered.Hash, UID: m.UID, At: m.At, Then: event, Else: late}, nil
		}
		if !errors.Is(err, quarantine.ErrNotQuarantined) && !errors.Is(err, store.ErrDamaged) {
			return nil, err
		}
	}
	if m.Gate == "" {
		return late, nil
	}
	m.Doubtful = false // the operator is not asked whether they wrote a YES
	return ad.reject(m, false, whole)
}

// openChallenge returns the first open challenge among those of the tokens. It returns each
// challenge once in an observation.
func (ad *admission) openChallenge(tokens ...string) (state.OpenChallenge, bool) {
	for _, token := range tokens {
		t, ok := ad.state.ChallengeOf(token, ad.now())
		if ok && !ad.answered[t.ID] {
			ad.answered[t.ID] = true
			return t, true
		}
	}
	return state.OpenChallenge{}, false
}

// releaseConsented releases the item under key, because the operator said YES.
func (ad *admission) releaseConsented(key string) (state.Event, error) {
	item, raw, err := ad.folder.Open(key)
	if err != nil {
		return nil, err
	}
	event, err := ad.release(ad.files, ad.state, item, raw)
	if err != nil {
		return nil, err
	}
	return state.Released{Key: key, Reason: "the operator said YES", Same: item.Same(raw), Event: event}, nil
}
