package state

import (
	"crypto/subtle"
	"slices"
	"time"
)

// ChallengeQueue holds the mails that the operator is asked about.
type ChallengeQueue struct {
	Challenges    []OpenChallenge `json:"challenges,omitempty"` // open
	Unasked       []string        `json:"unasked,omitempty"`    // keys of the mails to ask the operator about next
	Doubtful      []string        `json:"doubtful,omitempty"`   // keys of signed mails with two readings to ask the operator about next
	LastChallenge time.Time       `json:"last_challenge,omitzero"`
}

func (q ChallengeQueue) clone() ChallengeQueue {
	q.Challenges, q.Unasked, q.Doubtful = slices.Clone(q.Challenges), slices.Clone(q.Unasked), slices.Clone(q.Doubtful)
	return q
}

func (q *ChallengeQueue) clampTimes(c clamp) {
	c.past(&q.LastChallenge)
	for i := range q.Challenges {
		c.past(&q.Challenges[i].Made)
		c.deadline(&q.Challenges[i].Until, tokenLife)
	}
}

// Limits on challenges. Anyone who can send mail can cause one, and the operator
// must not be flooded (docs/protocol.md, "Configuration", require = "challenge").
const (
	tokenLife      = 24 * time.Hour
	challengeEvery = 10 * time.Minute // at most one in this time
	maxOpen        = 5                // open at the same time, so at most five go unanswered in a day
	maxUnasked     = 5                // mails waiting for their challenge

	// Only the operator can send many signed mails in doubt: a copy of one is not asked about
	// again.
	maxOpenDoubtful = 20 // open at the same time
	maxDoubtful     = 20 // waiting for their challenge
)

// OpenChallenge is a mail that asks the operator whether they wrote another mail, which is in
// quarantine. That other mail has no proof, or it is signed and has two readings. The state keeps
// only the hash of the token that an answer must show.
type OpenChallenge struct {
	ID    string    `json:"id"`   // of the effect that asks
	Key   string    `json:"key"`  // of the mail it asks about
	Hash  string    `json:"hash"` // of the token, by HashToken
	Made  time.Time `json:"made"`
	Until time.Time `json:"until"`

	Doubtful bool `json:"doubtful,omitempty"` // it asks about a signed mail
}

// HashToken returns the form in which a token is kept. A token has 128 random bits, so a plain hash
// does not give it away.
func HashToken(token string) string { return hashHex("token " + token) }

// ChallengeOf returns the open challenge that token answers. Every wrong token takes the same time.
func (q ChallengeQueue) ChallengeOf(token string, now time.Time) (OpenChallenge, bool) {
	return q.openHash(HashToken(token), now)
}

// AwaitsAnswer reports whether a challenge is open at now.
func (q ChallengeQueue) AwaitsAnswer(now time.Time) bool {
	return slices.ContainsFunc(q.Challenges, func(c OpenChallenge) bool { return now.Before(c.Until) })
}

func (q ChallengeQueue) openHash(hash string, now time.Time) (found OpenChallenge, ok bool) {
	for _, c := range q.Challenges {
		if subtle.ConstantTimeCompare([]byte(c.Hash), []byte(hash)) == 1 && now.Before(c.Until) {
			found, ok = c, true
		}
	}
	return found, ok
}

// ToChallenge returns the key of the mail to ask the operator about at now. ok is false if no
// question is due. After a restore it waits for the first report: by then the mailbox has shown which
// mail was answered.
func (s State) ToChallenge(p Policy, now time.Time) (key string, ok bool) {
	switch {
	case !p.HasMail || s.Halted() || s.Restore != nil && !s.Restore.Over && s.Restore.Told == 0:
		return "", false
	case len(s.Doubtful) > 0 && s.openAt(now, true) < maxOpenDoubtful:
		return s.Doubtful[0], true
	case !p.Challenge || len(s.Unasked) == 0:
		return "", false
	case s.openAt(now, false) >= maxOpen || now.Before(s.LastChallenge.Add(challengeEvery)):
		return "", false
	}
	return s.Unasked[0], true
}

// openAt counts the challenges about mails of one kind that are open at now.
func (q ChallengeQueue) openAt(now time.Time, doubtful bool) (n int) {
	for _, c := range q.Challenges {
		if c.Doubtful == doubtful && now.Before(c.Until) {
			n++
		}
	}
	return n
}

// challengeTimes returns the times at which the limits on challenges allow another one.
func (q ChallengeQueue) challengeTimes() []time.Time {
	if len(q.Unasked)+len(q.Doubtful) == 0 {
		return nil
	}
	times := []time.Time{q.LastChallenge.Add(challengeEvery)}
	for _, c := range q.Challenges {
		times = append(times, c.Until)
	}
	return times
}

// Asks reports whether a challenge about the item under key is open or pending.
func (q ChallengeQueue) Asks(key string) bool {
	return slices.Contains(q.Unasked, key) || slices.Contains(q.Doubtful, key) || slices.ContainsFunc(q.Challenges, func(c OpenChallenge) bool { return c.Key == key })
}

