package mail

import (
	"bytes"
	"fmt"
	"net"
	"sync/atomic"
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
	return fmt.Sprintf("the server answered with more than %d bytes where a few lines were expected", maxAnswer)
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
