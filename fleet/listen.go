package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Ring is one ring of the doorbell. All of its fields come from its sender, or from a forger.
type Ring struct {
	From          string
	to, signature string
}

// SignedBy reports whether the key made the signature of the ring.
func (r Ring) SignedBy(public string) bool {
	return verifies(public, r.signature, ringLine(r.to, r.From), nil)
}

// Heard is the result of listening.
type Heard struct {
	Rings   []Ring
	Halt    Halt
	Waiting int // messages in our mailbox, if they were counted
}

// maxRings limits the rings that one Listen returns. More rings carry no more information.
const maxRings = 64

// maxFrom limits, in bytes, the name of a ring's sender. A handle is shorter.
const maxFrom = 256

// bell is the subscription of a connection to the doorbell and HALT. HALT has its own channel,
// so that rings cannot fill it.
type bell struct {
	rings, halt chan *nats.Msg

	mu       sync.Mutex
	counted  bool // our mailbox was counted after the subscription began
	lastHalt Halt // the last HALT that was heard or read
}

// ring returns the message that rings an agent.
func (c *Conn) ring(ctx context.Context, to string) (*nats.Msg, error) {
	sig, err := c.sign(ctx, ringLine(to, c.Handle), nil)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: wakeupSubject(to), Header: nats.Header{headerSignature: {sig}}, Data: []byte(c.Handle)}, nil
}

// Listen waits for a ring or a change of HALT, for wait at most. On a new connection, and at
// the end, it counts the messages in our mailbox, because a ring may have been lost. On a new
// connection it returns at once if the mailbox is not empty.
func (c *Conn) Listen(ctx context.Context, wait time.Duration) (Heard, error) {
	end := time.Now().Add(wait)
	l, b, err := c.linkAndBell(ctx)
	if err != nil {
		return Heard{}, err
	}
	if b == nil {
		h, err := c.Count(ctx)
		if err != nil || h.Waiting > 0 || wait <= 0 {
			return h, err
		}
		if l, b, err = c.linkAndBell(ctx); err != nil || b == nil {
			return h, err // the connection was lost again; the next call subscribes again
		}
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case m := <-b.rings:
		return c.collect(b, m), nil
	case m := <-b.halt:
		return c.collect(b, m), nil
	case <-l.lost:
		return c.Count(ctx) // on another connection
	case <-timer.C:
		return c.Count(ctx)
	case <-ctx.Done():
		return Heard{}, &Error{Err: context.Cause(ctx)}
	}
}

// linkAndBell returns the connection and its bell. The bell is nil if the mailbox was not counted
// since the subscription.
func (c *Conn) linkAndBell(ctx context.Context) (*link, *bell, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	l, err := c.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	b := l.bell
	l.mu.Unlock()
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.counted {
			b = nil
		}
	}
	return l, b, nil
}

// bell returns the bell of a connection. It subscribes if the connection does not have one.
func (c *Conn) bell(f *flight) (*bell, error) {
	l := f.link
	l.mu.Lock()
	defer l.mu.Unlock()
	f.mu.Lock()
	f.subjects = append(f.subjects, wakeupSubject(c.Handle), haltSubject)
	f.mu.Unlock()
	if l.bell != nil {
		return l.bell, nil
	}
	b := &bell{rings: make(chan *nats.Msg, maxRings), halt: make(chan *nats.Msg, maxRings)}
	for subject, channel := range map[string]chan *nats.Msg{wakeupSubject(c.Handle): b.rings, haltSubject: b.halt} {
		if _, err := l.nc.ChanSubscribe(subject, channel); err != nil {
			return nil, connError(l.server, err)
		}
	}
	l.bell = b
	return b, nil
}

// Count counts the messages in our mailbox and reads HALT. On a new connection it first
// subscribes to the doorbell and HALT, in the same round trip.
func (c *Conn) Count(ctx context.Context) (h Heard, err error) {
	err = c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		b, err := c.bell(f)
		if err != nil {
			return err
		}
		if err := c.askWaiting(f); err != nil {
			return err
		}
		if err := f.ask("halt", haltGet, nil, nil); err != nil {
			return err
		}
		for range 2 {
			a, err := f.next()
			if err != nil {
				return err
			}
			switch a.name {
			case "waiting":
				h.Waiting, err = f.waiting(a)
			case "halt":
				h.Halt, err = f.readHalt(a)
			}
			if err != nil {
				return err
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.counted, b.lastHalt = true, h.Halt
		return nil
	})
	return h, err
}

// collect collects m and the messages that have arrived by now.
func (c *Conn) collect(b *bell, m *nats.Msg) Heard {
	var h Heard
	b.mu.Lock()
	defer b.mu.Unlock()
	for left := queued; ; left-- { // a sender that rings faster than we read must not hold us here
		if m.Subject == haltSubject {
			b.lastHalt = parseHalt(m)
		} else if len(h.Rings) < maxRings {
			h.Rings = append(h.Rings, Ring{From: string(m.Data[:min(len(m.Data), maxFrom)]), to: c.Handle, signature: m.Header.Get(headerSignature)})
		}
		if left == 1 {
			break // the next call reads the rest
		}
		if m = b.next(); m == nil {
			break
		}
	}
	h.Halt = b.lastHalt
	return h
}

// next returns a message that has arrived, or nil.
func (b *bell) next() *nats.Msg {
	select {
	case m := <-b.halt:
		return m
	default:
	}
	select {
	case m := <-b.rings:
		return m
	default:
		return nil
	}
}

// Ring rings an agent, and does not wait.
func (c *Conn) Ring(ctx context.Context, to string) error {
	m, err := c.ring(ctx, to)
	if err != nil {
		return err
	}
	return c.do(ctx, func(_ context.Context, l *link) error {
		if err := l.nc.PublishMsg(m); err != nil {
			return connError(l.server, err)
		}
		return nil
	})
}
