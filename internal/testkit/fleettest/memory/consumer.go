package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/fleet"
)

// consumer delivers the messages of one subject of a stream to those who pull them, each
// until it is acknowledged.
type consumer struct {
	stream  *stream
	config  fleet.Consumer
	created time.Time

	next      uint64 // the number from which on messages were not delivered
	delivered uint64 // deliveries so far
	pending   map[uint64]*pending
	again     []uint64 // numbers that are to be delivered again, in this order
	waiting   []*pull
}

// pending is a message that was delivered and is not acknowledged.
type pending struct {
	at         time.Time // of its last delivery
	first      uint64    // the number of its first delivery
	deliveries int
}

// setConsumer makes a consumer, or changes its configuration.
func (s *stream) setConsumer(config fleet.Consumer) *consumer {
	if c := s.consumer(config.Durable); c != nil {
		c.config = config
		return c
	}
	c := &consumer{stream: s, config: config, created: s.created, next: 1, pending: map[uint64]*pending{}}
	s.consumers = append(s.consumers, c)
	slices.SortFunc(s.consumers, func(a, b *consumer) int { return cmp.Compare(a.config.Durable, b.config.Durable) })
	return c
}

func (s *stream) consumer(name string) *consumer {
	for _, c := range s.consumers {
		if c.config.Durable == name {
			return c
		}
	}
	return nil
}

// restart forgets who waits, and what was to come again at once.
func (c *consumer) restart() {
	for _, p := range c.waiting {
		p.stop()
	}
	c.waiting, c.again = nil, nil
}

// undelivered returns how many messages were not delivered yet.
func (c *consumer) undelivered() int { return c.stream.count(c.config.Filter, c.next) }

// expire queues what was delivered long ago and not acknowledged.
func (c *consumer) expire(now time.Time) {
	var late []uint64
	for sequence, p := range c.pending {
		if !now.Before(p.at.Add(c.config.AckWait)) && !slices.Contains(c.again, sequence) {
			late = append(late, sequence)
		}
	}
	slices.Sort(late)
	c.again = append(c.again, late...)
}

// take returns the next message to be delivered, as the how manieth delivery of it; nil if
// there is none.
func (c *consumer) take() (m *stored, deliveries int) {
	for len(c.again) > 0 {
		sequence := c.again[0]
		at, found := c.stream.find(sequence)
		if found {
			return c.stream.messages[at], c.pending[sequence].deliveries + 1
		}
		c.again = c.again[1:]
		delete(c.pending, sequence)
	}
	m = c.stream.next(c.config.Filter, c.next)
	if m == nil {
		c.next = c.stream.last + 1 // all that is there is somebody else's
	}
	return m, 1
}

// delivers notes that a message is delivered.
func (c *consumer) delivers(m *stored, now time.Time) *pending {
	c.delivered++
	p := c.pending[m.sequence]
	if p == nil {
		p = &pending{first: c.delivered}
		c.pending[m.sequence] = p
		c.next = m.sequence + 1
	} else {
		c.again = slices.DeleteFunc(c.again, func(n uint64) bool { return n == m.sequence })
	}
	p.at = now
	p.deliveries++
	return p
}

// ackSubject is where a delivery is acknowledged.
func (c *consumer) ackSubject(m *stored, delivery, deliveries, left int) string {
	return fmt.Sprintf("$JS.ACK.%s.%s.%d.%d.%d.%d.%d", c.stream.config.Name, c.config.Durable, deliveries, m.sequence, delivery, m.at.UnixNano(), left)
}

// acknowledge handles what came to such a subject.
func (c *consumer) acknowledge(subject string, m message) {
	const position = 5 // of the message's number
	sequence, err := strconv.ParseUint(strings.Split(subject, ".")[position], 10, 64)
	if err != nil {
		return
	}
	switch verdict := string(m.body); {
	case verdict == "", verdict == "+ACK", verdict == "+OK":
		c.acknowledged(sequence)
	case strings.HasPrefix(verdict, "-NAK"):
		if c.pending[sequence] != nil && !slices.Contains(c.again, sequence) {
			c.again = append(c.again, sequence)
		}
	}
}

// acknowledged removes a message that was delivered, unless another consumer needs it.
func (c *consumer) acknowledged(sequence uint64) {
	if sequence >= c.next {
		return
	}
	delete(c.pending, sequence)
	c.again = slices.DeleteFunc(c.again, func(n uint64) bool { return n == sequence })
	at, found := c.stream.find(sequence)
	if !found {
		return
	}
	m := c.stream.messages[at]
	if !slices.ContainsFunc(c.stream.consumers, func(c *consumer) bool { return c.needs(m) }) {
		c.stream.remove(m)
	}
}

func (c *consumer) needs(m *stored) bool {
	return matches(c.config.Filter, m.subject) && (m.sequence >= c.next || c.pending[m.sequence] != nil)
}
