package fleettest

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Frame is one message of the protocol of NATS, as it is written.
type Frame struct {
	Verb, Subject string // such as HMSG; the subject may be missing

	raw []byte
}

// readFrame reads a frame. Those that have a body name its length last.
func readFrame(r *bufio.Reader) (Frame, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return Frame{}, err
	}
	words := strings.Fields(line)
	f := Frame{raw: []byte(line)}
	if len(words) == 0 {
		return f, nil
	}
	f.Verb = words[0]
	if !slices.Contains([]string{"MSG", "HMSG", "PUB", "HPUB"}, f.Verb) {
		return f, nil
	}
	f.Subject = words[1]
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return Frame{}, err
	}
	body := make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(r, body)
	f.raw = append(f.raw, body...)
	return f, err
}

// Wire carries the frames of connections to servers. It asks Pass about each frame, and throws the
// frame away if the answer is false.
type Wire struct{ Pass func(Frame) bool }

// Dial implements the Dial of a client.
func (w Wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	server, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	carry := func(to, from net.Conn) {
		defer to.Close()
		defer from.Close()
		for r := bufio.NewReaderSize(from, 64<<10); ; {
			f, err := readFrame(r)
			if err != nil {
				return
			}
			if !w.Pass(f) {
				continue
			}
			if _, err := to.Write(f.raw); err != nil {
				return
			}
		}
	}
	go carry(server, theirs)
	go carry(theirs, server)
	return ours, nil
}
