package mailtest

import (
	"net"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a name server on loopback with TXT records. Other names do not exist.
type DNS struct {
	Addr string // host:port, UDP

	conn net.PacketConn

	mu    sync.Mutex
	txt   map[string][]string
	fails map[string]bool
	asked []string
	hold  int      // number of queries that must wait before any is answered
	held  []func() // their answers
}

// StartDNS starts a server. Close stops it.
func StartDNS() (*DNS, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &DNS{Addr: conn.LocalAddr().String(), conn: conn, txt: map[string][]string{}, fails: map[string]bool{}}
	go d.serve() // ends with Close
	return d, nil
}

// NewDNS starts a server for one test.
func NewDNS(t T) *DNS {
	t.Helper()
	d, err := StartDNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Close stops the server.
func (d *DNS) Close() error { return d.conn.Close() }

// Set sets the TXT records of name, and ends the effect of Fail on it.
func (d *DNS) Set(name string, records ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.txt[canonical(name)] = records
	delete(d.fails, canonical(name))
}

// Fail makes the server answer SERVFAIL for name.
func (d *DNS) Fail(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails[canonical(name)] = true
}

// Hold makes the server answer the next n queries only when the last of them has come.
func (d *DNS) Hold(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = n
}

// send sends a reply once all replies held with it are ready.
func (d *DNS) send(reply []byte, to net.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = append(d.held, func() { d.conn.WriteTo(reply, to) })
	if d.hold--; d.hold > 0 {
		return
	}
	for _, send := range d.held {
		send()
	}
	d.held = nil
}

// Asked returns the queried names, in order.
func (d *DNS) Asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.asked...)
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func (d *DNS) serve() {
	buf := make([]byte, 4096)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := d.answer(buf[:n]); reply != nil {
			d.send(reply, from)
		}
	}
}

// answer returns the reply to a query, or nil if query is malformed.
func (d *DNS) answer(query []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := canonical(q.Name.String())
	d.mu.Lock()
	records, known := d.txt[name]
	fails := d.fails[name]
	d.asked = append(d.asked, name)
	d.mu.Unlock()

	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: head.ID, Response: true, RecursionDesired: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	switch {
	case fails:
		m.RCode = dnsmessage.RCodeServerFailure
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeTXT:
		for _, r := range records {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.TXTResource{TXT: pieces(r)},
			})
		}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

// pieces cuts a record into strings of at most 255 bytes (RFC 1035 section 3.3).
func pieces(s string) []string {
	var p []string
	for len(s) > 255 {
		p, s = append(p, s[:255]), s[255:]
	}
	return append(p, s)
}
