package mail

import (
	"net"
	"sync"
	"time"
)

const (
	// minRate is the slowest line over which a mail comes in or leaves, in bytes a
	// second. A server that is slower than that for long is given up.
	minRate = 8 << 10

	// mailAnswer is what the answer about one mail counts for besides what is in
	// it, in bytes: a server may need a second to find each mail.
	mailAnswer = 8 << 10

	// writePiece is how much is written under one deadline, in bytes.
	writePiece = 8 << 10
)

// timeFor returns how long n bytes take on the slowest line.
func timeFor(n int64) time.Duration { return time.Duration(n) * time.Second / minRate }

// pacedConn is a connection whose deadlines are about progress. A deadline that is
// set on it begins a phase: from then on the other side may be silent until then,
// and each byte lets it be silent for as long again. All silences together are
// not longer than that time and what expect has added to it. Time in which we do
// not wait for the other side does not count.
//
// So a slow line does no harm, a silent server is found out in time, and one
// that sends a byte now and then cannot hold us for ever. TLS lies on top of it,
// because its records are long.
type pacedConn struct {
	net.Conn
	mu      sync.Mutex
	in, out pace
	paused  bool // nothing counts
}

func newPacedConn(conn net.Conn) *pacedConn {
	return &pacedConn{Conn: conn, in: pace{set: conn.SetReadDeadline}, out: pace{set: conn.SetWriteDeadline}}
}

// pace is how long the other side may still be waited for, in one direction.
type pace struct {
	set     func(deadline time.Time) error // of the connection below
	limited bool                           // false: for ever
	silence time.Duration                  // for one byte
	left    time.Duration                  // all together
	since   time.Time                      // when the wait under way began; zero if there is none
}

// apply gives the wait under way its deadline. Nothing counts while paused.
func (p *pace) apply(paused bool) {
	switch {
	case p.since.IsZero():
	case paused || !p.limited:
		p.set(time.Time{})
	default:
		p.set(p.since.Add(min(p.silence, p.left)))
	}
}

// restart forgets how long the wait under way has taken.
func (p *pace) restart() {
	if !p.since.IsZero() {
		p.since = time.Now()
	}
}

// Read reads what the other side has sent.
func (c *pacedConn) Read(p []byte) (int, error) {
	c.wait(&c.in)
	defer c.waited(&c.in)
	return c.Conn.Read(p)
}

// Write writes p in pieces. Each piece that is taken is progress.
func (c *pacedConn) Write(p []byte) (written int, err error) {
	for err == nil && len(p) > 0 {
		n := 0
		n, err = c.writeOne(p[:min(len(p), writePiece)])
		written, p = written+n, p[n:]
	}
	return written, err
}

func (c *pacedConn) writeOne(p []byte) (int, error) {
	c.wait(&c.out)
	defer c.waited(&c.out)
	return c.Conn.Write(p)
}

// wait begins to wait for the other side.
func (c *pacedConn) wait(p *pace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.since = time.Now()
	p.apply(c.paused)
}

// waited ends a wait.
func (c *pacedConn) waited(p *pace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.paused {
		p.left -= time.Since(p.since)
	}
	p.since = time.Time{}
}

// SetDeadline begins a phase in both directions. The zero time ends all limits.
func (c *pacedConn) SetDeadline(t time.Time) error {
	c.begin(t, &c.in, &c.out)
	return nil
}

// SetReadDeadline is SetDeadline for reading.
func (c *pacedConn) SetReadDeadline(t time.Time) error {
	c.begin(t, &c.in)
	return nil
}

// SetWriteDeadline is SetDeadline for writing.
func (c *pacedConn) SetWriteDeadline(t time.Time) error {
	c.begin(t, &c.out)
	return nil
}

func (c *pacedConn) begin(t time.Time, paces ...*pace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range paces {
		p.limited = !t.IsZero()
		p.silence = time.Until(t)
		p.left = p.silence
		p.restart()
		p.apply(c.paused)
	}
}

// expect lets the phase last longer, for n more bytes.
func (c *pacedConn) expect(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range []*pace{&c.in, &c.out} {
		p.left += timeFor(n)
		p.apply(c.paused)
	}
}

// pause makes that no time counts until resume: what is waited for is not the
// other side.
func (c *pacedConn) pause() { c.setPaused(true) }

// resume ends a pause.
func (c *pacedConn) resume() { c.setPaused(false) }

func (c *pacedConn) setPaused(paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = paused
	for _, p := range []*pace{&c.in, &c.out} {
		p.restart()
		p.apply(paused)
	}
}
