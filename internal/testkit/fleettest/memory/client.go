package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	maxPayload = 1 << 20 // of one message with its headers
	maxLine    = 4 << 10 // of a command

	// goodbye is how long a client that is sent away may take to read why.
	goodbye = time.Second
)

// client is one connection.
type client struct {
	conn  net.Conn
	nonce string

	// Guarded by the engine.
	user          *user // nil until it connected
	verbose       bool
	noResponders  bool // it wants to know when nobody is there to answer
	subscriptions []*subscription

	out outbox
}

type subscription struct {
	subject, id string
	left        int // messages until it ends; -1: any number
}

// Serve speaks with one client until its connection ends, and closes it.
func (e *Engine) Serve(conn net.Conn) {
	c := &client{conn: conn}
	c.out.filled = sync.NewCond(&c.out.mu)
	e.greet(c)
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.out.writeTo(conn)
	}()
	e.listen(c)
	e.leave(c)
	_ = conn.SetWriteDeadline(time.Now().Add(goodbye)) // it fails on a connection that is closed
	c.out.end()
	<-written
	conn.Close()
}

func (e *Engine) greet(c *client) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.served++
	c.nonce = "memory" + strconv.FormatUint(e.served, 10)
	info, _ := json.Marshal(map[string]any{ // of strings, numbers and booleans
		"server_id": "MEMORY", "server_name": "memory", "version": "2.15.2", "go": "go", "host": "127.0.0.1", "port": 4222,
		"headers": true, "auth_required": true, "max_payload": maxPayload, "proto": 1, "client_id": e.served, "nonce": c.nonce, "jetstream": true,
	})
	c.out.add([]byte("INFO "), info, []byte(lineEnd))
	e.clients = append(e.clients, c)
}

func (e *Engine) leave(c *client) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, other := range e.clients {
		if other == c {
			e.clients = append(e.clients[:i:i], e.clients[i+1:]...)
			return
		}
	}
}

func (c *client) refuse(text string) { c.out.add([]byte("-ERR '" + text + "'" + lineEnd)) }

// deliver sends a message to the subscriptions that match where it goes, and reports
// whether there was one.
func (c *client) deliver(to string, m message) bool {
	delivered := false
	for _, s := range c.subscriptions {
		if !matches(s.subject, to) {
			continue
		}
		delivered = true
		c.send(s.id, m)
		if s.left > 0 {
			if s.left--; s.left == 0 {
				c.unsubscribe(s.id)
			}
		}
	}
	return delivered
}

func (c *client) send(id string, m message) {
	address := m.subject + " " + id + " "
	if m.reply != "" {
		address += m.reply + " "
	}
	end := []byte(lineEnd)
	if len(m.header) == 0 {
		c.out.add(fmt.Appendf(nil, "MSG %s%d\r\n", address, len(m.body)), m.body, end)
		return
	}
	c.out.add(fmt.Appendf(nil, "HMSG %s%d %d\r\n", address, len(m.header), len(m.header)+len(m.body)), m.header, m.body, end)
}

// subscription returns the subscription that a subject reaches; nil if there is none.
func (c *client) subscription(subject string) *subscription {
	for _, s := range c.subscriptions {
		if matches(s.subject, subject) {
			return s
		}
	}
	return nil
}

func (c *client) unsubscribe(id string) {
	var left []*subscription
	for _, s := range c.subscriptions {
		if s.id != id {
			left = append(left, s)
		}
	}
	c.subscriptions = left
}

// outbox is what waits to be written to a client. Nobody waits for a client that does not
// read.
type outbox struct {
	mu     sync.Mutex
	filled *sync.Cond
	data   []byte
	ended  bool
}

func (o *outbox) add(parts ...[]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.data = append(o.data, bytes.Join(parts, nil)...)
		o.filled.Signal()
	}
}

func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.filled.Signal()
}

// writeTo writes what is added, until it ends or the connection does.
func (o *outbox) writeTo(conn net.Conn) {
	for {
		o.mu.Lock()
		for len(o.data) == 0 && !o.ended {
			o.filled.Wait()
		}
		data := o.data
		o.data = nil
		o.mu.Unlock()
		if len(data) == 0 {
			return
		}
		if _, err := conn.Write(data); err != nil {
			conn.Close()
			return
		}
	}
}
