package cycle_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"agentstateloop/internal/testkit/fleettest"
)

// An empty cycle over NATS makes two calls as well. The call to the mesh sends all its requests
// before the first answer. The connection itself costs the TCP handshake, the server's greeting
// and one round trip for the login.
func TestEmptyPollOverNATSIsOneFlight(t *testing.T) {
	h := newAwakeFixture(t)
	c := fleettest.Start(t, handle).Client(handle)
	var conns []*flightConn
	c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		f := newFlightConn(conn, 3) // a pull, HALT, and our own row in the registry
		conns = append(conns, f)
		return f, nil
	}
	h.agent.Mesh.Carrier = c
	r := h.poll()
	h.agent.Close()
	if r.Found() || len(conns) != 1 {
		t.Fatalf("found %+v over %d connections", r, len(conns))
	}
	if f := conns[0]; f.logins != 1 || f.requests != 3 || f.flights != 1 {
		t.Errorf("%d logins, and %d requests in %d flights", f.logins, f.requests, f.flights)
	}
}

// flightConn is a connection to a NATS server that counts what is asked. Once the login
// is answered it shows no answer until so many requests were made: a client that waits for
// one before would wait until its timeout.
type flightConn struct {
	net.Conn
	expected int

	mu       sync.Mutex
	changed  *sync.Cond
	line     []byte // the beginning of one that is not written to its end
	answered bool   // something was read since the last request
	closed   bool

	logins, requests, flights int
}

func newFlightConn(conn net.Conn, expected int) *flightConn {
	f := &flightConn{Conn: conn, expected: expected}
	f.changed = sync.NewCond(&f.mu)
	return f
}

func (f *flightConn) Write(p []byte) (int, error) {
	f.mu.Lock()
	f.line = append(f.line, p...)
	for {
		line, rest, whole := bytes.Cut(f.line, []byte("\r\n"))
		if !whole {
			break
		}
		f.note(line)
		f.line = rest
	}
	f.changed.Broadcast()
	f.mu.Unlock()
	return f.Conn.Write(p)
}

func (f *flightConn) note(line []byte) {
	switch verb, _, _ := bytes.Cut(line, []byte(" ")); string(verb) {
	case "CONNECT":
		f.logins++
		f.answered = true
	case "PUB", "HPUB":
		f.requests++
		if f.answered {
			f.flights++
		}
		f.answered = false
	}
}

func (f *flightConn) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.logins > 0 && f.requests < f.expected && !f.closed && !bytes.HasPrefix(p[:n], []byte("PONG")) {
		f.changed.Wait()
	}
	if f.closed {
		return 0, errors.New("closed")
	}
	f.answered = true
	return n, err
}

func (f *flightConn) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.changed.Broadcast()
	return f.Conn.Close()
}
