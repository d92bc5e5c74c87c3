// Package memcarrier is a mesh in memory. Its carriers keep the promises of a mesh over NATS, by
// a clock that the test sets. The tests of mesh/natsmesh run one table against it and the real
// nats-server.
package memcarrier

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/mesh"
)

const (
	ackWait   = time.Minute      // after which a message that was not acknowledged comes again
	perSender = 100              // messages of one sender in a mailbox
	window    = time.Hour        // within which the mesh knows a repeat
	onlineFor = 35 * time.Minute // after an agent was last seen

	unproven  = "unproven."  // begins the id of a message without a valid signature
	undecoded = "undecoded." // begins the id of a payload that is not a message
)

// Mesh holds the mailboxes, files, registry and HALT of all agents. Its methods may be called
// concurrently.
type Mesh struct {
	now     func() time.Time
	mu      sync.Mutex
	boxes   map[string][]*letter // by recipient, oldest first
	repeats map[string]time.Time // when a message or task was first stored, by its digest
	halt    mesh.Mailbox         // Halted and HaltUnproven
	rows    map[string]mesh.Presence
	tasks   []Task
	files   map[fileKey]file
	changed chan struct{} // closed when a message is sent or HALT changes
}

// New returns an empty mesh with a clock.
func New(now func() time.Time) *Mesh {
	return &Mesh{
		now: now, boxes: map[string][]*letter{}, repeats: map[string]time.Time{}, rows: map[string]mesh.Presence{},
		files: map[fileKey]file{}, changed: make(chan struct{}),
	}
}

type fileKey struct{ to, from, sum string }

type file struct {
	content []byte
	stored  time.Time
}

// Letter is a message for a mailbox, as its sender, or a forger, wrote it.
type Letter struct {
	To, From string
	ID       string
	At       time.Time // when it was signed
	Body     []byte    // the message as JSON
	Proven   bool      // its signature proves the sender
	Once     bool      // the mesh knows a repeat for an hour
}

// Task is the end of a turn that an agent announced.
type Task struct {
	mesh.Task
	Stored time.Time
}

// letter is a letter in a mailbox.
type letter struct {
	Letter
	message mesh.Message // as the recipient sees it
	broken  string       // why the body is not a message
	stored  time.Time
	taken   time.Time // when a poll last got it; zero while it waits
}

// Put stores a letter, unless it repeats one with Once. It returns the id under which the recipient
// sees the letter, and an *mesh.Error if the sender's part of the mailbox is full.
func (m *Mesh) Put(l Letter) (id string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(l)
}

func (m *Mesh) put(l Letter) (id string, err error) {
	added := &letter{Letter: l, stored: m.now().UTC()}
	added.read()
	id = added.message.ID
	key := digest(l.To, l.From, l.ID, l.At.String(), string(l.Body))
	if l.Once && m.known(key) {
		return id, nil
	}
	count := 0
	for _, other := range m.boxes[l.To] {
		if other.From == l.From {
			count++
		}
	}
	if count >= perSender {
		return "", &mesh.Error{Op: mesh.SendOp(l.To), Code: http.StatusServiceUnavailable, RetryAfter: time.Minute, Err: fmt.Errorf("the mailbox of %s is full", l.To)}
	}
	m.repeats[key] = added.stored
	m.boxes[l.To] = append(m.boxes[l.To], added)
	return id, nil
}

// known reports whether a message or task with this digest was stored within the last hour.
func (m *Mesh) known(digest string) bool {
	first, known := m.repeats[digest]
	return known && m.now().Sub(first) < window
}

// read decodes the body of the letter.
func (l *letter) read() {
	sum := digest(l.From, l.ID, string(l.Body))
	decoded, err := mesh.Decode(l.Body)
	if err != nil {
		l.broken, l.message.ID, l.message.AckID = err.Error(), undecoded+sum, undecoded+sum
		return
	}
	decoded.Proven = l.Proven && decoded.From == l.From && decoded.ID == l.ID
	if !decoded.Proven {
		if decoded.Correlation == "" {
			decoded.Correlation = decoded.ID
		}
		decoded.ID, decoded.From = unproven+sum, l.From
	}
	decoded.To, decoded.SentAt, decoded.AckID = l.To, l.stored, decoded.From+"/"+decoded.ID
	l.message = decoded
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Waiting returns the letters in a mailbox, oldest first.
func (m *Mesh) Waiting(handle string) (waiting []Letter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.boxes[handle] {
		waiting = append(waiting, l.Letter)
	}
	return waiting
}

// Drain empties a mailbox, as an agent does that acknowledges all messages.
func (m *Mesh) Drain(handle string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.boxes, handle)
}

// SetHalt sets or lifts the HALT of the mesh. Agents ignore a GO that is not proven. A HALT needs
// no proof.
func (m *Mesh) SetHalt(on, proven bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setHalt(on, proven)
}

func (m *Mesh) setHalt(on, proven bool) {
	m.halt = mesh.Mailbox{Halted: on, HaltUnproven: !on && !proven}
	m.ring()
}

// ring wakes every listener.
func (m *Mesh) ring() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Tasks returns the announced tasks, oldest first.
func (m *Mesh) Tasks() []Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tasks)
}

// looked records that an agent looked for work.
func (m *Mesh) looked(handle string) {
	row, known := m.rows[handle]
	if !known {
		row = mesh.Presence{Handle: handle, Callsign: "@" + handle}
	}
	row.SeenAt = m.now()
	m.rows[handle] = row
}

// seen returns the agents of the registry by handle. One that was not seen for 35 minutes is
// away.
func (m *Mesh) seen() (seen []mesh.Presence) {
	for _, row := range m.rows {
		row.Away = m.now().Sub(row.SeenAt) >= onlineFor
		seen = append(seen, row)
	}
	slices.SortFunc(seen, func(a, b mesh.Presence) int { return strings.Compare(a.Handle, b.Handle) })
	return seen
}

func online(seen []mesh.Presence) []mesh.Presence {
	return slices.DeleteFunc(seen, func(p mesh.Presence) bool { return p.Away })
}
