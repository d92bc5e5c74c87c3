package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// timeLayout is the format of a signed time.
const timeLayout = time.RFC3339Nano

// Item is a message in a mailbox. Every field except Stored comes from its sender, or from a
// forger.
type Item struct {
	To, From string // from the subject
	ID       string
	At       time.Time // when it was signed; zero if that is unreadable
	Stored   time.Time // by the server's clock
	Body     []byte

	at, signature string
	sequence      uint64
	reply         string // the subject for its acknowledgement
}

// SignedBy reports whether the key made the signature of the item.
func (i Item) SignedBy(public string) bool {
	return !i.At.IsZero() && verifies(public, i.signature, mailboxLine(i.To, i.From, i.ID, i.at), i.Body)
}

// Same reports whether two items are deliveries of the same message.
func (i Item) Same(other Item) bool { return i.sequence == other.sequence }

// MailboxLimits and FileLimits return the planned limits of all mailboxes, and of the files of messages.
func MailboxLimits() Stream { return planned(MailboxStream) }
func FileLimits() Stream    { return planned(BlobStream) }

func planned(stream string) Stream {
	all := Assets(1)
	return all[slices.IndexFunc(all, func(a Asset) bool { return a.Stream.Name == stream })].Stream
}

// Post puts a signed message into our part of a mailbox, waits until the server has it on disk,
// and rings. If once is true, the server recognizes a repeat with the same id, time and body
// for an hour.
func (c *Conn) Post(ctx context.Context, to, id string, at time.Time, body []byte, once bool) (Stored, error) {
	signed := at.UTC().Format(timeLayout)
	sig, err := c.sign(ctx, mailboxLine(to, c.Handle, id, signed), body)
	if err != nil {
		return Stored{}, err
	}
	header := nats.Header{headerID: {id}, headerAt: {signed}, headerSignature: {sig}}
	if once {
		// Others cannot claim it before us: it is a part of the signature.
		header["Nats-Msg-Id"] = []string{sig[:22]}
	}
	ring, err := c.ring(ctx, to)
	if err != nil {
		return Stored{}, err
	}
	return c.store(ctx, MailboxStream, &nats.Msg{Subject: mailboxSubject(to, c.Handle), Header: header, Data: body}, func(f *flight) error {
		return f.tell(ring.Subject, ring.Header, ring.Data)
	})
}

// Taken is the result of Take.
type Taken struct {
	Items []Item // from our mailbox, oldest first
	Halt  Halt
}

// Take pulls messages out of our mailbox and reads HALT, in one round trip. messages and bytes
// limit the pull. Unacknowledged messages come again after a minute. If host is not "", the
// registry records that this host looked.
func (c *Conn) Take(ctx context.Context, host string, now time.Time, messages, bytes int) (Taken, error) {
	look, err := c.look(ctx, host, now)
	if err != nil {
		return Taken{}, err
	}
	pull, err := json.Marshal(map[string]any{"batch": messages, "max_bytes": bytes, "no_wait": true})
	if err != nil {
		return Taken{}, err
	}
	var taken Taken
	err = c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		if err := f.ask("end", "$JS.API.CONSUMER.MSG.NEXT."+MailboxStream+"."+c.Handle, nil, pull); err != nil {
			return err
		}
		if err := f.ask("halt", haltGet, nil, nil); err != nil {
			return err
		}
		if look != nil {
			if err := f.tell(look.Subject, look.Header, look.Data); err != nil {
				return err
			}
		}
		return c.gather(f, &taken, messages)
	})
	return taken, err
}

