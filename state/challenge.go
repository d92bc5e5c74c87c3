package state

import (
	"crypto/subtle"
	"slices"
	"time"
)

// Limits on challenges: whoever can send mail can cause them, and the operator
// is not to be flooded (DESIGN 12, require = "challenge").
const (
	tokenLife      = 24 * time.Hour
	challengeEvery = 10 * time.Minute // at most one
	mostOpen       = 5                // open, so that no more go unanswered in a day
	mostUnasked    = 5                // mails that wait to be asked about
)

// OpenChallenge is a mail to the operator that waits for its answer: whether he
// wrote another, which nothing proves and which lies in quarantine. Of the token
// that an answer shows only the hash is kept.
type OpenChallenge struct {
	ID    string    `json:"id"`   // of the effect that asks
	Key   string    `json:"key"`  // of the mail it asks about
	Hash  string    `json:"hash"` // as HashToken gives it
	Made  time.Time `json:"made"`
	Until time.Time `json:"until"`
}

// HashToken is how a token is kept. It has 128 random bits, so that a plain hash
// gives it away to nobody.
func HashToken(token string) string { return hashHex("token " + token) }

// ChallengeOf finds the challenge that token answers. It takes the same time for
// every wrong token.
func (s State) ChallengeOf(token string, now time.Time) (OpenChallenge, bool) {
	return s.openHash(HashToken(token), now)
}

func (s State) openHash(hash string, now time.Time) (found OpenChallenge, ok bool) {
	for _, c := range s.Challenges {
		if subtle.ConstantTimeCompare([]byte(c.Hash), []byte(hash)) == 1 && now.Before(c.Until) {
			found, ok = c, true
		}
	}
	return found, ok
}

// ToChallenge gives the key of the mail that the operator may be asked about at
// now, if there is one.
func (s State) ToChallenge(p Policy, now time.Time) (key string, ok bool) {
	switch {
	case !p.Challenge || !p.HasMail || s.Halted() || len(s.Unasked) == 0:
		return "", false
	case len(s.Challenges) >= mostOpen || now.Before(s.LastChallenge.Add(challengeEvery)):
		return "", false
	}
	return s.Unasked[0], true
}

// Asks says whether a challenge is open about the item under key, or waits to be
// made.
func (s State) Asks(key string) bool {
	return slices.Contains(s.Unasked, key) || slices.ContainsFunc(s.Challenges, func(c OpenChallenge) bool { return c.Key == key })
}

// What a challenge line tells.
const (
	challengeMade     = "made"
	challengeAnswered = "answered"
	challengeExpired  = "expired"
)

// Challenged: a mail was rendered that asks the operator whether he wrote the
// item under Key, with a token of this hash. Its id is not made of the token.
type Challenged struct {
	Key, Hash string
	Mail      Effect
}

// apply puts the mail that asks into the outbox, unless it may not be asked
// now.
func (e Challenged) apply(m *machine) {
	if key, due := m.ToChallenge(m.policy, m.now); !due || key != e.Key {
		return
	}
	e.Mail.Kind, e.Mail.Channel, e.Mail.To = Challenge, ByMail, m.policy.Operator
	l := Line{Kind: LineChallenge, What: challengeMade, ID: e.Mail.ID, Key: e.Key, Digest: e.Hash}
	m.line(l)
	l.At = m.now
	m.redoChallenge(l)
	m.queue(e.Mail)
}

// Redacted implements [Redactable].
func (e Challenged) Redacted(redact func(string) string) Event {
	e.Mail = e.Mail.redacted(redact)
	return e
}

// Vouched: the mail under Key shows the token of this hash, in a place where
// only who has read our challenge can put it. Then is what the mail is, or what
// it releases, if the challenge is open; Else, if it is not.
type Vouched struct {
	Key, Hash  string
	UID        uint32 // to be marked \Seen if the challenge is open
	At         time.Time
	Then, Else Event
}

// apply takes a mail that shows a token: for what it is if the challenge is
// open, which it then is no more; else for what it would be without.
func (e Vouched) apply(m *machine) {
	if m.seen(e.Key) {
		m.owe(e.UID, "")
		return
	}
	c, open := m.openHash(e.Hash, m.now)
	if !open {
		e.Else.apply(m)
		return
	}
	m.owe(e.UID, "")
	l := Line{Kind: LineChallenge, What: challengeAnswered, ID: c.ID, Key: e.Key, Source: Mail}
	m.line(l)
	e.Then.apply(m)
	m.redoChallenge(l)
}

// Redacted implements [Redactable].
func (e Vouched) Redacted(redact func(string) string) Event {
	e.Then, e.Else = redactEvent(e.Then, redact), redactEvent(e.Else, redact)
	return e
}

// expireChallenges closes the challenges that nobody has answered in time.
func (m *machine) expireChallenges() {
	for _, c := range slices.Clone(m.Challenges) {
		if m.now.Before(c.Until) {
			continue
		}
		l := Line{Kind: LineChallenge, What: challengeExpired, ID: c.ID, Key: c.Key}
		m.line(l)
		m.redoChallenge(l)
	}
}

// redoChallenge does what a challenge line tells.
func (m *machine) redoChallenge(l Line) {
	switch l.What {
	case challengeMade:
		m.unask(l.Key)
		m.LastChallenge = l.At
		m.Challenges = append(m.Challenges, OpenChallenge{ID: l.ID, Key: l.Key, Hash: l.Digest, Made: l.At, Until: l.At.Add(tokenLife)})
		return
	case challengeAnswered:
		m.remember(l.Key)
	}
	m.Challenges = slices.DeleteFunc(m.Challenges, func(c OpenChallenge) bool { return c.ID == l.ID })
}

// forgetChallenge closes what is asked about an item that has left the quarantine.
func (m *machine) forgetChallenge(key string) {
	m.unask(key)
	m.Challenges = slices.DeleteFunc(m.Challenges, func(c OpenChallenge) bool { return c.Key == key })
}

func (m *machine) unask(key string) {
	m.Unasked = slices.DeleteFunc(m.Unasked, func(k string) bool { return k == key })
}

// challengeIsOpen says whether the challenge that the effect with this id makes is open.
func (m *machine) challengeIsOpen(id string) bool {
	return slices.ContainsFunc(m.Challenges, func(c OpenChallenge) bool { return c.ID == id })
}
