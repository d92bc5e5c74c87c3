package mail

import (
	"bytes"
	"fmt"
	"net"
	"sync/atomic"
)

const (
	// maxAnswer is what a server may send in one network phase, in bytes, without
	// the mails that were asked for. The libraries keep what they parse in memory,
	// some of it several times as large.
	maxAnswer = 64 << 10

	// parenthesis is how many bytes an opening parenthesis counts for. go-imap
	// calls itself for each, and at the end makes an error that names every call:
	// the time of that grows with the square of their number.
	parenthesis = 64
)

// cost returns for how many bytes p counts.
func cost(p []byte) int64 { return int64(len(p) + (parenthesis-1)*bytes.Count(p, []byte{'('})) }

// answerError is the error for a server that sends more than it may.
type answerError struct{}

func (answerError) Error() string {
	return fmt.Sprintf("the server answered with more than %d bytes where a few lines were expected", maxAnswer)
}

// boundedConn is a connection to a server that is not trusted to come to an
// end. Each byte that is read counts against what the server may send until the
// next phase. The reader of a mail gives back their cost with allow.
//
// The library that reads a boundedConn hides its error in one of its own, so
// failure tells the two apart.
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

// refill begins a phase, or the answer about the next mail.
func (c *boundedConn) refill() { c.left.Store(maxAnswer) }

// nextMail begins the answer about one of many mails.
func (c *boundedConn) nextMail() {
	c.refill()
	c.paced.expect(mailAnswer)
}

// allow adds n bytes to what the server may send in this phase.
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

// failure returns the reason for err, the error of a library that reads c.
func (c *boundedConn) failure(err error) error {
	if err != nil && c.exceeded.Load() {
		return answerError{}
	}
	return err
}