// gather reads the answers to a pull and to the request for HALT. It keeps the items of an
// earlier try, because the server does not show them again soon.
func (c *Conn) gather(f *flight, taken *Taken, messages int) error {
	haltPending, received, total := true, 0, messages
	for haltPending || received < total {
		a, err := f.next()
		if err != nil {
			return err
		}
		switch a.name {
		case "":
			taken.add(c.item(a.Msg))
			received++
		case "halt":
			if taken.Halt, err = f.readHalt(a); err != nil {
				return err
			}
			haltPending = false
		case "end":
			if total, err = f.pullTotal(a, messages, received, len(taken.Items) > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// pullTotal reads the end of a pull, and returns the total number of its messages. A cluster may
// end a pull before its messages arrive, because the servers first agree on each message.
func (f *flight) pullTotal(a answer, messages, received int, gotItems bool) (int, error) {
	left, err := strconv.Atoi(last(a.Header, "Nats-Pending-Messages"))
	counted := err == nil && left >= 0 && left < messages
	switch {
	case a.status == 100:
		return messages, nil
	case a.status == 404:
		return received, nil
	case (a.status == 408 || a.status == 409) && counted:
		return messages - left, nil
	case a.status == 408, a.status == 409 && gotItems:
		return received, nil // no more messages wait, or fit
	case a.status == 409:
		return 0, lostError(f.link.server, 409, errNoResponder) // its leader is changing
	}
	return 0, &Error{Server: f.link.server, Err: errInvalidAnswer}
}

// add adds an item. A newer delivery replaces the delivery of an earlier try.
func (t *Taken) add(i Item) {
	for n, known := range t.Items {
		if known.Same(i) {
			t.Items[n] = i
			return
		}
	}
	t.Items = append(t.Items, i)
}

// item reads a message that a consumer delivered.
func (c *Conn) item(m *nats.Msg) Item {
	i := Item{
		To: c.Handle, ID: m.Header.Get(headerID), Body: m.Data, reply: m.Reply,
		at: m.Header.Get(headerAt), signature: m.Header.Get(headerSignature),
	}
	if _, from, ok := strings.Cut(m.Subject, mailboxSubject(c.Handle, "")); ok {
		i.From = from
	}
	if at, err := time.Parse(timeLayout, i.at); err == nil {
		i.At = at
	}
	i.Stored, i.sequence = delivery(m.Reply)
	return i
}

// delivery parses the subject for the acknowledgement of a delivery. It returns when the stream
// stored the message, and its number there. Both are zero if the subject cannot be parsed.
func delivery(reply string) (stored time.Time, sequence uint64) {
	const long, short = 11, 9 // tokens, with and without the domain and account
	tokens := strings.Split(reply, ".")
	switch {
	case len(tokens) >= long:
		tokens = tokens[4:]
	case len(tokens) == short:
		tokens = tokens[2:]
	default:
		return time.Time{}, 0
	}
	// stream, consumer, deliveries, number in the stream, number in the consumer, time
	sequence, err := strconv.ParseUint(tokens[3], 10, 64)
	if err != nil {
		return time.Time{}, 0
	}
	nanoseconds, err := strconv.ParseInt(tokens[5], 10, 64)
	if err != nil {
		return time.Time{}, 0
	}
	return time.Unix(0, nanoseconds).UTC(), sequence
}

// Ack acknowledges items, and does not wait: an item whose acknowledgement is lost comes again.
func (c *Conn) Ack(ctx context.Context, items ...Item) error { return c.answer(ctx, "+ACK", items) }

// Return gives items back, so that the next pull delivers them again.
func (c *Conn) Return(ctx context.Context, items ...Item) error {
	if err := c.answer(ctx, "-NAK", items); err != nil || len(items) == 0 {
		return err
	}
	return c.do(ctx, func(ctx context.Context, l *link) error {
		if err := l.nc.FlushWithContext(ctx); err != nil {
			return connError(l.server, err)
		}
		return nil
	})
}

func (c *Conn) answer(ctx context.Context, verdict string, items []Item) error {
	return c.do(ctx, func(_ context.Context, l *link) error {
		for _, i := range items {
			if i.reply == "" {
				continue
			}
			if err := l.nc.Publish(i.reply, []byte(verdict)); err != nil {
				return connError(l.server, err)
			}
		}
		return nil
	})
}

func (c *Conn) askWaiting(f *flight) error {
	return f.ask("waiting", infoSubject(c.Handle), nil, nil)
}

// infoSubject returns the subject of a request for the state of an agent's mailbox.
func infoSubject(handle string) string {
	return "$JS.API.CONSUMER.INFO." + MailboxStream + "." + handle
}

// waiting reads the answer to askWaiting.
func (f *flight) waiting(a answer) (int, error) {
	var info struct {
		Pending    int `json:"num_pending"`
		AckPending int `json:"num_ack_pending"`
	}
	if err := f.decode(a, &info); err != nil {
		return 0, err
	}
	return info.Pending + info.AckPending, nil
}

// NudgeID returns the id of a new nudge.
func NudgeID() string { return "nudge." + rand.Text() }

// Announce puts the result of one of our turns into the stream of events, and waits until the
// server has it on disk. The server recognizes a repeat with the same time and body for an
// hour.
func (c *Conn) Announce(ctx context.Context, at time.Time, body []byte) error {
	signed := at.UTC().Format(timeLayout)
	sig, err := c.sign(ctx, taskLine(c.Handle, signed), body)
	if err != nil {
		return err
	}
	header := nats.Header{headerAt: {signed}, headerSignature: {sig}, "Nats-Msg-Id": {sig[:22]}}
	_, err = c.store(ctx, EventStream, &nats.Msg{Subject: taskSubject(c.Handle), Header: header, Data: body}, nil)
	return err
}
