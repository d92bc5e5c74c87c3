package mail

import (
	"bytes"
	"errors"
	"net"
	"strings"
)

// aheadConn sends commands before the library does (RFC 2920), because go-smtp waits for the
// answer to each. The library must then write exactly these commands, and they are not sent
// again. The answers come in the same order.
type aheadConn struct {
	net.Conn
	next []byte // to send after MAIL
	sent []byte // sent, but not written by the library yet
}

// errOtherCommand is the error for a library that writes another command than the one sent
// ahead.
var errOtherCommand = errors.New("smtp: another command than was sent ahead")

// Write writes p, unless it was sent ahead.
func (c *aheadConn) Write(p []byte) (int, error) {
	if len(c.sent) > 0 {
		rest, same := bytes.CutPrefix(c.sent, p)
		if !same {
			return 0, errOtherCommand
		}
		c.sent = rest
		return len(p), nil
	}
	if len(c.next) == 0 || !bytes.HasPrefix(p, []byte("MAIL ")) { // after RSET the library greets again first
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(append(bytes.Clone(p), c.next...))
	c.sent, c.next = c.next, nil
	return min(n, len(p)), err
}

// envelopeAhead returns the commands that may follow MAIL at once, as the library writes them.
// It includes DATA only for a single recipient: a server that refuses that recipient refuses
// DATA too. It returns nil if the library would refuse to send an address.
func envelopeAhead(to []string) []byte {
	var lines []byte
	for _, r := range to {
		if strings.ContainsAny(r, "\r\n") {
			return nil
		}
		lines = append(lines, "RCPT TO:<"+r+">\r\n"...)
	}
	if len(to) == 1 {
		lines = append(lines, "DATA\r\n"...)
	}
	return lines
}
