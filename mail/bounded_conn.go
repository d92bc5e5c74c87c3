package mail

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxAnswer limits the bytes that a server may send in one network phase, not counting the
	// requested mails. The libraries keep the parsed data in memory, some of it several times
	// as large.
	maxAnswer = 64 << 10

	// parenthesis is the number of bytes that an opening parenthesis counts for. go-imap calls
	// itself for each one, and its final error names every call: the time for that grows with
	// the square of their number.
	parenthesis = 64
)

// cost returns the number of bytes that p counts for.
func cost(p []byte) int64 { return int64(len(p) + (parenthesis-1)*bytes.Count(p, []byte{'('})) }

// answerError is the error for a server that exceeds its allowance.
type answerError struct{}

func (answerError) Error() string {
	return fmt.Sprintf("the server's answer exceeds %d bytes; expected a few lines", maxAnswer)
}

// boundedConn is a connection to a server that may never stop sending. Each byte read counts
// against the server's allowance until the next phase. The reader of a mail gives back the cost
// of its bytes with allow.
//
// The library that reads a boundedConn hides its error in one of its own. failure recovers it.
type boundedConn struct {
	net.Conn            // paced, or TLS on top of it
	paced    *pacedConn // keeps the deadlines
	left     atomic.Int64
	exceeded atomic.Bool
}

func newBoundedConn(conn net.Conn, paced *pacedConn) *boundedConn {
	c := &boundedConn{Conn: conn, paced: paced}
	c.refill()
	return c
}

// refill begins a phase, or the answer about the next mail, with a full allowance.
func (c *boundedConn) refill() { c.left.Store(maxAnswer) }

// nextMail begins the answer about the next of several mails.
func (c *boundedConn) nextMail() {
	c.refill()
	c.paced.expect(mailAnswer)
}

// allow adds n bytes to the server's allowance in this phase.
func (c *boundedConn) allow(n int64) { c.left.Add(n) }

// Read reads from the server.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left.Load() <= 0 {
		c.exceeded.Store(true)
		return 0, answerError{}
	}
	n, err := c.Conn.Read(p)
	c.left.Add(-cost(p[:n]))
	return n, err
}

// failure returns the cause of err, an error of a library that reads c.
func (c *boundedConn) failure(err error) error {
	if err != nil && c.exceeded.Load() {
		return answerError{}
	}
	return err
}

const (
	// minRate is the slowest acceptable rate of a mail, in bytes per second. A server that
	// stays below it is given up.
	minRate = 8 << 10

	// mailAnswer is the number of bytes that the answer about one mail counts for, besides its
	// content: a server may need a second to find each mail.
	mailAnswer = 8 << 10

	// writePiece is the number of bytes written under one deadline.
	writePiece = 8 << 10
)

// timeFor returns how long n bytes take at minRate.
func timeFor(n int64) time.Duration { return time.Duration(n) * time.Second / minRate }

// pacedConn is a connection whose deadlines are about progress. Setting a deadline begins a
// phase. Until the deadline the other side may be silent, and each byte allows another silence
// of that duration. All silences together may not exceed that duration plus the time added by
// expect. Time in which we do not wait for the other side does not count.
//
// So a slow line does no harm, a silent server is detected in time, and a server that sends a
// byte now and then cannot hold us forever. TLS runs on top of it, because its records are
// long.
type pacedConn struct {
	net.Conn
	mu      sync.Mutex
	in, out pace
	paused  bool // time does not count
}

func newPacedConn(conn net.Conn) *pacedConn {
	return &pacedConn{Conn: conn, in: pace{set: conn.SetReadDeadline}, out: pace{set: conn.SetWriteDeadline}}
}

// pace is the remaining time to wait for the other side, in one direction.
type pace struct {
	set     func(deadline time.Time) error // of the underlying connection
	limited bool                           // false means no limit
	silence time.Duration                  // for one byte
	left    time.Duration                  // in total
	since   time.Time                      // when the current wait began; zero while not waiting
}

// apply sets the deadline of the current wait. A paused wait has no deadline.
func (p *pace) apply(paused bool) {
	switch {
	case p.since.IsZero():
	case paused || !p.limited:
		p.set(time.Time{})
	default:
		p.set(p.since.Add(min(p.silence, p.left)))
	}
}

// restart resets the elapsed time of the current wait.
func (p *pace) restart() {
	if !p.since.IsZero() {
		p.since = time.Now()
	}
}

// Read reads from the other side.
func (c *pacedConn) Read(p []byte) (int, error) {
	c.wait(&c.in)
	defer c.waited(&c.in)
	return c.Conn.Read(p)
}

// Write writes p in pieces. Each accepted piece is progress.
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

// wait begins a wait for the other side.
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

// SetDeadline begins a phase in both directions. The zero time removes all limits.
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

// expect extends the phase for n more bytes.
func (c *pacedConn) expect(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range []*pace{&c.in, &c.out} {
		p.left += timeFor(n)
		p.apply(c.paused)
	}
}

// pause stops the clock until resume, while we wait for something other than the other side.
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
