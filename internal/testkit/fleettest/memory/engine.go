package memory

import (
	"slices"
	"sync"
	"time"

	"agentstateloop/fleet"
)

// Options are what an engine in memory is started with.
type Options struct {
	Users map[string]string // the public keys of agents, U…, by handle; each has the rights of fleet.Rights
	Admin string            // the public key of the administrator, who has all rights

	// Now is the engine's clock; nil: time.Now. It decides what is stored when, what comes
	// again, and what is too old.
	Now func() time.Time

	// Replicas is 1 or 3: some answers differ between one server and a cluster. 0 is 1.
	Replicas int

	// Bare leaves out the streams and mailboxes, which New makes otherwise.
	Bare bool
}

// Engine is a server, or a cluster that clients take for one. Its methods may be called
// concurrently.
type Engine struct {
	now      func() time.Time
	replicas int
	users    map[string]*user // by public key

	mu         sync.Mutex
	clients    []*client // in the order in which they came
	served     uint64    // connections so far
	streams    []*stream // in the order in which they were made
	leaderless bool
}

// New returns an engine with the streams of fleet.Assets and a mailbox for each user.
func New(o Options) *Engine {
	e := &Engine{now: o.Now, replicas: max(1, o.Replicas), users: usersOf(o)}
	if e.now == nil {
		e.now = time.Now
	}
	if o.Bare {
		return e
	}
	for _, a := range fleet.Assets(e.replicas) {
		s := e.makeStream(a.Stream)
		if a.Stream.Name != fleet.MailboxStream {
			continue
		}
		for handle := range o.Users {
			s.setConsumer(fleet.Mailbox(handle))
		}
	}
	return e
}

// Stored is a message as a stream holds it.
type Stored struct {
	Subject  string
	Header   []byte // as on the wire, from NATS/1.0 to the empty line; nil for none
	Body     []byte
	Sequence uint64
	At       time.Time // when the engine took it
}

// Messages returns what a stream holds, oldest first.
func (e *Engine) Messages(stream string) []Stored {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stream(stream)
	if s == nil {
		return nil
	}
	var all []Stored
	for _, m := range s.messages {
		all = append(all, Stored{m.subject, slices.Clone(m.header), slices.Clone(m.body), m.sequence, m.at})
	}
	return all
}

// Restart ends all connections, as a server does that is started again. What is stored
// stays, and so does what waits to be acknowledged.
func (e *Engine) Restart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.clients {
		c.conn.Close()
	}
	e.clients = nil
	for _, s := range e.streams {
		s.restart(e.replicas)
	}
}

// SetLeaderless takes the leaders of all streams and mailboxes away, or gives them back.
// Without them the engine stores and delivers nothing, and reads answer all the same.
func (e *Engine) SetLeaderless(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaderless = on
}

// stream returns a stream without what is too old by now; nil if there is none.
func (e *Engine) stream(name string) *stream {
	for _, s := range e.streams {
		if s.config.Name == name {
			s.age(e.now())
			return s
		}
	}
	return nil
}

// storing returns the stream that stores a subject; nil if there is none.
func (e *Engine) storing(subject string) *stream {
	if e.leaderless {
		return nil
	}
	for _, s := range e.streams {
		if s.stores(subject) {
			s.age(e.now())
			return s
		}
	}
	return nil
}