// Challenged reports that the mail of a challenge was rendered. It asks the operator whether they
// wrote the item under Key, and its token has this hash. The mail's id does not depend on the
// token.
type Challenged struct {
	Key, Hash string
	Mail      Effect
}

// apply puts the mail into the outbox, unless the challenge is not allowed now.
func (e Challenged) apply(m *machine) {
	if key, due := m.ToChallenge(m.policy, m.now); !due || key != e.Key {
		return
	}
	e.Mail.Kind, e.Mail.Channel, e.Mail.To = Challenge, ByMail, m.policy.Operator
	l := Line{Kind: LineChallenge, What: WordMade, ID: e.Mail.ID, Key: e.Key, Digest: e.Hash}
	m.line(l)
	l.At = m.now
	m.applyChallengeLine(l)
	m.queue(e.Mail)
}

// Redacted implements [Redactable].
func (e Challenged) Redacted(redact func(string) string) Event {
	e.Mail = e.Mail.redacted(redact)
	return e
}

// Vouched reports that the mail under Key shows the token of this hash, in a place where only a
// reader of our challenge can have put it. If the challenge is open, the event is Then: the mail
// itself, or the item that it releases. Otherwise the event is Else.
type Vouched struct {
	Key, Hash  string
	UID        uint32 // to be marked \Seen if the challenge is open
	At         time.Time
	Then, Else Event
}

// apply applies Then and closes the challenge if it is open. Otherwise it applies Else.
func (e Vouched) apply(m *machine) {
	if m.seen(e.Key) {
		m.acknowledgeLater(e.UID, "")
		return
	}
	c, open := m.openHash(e.Hash, m.now)
	if !open {
		e.Else.apply(m)
		return
	}
	m.acknowledgeLater(e.UID, "")
	l := Line{Kind: LineChallenge, What: WordAnswered, ID: c.ID, Key: e.Key, Source: Mail}
	m.line(l)
	m.applyAdmitted(e.Then)
	m.applyChallengeLine(l)
}

func (e Vouched) rank() (int, time.Time) { return rankArrival, e.At }

// Redacted implements [Redactable].
func (e Vouched) Redacted(redact func(string) string) Event {
	e.Then, e.Else = redactEvent(e.Then, redact), redactEvent(e.Else, redact)
	return e
}

// expireChallenges closes the challenges that were not answered in time. A challenge whose mail
// never left is made again.
func (m *machine) expireChallenges() {
	for _, c := range slices.Clone(m.Challenges) {
		if m.now.Before(c.Until) {
			continue
		}
		l := Line{Kind: LineChallenge, What: WordExpired, ID: c.ID, Key: c.Key}
		if row, waits := m.Effect(c.ID); waits && !row.MayHaveLeft() {
			l.What = WordSpoiled
		}
		m.line(l)
		m.applyChallengeLine(l)
	}
}

// applyChallengeLine opens or closes the challenge of a challenge line.
func (m *machine) applyChallengeLine(l Line) {
	switch l.What {
	case WordMade:
		doubtful := slices.Contains(m.Doubtful, l.Key)
		m.unask(l.Key)
		if !doubtful {
			m.LastChallenge = l.At
		}
		m.Challenges = append(m.Challenges, OpenChallenge{
			ID: l.ID, Key: l.Key, Hash: l.Digest, Made: l.At, Until: l.At.Add(tokenLife), Doubtful: doubtful,
		})
		return
	case WordAnswered:
		m.noteSeen(l.Key)
	case WordSpoiled: // the operator has not seen it
		if m.asksAboutDoubt(l.ID) {
			m.Doubtful = append([]string{l.Key}, m.Doubtful...)
			break
		}
		m.Unasked = append([]string{l.Key}, m.Unasked...)
		m.LastChallenge = time.Time{}
	}
	m.Challenges = slices.DeleteFunc(m.Challenges, func(c OpenChallenge) bool { return c.ID == l.ID })
}

// forgetChallenge closes the challenges about an item that has left the quarantine.
func (q *ChallengeQueue) forgetChallenge(key string) {
	q.unask(key)
	q.Challenges = slices.DeleteFunc(q.Challenges, func(c OpenChallenge) bool { return c.Key == key })
}

func (q *ChallengeQueue) unask(key string) {
	other := func(k string) bool { return k == key }
	q.Unasked, q.Doubtful = slices.DeleteFunc(q.Unasked, other), slices.DeleteFunc(q.Doubtful, other)
}

// asksAboutDoubt reports whether the challenge with this id asks about a signed mail.
func (q *ChallengeQueue) asksAboutDoubt(id string) bool {
	return slices.ContainsFunc(q.Challenges, func(c OpenChallenge) bool { return c.ID == id && c.Doubtful })
}

// challengeIsOpen reports whether the effect with this id is the mail of an open
// challenge.
func (q *ChallengeQueue) challengeIsOpen(id string) bool {
	return slices.ContainsFunc(q.Challenges, func(c OpenChallenge) bool { return c.ID == id })
}
