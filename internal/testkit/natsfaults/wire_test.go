package natsfaults_test

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// frame is one message of the protocol of NATS, as it is written.
type frame struct {
	verb, subject string // such as HMSG; "" of what names no subject
	raw           []byte
}

// readFrame reads a frame. Those that have a body name its length last.
func readFrame(r *bufio.Reader) (frame, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return frame{}, err
	}
	words := strings.Fields(line)
	f := frame{raw: []byte(line)}
	if len(words) == 0 {
		return f, nil
	}
	f.verb = words[0]
	if !slices.Contains([]string{"MSG", "HMSG", "PUB", "HPUB"}, f.verb) {
		return f, nil
	}
	f.subject = words[1]
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return frame{}, err
	}
	body := make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(r, body)
	f.raw = append(f.raw, body...)
	return f, err
}

// kind says what a frame is for the mesh, or "" if it is of no interest.
func (f frame) kind() string {
	for _, k := range []struct{ verb, prefix, suffix, kind string }{
		{"PUB", "$JS.ACK.", "", "acknowledgement"},
		{"PUB", "$JS.API.CONSUMER.MSG.NEXT.", "", "pull"},
		{"PUB", "asl.box.", "", "post"},
		{"MSG", "asl.box.", "", "delivery"},
		{"MSG", "", ".stored", "PubAck"},
		{"MSG", "", ".end", "end of a pull"},
		{"MSG", "cmd.agent.", "", "ring"},
	} {
		if strings.TrimPrefix(f.verb, "H") == k.verb && strings.HasPrefix(f.subject, k.prefix) && strings.HasSuffix(f.subject, k.suffix) {
			return k.kind
		}
	}
	return ""
}

// wire carries the frames of connections to servers. pass is asked about each of them
// before it goes on; what it says no to is thrown away.
type wire struct{ pass func(frame) bool }

// dial implements the Dial of a client.
func (w wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
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
			if !w.pass(f) {
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

// thief throws frames away at random, each kind as often as it says of a hundred.
type thief struct {
	of map[string]int

	mu     sync.Mutex
	off    bool
	random *rand.Rand
	stolen map[string]int
}

func newThief(of map[string]int, seed uint64) *thief {
	return &thief{of: of, random: rand.New(rand.NewPCG(seed, 1)), stolen: map[string]int{}}
}

func (th *thief) pass(f frame) bool {
	kind := f.kind()
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.off || th.random.IntN(100) >= th.of[kind] {
		return true
	}
	th.stolen[kind]++
	return false
}

// missed returns a kind of which no frame was thrown away, or "".
func (th *thief) missed() string {
	th.mu.Lock()
	defer th.mu.Unlock()
	for kind := range th.of {
		if th.stolen[kind] == 0 {
			return kind
		}
	}
	return ""
}

// stop lets everything pass from now on, and returns what was thrown away.
func (th *thief) stop() map[string]int {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.off = true
	return th.stolen
}
