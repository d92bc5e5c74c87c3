package simulator

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// slot holds the proxies of one process at a time. When the process ends, its
// connections break, and no others.
type slot struct {
	world   *World
	proxies map[string]*proxy

	mu   sync.Mutex
	user *process
	open map[*link]bool
}

// proxy forwards connections to one server. Every command that passes through it is
// a point of the process that uses it.
type proxy struct {
	slot     *slot
	protocol string // imap, smtp or http
	listener net.Listener
	server   *inlet
}

func (w *World) newSlot() (*slot, error) {
	s := &slot{world: w, proxies: map[string]*proxy{}, open: map[*link]bool{}}
	for protocol, server := range w.inlets {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		wire := &proxy{slot: s, protocol: protocol, listener: l, server: server}
		s.proxies[protocol] = wire
		go wire.accept() // ends with close
	}
	return s, nil
}

func (s *slot) close() {
	for _, w := range s.proxies {
		w.listener.Close()
	}
	s.cut()
}

func (s *slot) addr(protocol string) string { return s.proxies[protocol].listener.Addr().String() }

func (s *slot) enter(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user = p
}

// leave breaks the connections of a process that has ended, as the kernel does.
func (s *slot) leave() {
	s.mu.Lock()
	s.user = nil
	s.mu.Unlock()
	s.cut()
}

// cut breaks every connection.
func (s *slot) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.open {
		l.cut()
	}
	clear(s.open)
}

func (w *proxy) accept() {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.slot.mu.Lock()
		p := w.slot.user
		if p == nil || p.isDead() || w.slot.world.down(w.protocol) {
			w.slot.mu.Unlock()
			hangUp(c)
			w.slot.world.troubled(channel(w.protocol))
			continue
		}
		l := &link{proxy: w, process: p, client: c, server: w.server.connect(c)}
		w.slot.open[l] = true
		w.slot.mu.Unlock()
		p.world.record.connected(channel(w.protocol))
		go l.answers()
		go l.commands()
	}
}

// channel returns the channel that a protocol carries: "mesh", or its own name.
func channel(protocol string) string {
	if protocol == "http" {
		return "mesh"
	}
	return protocol
}

// link is one connection through a proxy.
type link struct {
	proxy   *proxy
	process *process
	client  net.Conn
	server  net.Conn

	mu       sync.Mutex
	fate     verdict // the fault that strikes the next answer
	data     bool    // SMTP: the body of a mail is being sent
	fetching string  // IMAP: FETCH, SEARCH or SELECT, while it is being answered
	denies   string  // IMAP: NO or BAD, with which that answer ends
}

func (l *link) cut() {
	hangUp(l.client)
	l.server.Close()
}

