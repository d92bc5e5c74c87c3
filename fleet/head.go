package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// MaxHead limits, in bytes, the body of a head, a block or a wish. A server accepts 1 MiB in one
// message by default, and the message also has headers.
const MaxHead = 1<<20 - 8<<10

// Head is the newest accepted state of an agent, as a server has it.
type Head struct {
	Revision uint64    // 0: the agent has no head
	Body     []byte    // nil if the head was removed
	Stored   time.Time // by the server's clock
	Signed   bool      // by the key of this agent
}

// Refused means that OfferHead stored no head, because the server has a newer one.
type Refused struct {
	Last uint64 // the revision that the server has; 0 if the server did not name it
}

func (r *Refused) Error() string {
	if r.Last == 0 {
		return "another head was stored first"
	}
	return fmt.Sprintf("another head was stored first: revision %d", r.Last)
}

// Unsure reports whether the call that returned err may have stored its message, or may still
// store it. The answer concerns this call alone, and not an earlier one with the same message.
func Unsure(err error) bool { return lost(err) }

// LoadHead reads the head of this agent with one request. A server that lags may return an
// older head.
func (c *Conn) LoadHead(ctx context.Context) (Head, error) {
	return c.load(ctx, headSubject(c.Handle), headLine(c.Handle))
}

// load reads the last message on a subject of this agent in the bucket of heads.
func (c *Conn) load(ctx context.Context, subject, line string) (h Head, err error) {
	public, err := c.PublicKey(ctx)
	if err != nil {
		return Head{}, err
	}
	err = c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		if err := f.ask("head", directGet(HeadStream, subject), nil, nil); err != nil {
			return err
		}
		a, err := f.next()
		switch {
		case err != nil:
			return err
		case a.status == 404:
			h = Head{}
			return nil
		}
		if h.Revision, h.Stored, err = f.place(a); err != nil {
			return err
		}
		h.Signed = verifies(public, a.Header.Get(headerSignature), line, a.Data)
		if h.Body = a.Data; len(a.Data) == 0 {
			h.Body = nil // a marker of the removal
		}
		return nil
	})
	return h, err
}

// place reads the number and the time of a stored message out of the answer to a direct get.
func (f *flight) place(a answer) (sequence uint64, stored time.Time, err error) {
	if a.status == 0 {
		sequence, err = strconv.ParseUint(last(a.Header, "Nats-Sequence"), 10, 64)
	}
	if err == nil {
		stored, err = time.Parse(time.RFC3339Nano, last(a.Header, "Nats-Time-Stamp"))
	}
	if err != nil || sequence == 0 {
		return 0, time.Time{}, &Error{Server: f.link.server, Code: a.status, Err: errInvalidAnswer}
	}
	return sequence, stored, nil
}

// OfferHead stores body as the head of this agent if the revision of the present head is after.
// With after 0 it stores the first head. It returns the revision of the stored head.
//
// It publishes once, and the caller repeats it. After an error that Unsure reports, the server may
// have stored the head. A repeat of that offer is *Refused if the server did: then the head with
// the named revision shows whose it is. After each other error this offer is not stored.
func (c *Conn) OfferHead(ctx context.Context, after uint64, body []byte) (revision uint64, err error) {
	m, err := c.signed(ctx, headSubject(c.Handle), headLine(c.Handle), body)
	if err != nil {
		return 0, err
	}
	m.Header[headerExpected] = []string{strconv.FormatUint(after, 10)}
	if ctx.Err() != nil {
		return 0, &Error{Err: context.Cause(ctx)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	l, err := c.connect(ctx)
	if err != nil {
		return 0, certain(err)
	}
	err = c.attemptFor(ctx, c.offerPatience(), l, func(ctx context.Context, l *link) error {
		revision, err = l.offer(ctx, m)
		return err
	})
	return revision, err
}

// offerTime is how long OfferHead waits for an answer. Its caller has five seconds for an offer, and
// repeats it. A server answers within milliseconds, and an election takes a few seconds.
const offerTime = 1500 * time.Millisecond

func (c *Conn) offerPatience() time.Duration { return min(offerTime, c.patience()) }

// signed returns a message with the signature of this agent, for one of its own subjects.
func (c *Conn) signed(ctx context.Context, subject, line string, body []byte) (*nats.Msg, error) {
	if len(body) > MaxHead {
		return nil, &Error{Code: 413, Err: fmt.Errorf("message of %d bytes exceeds %d bytes", len(body), MaxHead)}
	}
	sig, err := c.sign(ctx, line, body)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: subject, Header: nats.Header{headerSignature: {sig}}, Data: body}, nil
}

// certain returns an error of a call that has published nothing.
func certain(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Lost {
		return &Error{Server: e.Server, Code: e.Code, Denied: e.Denied, Err: e.Err}
	}
	return err
}

// offer publishes a message that expects its predecessor, and returns its number. Once the message
// is published, only an answer or a missing right proves that it is not stored.
func (l *link) offer(ctx context.Context, m *nats.Msg) (uint64, error) {
	f, err := l.begin(ctx)
	if err != nil {
		return 0, certain(err)
	}
	defer f.end()
	if err := f.ask("stored", m.Subject, m.Header, m.Data); err != nil {
		return 0, err
	}
	a, err := f.next()
	if err != nil {
		return 0, unsure(err, m.Subject)
	}
	var ack struct {
		Stored
		Error *apiError `json:"error"`
	}
	if json.Unmarshal(a.Data, &ack) != nil || ack.Error == nil && (ack.Stream == "" || ack.Sequence == 0) {
		return 0, lostError(l.server, 0, errInvalidAnswer)
	}
	if ack.Error != nil {
		return 0, l.offerRefusal(*ack.Error)
	}
	return ack.Sequence, nil
}

// JetStream's error numbers for a message that expects another predecessor.
const (
	numberWrongLast     = 10071 // its text ends in the number of the last message
	numberWrongLastBusy = 10164 // another message is being stored
)

// offerRefusal returns the error for an error answer to an offer.
func (l *link) offerRefusal(e apiError) error {
	switch e.Number {
	case numberWrongLast:
		_, number, _ := strings.Cut(e.Text, "wrong last sequence: ")
		last, _ := strconv.ParseUint(number, 10, 64) // 0 if the server changes the text
		return &Refused{Last: last}
	case numberWrongLastBusy:
		return &Refused{}
	}
	return l.refusal(e)
}

// unsure marks an error that came after a message was published. The error is certain only if the
// server has refused the right to publish it.
func unsure(err error, subject string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Denied && strings.Contains(e.Error(), "Publish to "+strconv.Quote(subject)) {
		return err
	}
	copied := *e
	copied.Lost = true
	return &copied
}

// SetWish stores a wish: a note to the holder of this agent's seat. An empty wish removes it.
func (c *Conn) SetWish(ctx context.Context, body []byte) error {
	m, err := c.signed(ctx, wishSubject(c.Handle), wishLine(c.Handle), body)
	if err != nil {
		return err
	}
	_, err = c.store(ctx, HeadStream, m, nil)
	return err
}

// LoadWish returns the last wish, and when the server stored it. The body is nil without a wish
// that has the signature of this agent.
func (c *Conn) LoadWish(ctx context.Context) (body []byte, stored time.Time, err error) {
	h, err := c.load(ctx, wishSubject(c.Handle), wishLine(c.Handle))
	if err != nil || !h.Signed || h.Body == nil {
		return nil, time.Time{}, err
	}
	return h.Body, h.Stored, nil
}
