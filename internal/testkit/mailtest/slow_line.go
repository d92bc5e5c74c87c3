package mailtest

import (
	"net"
	"sync"
	"time"
)

// SlowLine is a line to a server that carries so many bytes a second, each way,
// for each connection. It holds back little: what it has not carried yet is still
// with the sender.
type SlowLine struct {
	Addr string // host:port, where it begins

	to   string
	rate int

	mu      sync.Mutex
	changed *sync.Cond
	carried int64 // to the clients, by all connections
	halted  bool
	haltAt  int64 // when carried has come so far, the line halts; 0: it does not
}

const (
	lineTicks  = 200      // times that it carries something in a second
	lineBursts = 5        // as often a second it can carry all that is allowed until then
	lineBuffer = 16 << 10 // bytes that a socket of the line holds, about
)

// StartSlowLine starts a line to the server at to for one test, which carries
// rate bytes a second.
func StartSlowLine(t T, to string, rate int) *SlowLine {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &SlowLine{Addr: ln.Addr().String(), to: to, rate: rate}
	l.changed = sync.NewCond(&l.mu)
	var conns sync.WaitGroup
	end := make(chan struct{})
	conns.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { l.serve(client, end) })
		}
	})
	t.Cleanup(func() {
		close(end)
		l.Resume()
		ln.Close()
		conns.Wait()
	})
	return l
}

// HaltAt makes the line carry nothing more, until Resume is called, as soon as it
// has carried about n bytes to its clients, all together. Its connections stay.
func (l *SlowLine) HaltAt(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.haltAt = n
}

// Resume ends what HaltAt began.
func (l *SlowLine) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted, l.haltAt = false, 0
	l.changed.Broadcast()
}

// Carried waits until the line has carried n bytes to its clients, all together.
func (l *SlowLine) Carried(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.carried < n {
		l.changed.Wait()
	}
}

// serve carries one connection until one side, or the test, ends it.
func (l *SlowLine) serve(client net.Conn, end <-chan struct{}) {
	defer client.Close()
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

// carry copies at the rate of the line until one side ends. A tick that comes late
// carries more.
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
