package mailtest

import (
	"bufio"
	"net"
	"strings"
	"sync"
)

// Meddler changes an answer of an IMAP server on its way to the client. command is the name of
// the last command, such as FETCH. told is the answer for the client; if it is nil, the client
// gets no bytes. If end is true, the connection breaks after told.
type Meddler func(command string, a Answer) (told Answer, end bool)

// StartUnruly starts a proxy in front of an IMAP server without TLS, for one test, and returns
// its address. Several connections call meddle at the same time.
func StartUnruly(t T, server string, meddle Meddler) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			remote, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			c := &unrulyConn{client: client, server: remote, meddle: meddle}
			go c.commands() // both end when either end of the connection does
			go c.answers()
		}
	}()
	return ln.Addr().String()
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
