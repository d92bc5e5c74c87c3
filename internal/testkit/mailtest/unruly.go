package mailtest

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"time"
)

// Meddler changes an answer of an IMAP server on its way to the client. command is the name of
// the last command, such as FETCH. told is the answer for the client; if it is nil, the client
// gets no bytes. If end is true, the connection breaks after told.
type Meddler func(command string, a Answer) (told Answer, end bool)

// Listen serves each connection of a test in a goroutine, and returns the address. A connection ends
// when serve returns.
func Listen(t T, serve func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return ln.Addr().String()
}

// StartUnruly starts a proxy in front of an IMAP server without TLS, for one test, and returns
// its address. Several connections call meddle at the same time.
func StartUnruly(t T, server string, meddle Meddler) (addr string) {
	t.Helper()
	return Listen(t, func(client net.Conn) {
		remote, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		c := &unrulyConn{client: client, server: remote, meddle: meddle}
		go c.commands() // both end when either end of the connection does
		c.answers()
	})
}

// unrulyConn is one connection through the proxy.
type unrulyConn struct {
	client, server net.Conn
	meddle         Meddler

	mu      sync.Mutex
	command string
}

func (c *unrulyConn) close() {
	c.client.Close()
	c.server.Close()
}

func (c *unrulyConn) commands() {
	defer c.close()
	for r := bufio.NewReader(c.client); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		c.mu.Lock()
		c.command = commandOf(line)
		c.mu.Unlock()
		if _, err := c.server.Write([]byte(line)); err != nil {
			return
		}
	}
}

// commandOf returns the name of the command in a line, without "UID".
func commandOf(line string) string {
	words := append(strings.Fields(strings.ToUpper(line)), "", "", "")
	if words[1] == "UID" {
		return words[2]
	}
	return words[1]
}

func (c *unrulyConn) answers() {
	defer c.close()
	for r := bufio.NewReader(c.server); ; {
		a, err := ReadAnswer(r)
		if err != nil {
			return
		}
		c.mu.Lock()
		command := c.command
		c.mu.Unlock()
		told, end := c.meddle(command, a)
		if _, err := c.client.Write(told.Bytes()); err != nil || end {
			return
		}
	}
}

// SlowLine is a line to a server with a fixed rate in bytes per second, each way, for each
// connection. It buffers little: the sender still holds the bytes that the line has not carried
// yet.
type SlowLine struct {
	Addr string // host:port of its beginning

	to   string
	rate int

	mu      sync.Mutex
	changed *sync.Cond
	carried int64 // bytes to the clients, by all connections
	halted  bool
	haltAt  int64 // the value of carried at which the line halts; 0 if it does not halt
}

const (
	lineTicks  = 200      // transfers per second
	lineBursts = 5        // a burst carries at most 1/lineBursts of the bytes of a second
	lineBuffer = 16 << 10 // approximate bytes that a socket of the line holds
)

// StartSlowLine starts a line to the server at to for one test. It carries rate bytes per
// second.
func StartSlowLine(t T, to string, rate int) *SlowLine {
	t.Helper()
	l := &SlowLine{to: to, rate: rate}
	l.changed = sync.NewCond(&l.mu)
	end := make(chan struct{})
	l.Addr = Listen(t, func(client net.Conn) { l.serve(client, end) })
	t.Cleanup(func() {
		close(end)
		l.Resume()
	})
	return l
}

// HaltAt halts the line once it has carried about n bytes to its clients in total. It stays
// halted until Resume is called. Its connections stay open.
func (l *SlowLine) HaltAt(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.haltAt = n
}

// Resume ends the effect of HaltAt.
func (l *SlowLine) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted, l.haltAt = false, 0
	l.changed.Broadcast()
}

// Carried waits until the line has carried n bytes to its clients in total.
func (l *SlowLine) Carried(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.carried < n {
		l.changed.Wait()
	}
}

// serve carries one connection until one side, or the test, ends it.
func (l *SlowLine) serve(client net.Conn, end <-chan struct{}) {
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer server.Close()
	for _, c := range []net.Conn{client, server} {
		c.(*net.TCPConn).SetReadBuffer(lineBuffer)
	}
	over := make(chan struct{}, 2)
	go func() { l.carry(server, client, func(int) {}); over <- struct{}{} }()
	go func() { l.carry(client, server, l.count); over <- struct{}{} }()
	select {
	case <-over:
	case <-end:
	}
}

func (l *SlowLine) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.carried += int64(n)
	l.halted = l.halted || l.haltAt > 0 && l.carried >= l.haltAt
	l.changed.Broadcast()
}

// carry copies at the rate of the line until one side ends. A late tick carries more.
func (l *SlowLine) carry(to, from net.Conn, count func(int)) {
	tick := time.NewTicker(time.Second / lineTicks)
	defer tick.Stop()
	room, last := 0, time.Now()
	for now := range tick.C {
		room = min(room+int(float64(l.rate)*now.Sub(last).Seconds()), max(1, l.rate/lineBursts))
		last = now
		for room > 0 {
			piece := make([]byte, min(room, lineBuffer))
			n, err := from.Read(piece)
			l.mu.Lock()
			for l.halted {
				l.changed.Wait()
			}
			l.mu.Unlock()
			if _, failed := to.Write(piece[:n]); failed != nil || err != nil {
				return
			}
			count(n)
			room -= n
		}
	}
}
