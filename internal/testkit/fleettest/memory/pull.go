package memory

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// pull is a request for the next messages of a consumer.
type pull struct {
	asked   message
	batch   int // messages that it still takes
	bytes   int // likewise, if limited
	limited bool
	noWait  bool
	expires time.Duration
	came    bool // some messages came
	timer   *time.Timer
}

func (p *pull) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// left says what of a pull was not used.
func (p *pull) left(code int, text string) message {
	return status(code, text, "Nats-Pending-Messages", strconv.Itoa(p.batch), "Nats-Pending-Bytes", strconv.Itoa(p.bytes))
}

// pull begins a pull.
func (e *Engine) pull(c *consumer, m message) {
	if m.reply == "" {
		return
	}
	var r struct {
		Batch   int           `json:"batch"`
		Bytes   int           `json:"max_bytes"`
		NoWait  bool          `json:"no_wait"`
		Expires time.Duration `json:"expires"`
	}
	if body := bytes.TrimSpace(m.body); len(body) > 0 {
		if err := json.Unmarshal(body, &r); err != nil {
			e.answer(m, status(400, "Bad Request - "+err.Error()))
			return
		}
	}
	c.expire(e.now())
	if r.NoWait && r.Expires == 0 && c.undelivered()+len(c.again) == 0 {
		e.answer(m, status(404, "No Messages"))
		return
	}
	p := &pull{asked: m, batch: max(1, r.Batch), bytes: r.Bytes, limited: r.Bytes > 0, noWait: r.NoWait, expires: r.Expires}
	c.waiting = append(c.waiting, p)
	e.serveConsumer(c)
	if r.Expires > 0 && slices.Contains(c.waiting, p) {
		p.timer = time.AfterFunc(r.Expires, func() { e.pullExpires(c, p) })
	}
}

func (e *Engine) pullExpires(c *consumer, p *pull) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(c.waiting, p) {
		c.drop(p)
		e.answer(p.asked, p.left(408, "Request Timeout"))
	}
}

func (c *consumer) drop(p *pull) {
	p.stop()
	c.waiting = slices.DeleteFunc(c.waiting, func(other *pull) bool { return other == p })
}

// serveConsumer delivers what the pulls of a consumer wait for. In a cluster a delivery goes
// out once the servers agree on it, and a status at once, before it.
func (e *Engine) serveConsumer(c *consumer) {
	if e.leaderless {
		return
	}
	c.expire(e.now())
	var later []func()
	defer func() {
		for _, send := range later {
			send()
		}
	}()
	for len(c.waiting) > 0 {
		m, deliveries := c.take()
		if m == nil {
			later = append(later, e.nothingMore(c)...)
			return
		}
		left := c.undelivered()
		if deliveries == 1 {
			left--
		}
		out := message{subject: m.subject, header: m.header, body: m.body}
		out.reply = c.ackSubject(m, int(c.delivered)+1, deliveries, left)
		p := e.whoTakes(c, len(out.subject)+len(out.reply)+len(out.header)+len(out.body))
		if p == nil {
			return
		}
		c.delivers(m, e.now())
		p.came = true
		if e.replicas == 1 {
			e.deliver(p.asked, out)
		} else {
			later = append(later, func() { e.deliver(p.asked, out) })
		}
		if p.batch == 0 && p.bytes > 0 {
			e.answer(p.asked, p.left(409, "Batch Completed"))
		}
	}
}

// whoTakes returns the pull that gets the next message, of that size; nil if none is left.
func (e *Engine) whoTakes(c *consumer, size int) *pull {
	for len(c.waiting) > 0 {
		p := c.waiting[0]
		switch {
		case !e.interested(p.asked):
			c.drop(p)
			continue
		case p.limited && size > p.bytes:
			c.drop(p)
			e.answer(p.asked, p.left(409, "Message Size Exceeds MaxBytes"))
			continue
		case p.limited:
			if p.bytes -= size; p.bytes == 0 {
				p.batch = 1
			}
		}
		// The others have their turn first.
		p.batch--
		c.waiting = c.waiting[1:]
		if p.batch > 0 {
			c.waiting = append(c.waiting, p)
		} else {
			p.stop()
		}
		return p
	}
	return nil
}

// nothingMore ends the pulls that do not wait. What it returns is to be sent behind what
// is delivered.
func (e *Engine) nothingMore(c *consumer) (later []func()) {
	for _, p := range slices.Clone(c.waiting) {
		if !p.noWait || p.expires > 0 && !p.came {
			continue
		}
		c.drop(p)
		end := status(404, "No Messages")
		if e.replicas > 1 && p.came {
			end = p.left(408, "Request Timeout")
		}
		later = append(later, func() { e.answer(p.asked, end) })
	}
	return later
}