// hangUp closes a connection with a reset, so it leaves no TIME_WAIT in the kernel.
func hangUp(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// commands forwards the commands of the client.
func (l *link) commands() {
	defer l.cut()
	from := bufio.NewReaderSize(l.client, 64<<10)
	for {
		chunk, err := l.next(from)
		if len(chunk) > 0 && !l.command(chunk) {
			return
		}
		if err != nil {
			return
		}
	}
}

// next returns a line of IMAP or SMTP, or the available bytes of HTTP.
func (l *link) next(from *bufio.Reader) ([]byte, error) {
	if l.proxy.protocol != "http" {
		return from.ReadBytes('\n')
	}
	buf := make([]byte, 64<<10)
	n, err := from.Read(buf)
	return buf[:n], err
}

// command forwards one command, unless a fault strikes it. It reports whether the
// connection goes on.
func (l *link) command(chunk []byte) bool {
	lane, site := l.site(chunk)
	if site != "" {
		switch v := l.process.point(lane, site); v {
		case dead:
			return false
		case refused:
			return l.refuse(site)
		case cutOff:
			l.server.Write(chunk[:len(chunk)/2])
			return false
		case lost, half, lostAll, twice:
			l.mu.Lock()
			l.fate = v
			l.mu.Unlock()
		case stalled:
			io.Copy(io.Discard, l.client) // until the client times out
			return false
		}
	}
	_, err := l.server.Write(chunk)
	return err == nil
}

// refuse answers in place of the server if possible. It reports whether the
// connection goes on.
func (l *link) refuse(site string) bool {
	switch site {
	case "smtp MAIL", "smtp RCPT", "smtp DATA":
		l.data = false
		l.client.Write([]byte("451 4.3.0 not now\r\n"))
		return true
	}
	if l.proxy.protocol == "http" {
		fmt.Fprintf(l.client, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}
	return false
}

// answers forwards the answers of the server.
func (l *link) answers() {
	defer l.cut()
	from := bufio.NewReaderSize(l.server, 64<<10)
	for {
		chunk, end := l.nextAnswer(from)
		if len(chunk) > 0 && !l.answer(chunk) || end {
			return
		}
	}
}

// answer forwards one answer, unless a fault strikes it. It reports whether the connection goes on.
func (l *link) answer(chunk []byte) bool {
	l.mu.Lock()
	fate := l.fate
	if fate == twice {
		l.fate = goOn
	}
	l.mu.Unlock()
	switch fate {
	case lostAll:
		l.process.die()
		return false
	case lost:
		return false
	case half:
		l.client.Write(chunk[:len(chunk)/2])
		return false
	case twice:
		chunk = bytes.Repeat(chunk, 2)
	default:
		if name, refused := refusedBy(l.proxy.protocol, chunk); refused {
			l.process.refuse(name)
		}
	}
	_, err := l.client.Write(chunk)
	return err == nil
}

// nextAnswer returns the next bytes of the server, or, of IMAP, its next answers. end is set at the
// end of the connection.
func (l *link) nextAnswer(from *bufio.Reader) (seen []byte, end bool) {
	if l.proxy.protocol == "imap" {
		return l.nextAnswers(from)
	}
	buf := make([]byte, 64<<10)
	n, err := from.Read(buf)
	return buf[:n], err != nil
}

// site returns the name of a command, or "" if chunk is not one.
func (l *link) site(chunk []byte) (Lane, string) {
	line, _, _ := bytes.Cut(chunk, []byte("\r\n"))
	words := strings.Fields(string(line))
	switch l.proxy.protocol {
	case "imap":
		return l.imapSite(words)
	case "smtp":
		return Main, l.smtpSite(words)
	}
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/") {
		return Main, ""
	}
	name := strings.Split(words[1], "/")[1]
	if words[0] == "GET" {
		return ByMesh, "mesh GET " + name
	}
	return Main, "mesh " + words[0] + " " + name
}

func (l *link) imapSite(words []string) (Lane, string) {
	if len(words) < 2 {
		return ByMail, ""
	}
	name := strings.ToUpper(words[1])
	if name == "UID" && len(words) > 2 {
		name = strings.ToUpper(words[2])
	}
	l.asked(words)
	switch name {
	case "STORE":
		l.process.world.record.checkSeenFlag(words)
		return Main, "imap STORE"
	case "LOGOUT":
		return Main, ""
	case "SEARCH":
		l.process.world.record.reading(words)
	case "FETCH":
		l.process.world.record.reading(words)
		if !strings.Contains(strings.Join(words, " "), "HEADER.FIELDS") {
			return ByMail, "imap FETCH body"
		}
		return ByMail, "imap FETCH headers"
	}
	return ByMail, "imap " + name
}

func (l *link) smtpSite(words []string) string {
	if l.data {
		if len(words) == 1 && words[0] == "." {
			l.data = false
			return "smtp dot"
		}
		return ""
	}
	if len(words) == 0 {
		return ""
	}
	switch name := strings.ToUpper(words[0]); name {
	case "DATA":
		l.data = true
		return "smtp DATA"
	case "EHLO", "AUTH", "MAIL", "RCPT":
		return "smtp " + name
	}
	return ""
}

// inlet is a listener without a port. The proxies hand connections to it.
type inlet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newInlet() *inlet { return &inlet{conns: make(chan net.Conn), done: make(chan struct{})} }

// connect opens a connection to the server for client, and returns our end.
func (i *inlet) connect(client net.Conn) net.Conn {
	ours, theirs := net.Pipe()
	select {
	case i.conns <- piped{theirs, client.RemoteAddr(), client.LocalAddr()}:
	case <-i.done:
		theirs.Close()
	}
	return ours
}

func (i *inlet) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.done:
		return nil, net.ErrClosed
	}
}

func (i *inlet) Close() error {
	i.once.Do(func() { close(i.done) })
	return nil
}

func (i *inlet) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// piped is a pipe with the addresses of the real connection.
type piped struct {
	net.Conn
	remote, local net.Addr
}

func (p piped) RemoteAddr() net.Addr { return p.remote }
func (p piped) LocalAddr() net.Addr  { return p.local }
