package fleettrial_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
)

// wire carries the connections of a host to the servers.
type wire struct {
	addrs []string // where the host reaches each server

	mu  sync.Mutex
	cut bool
	tap func(f fleettest.Frame) (pass bool) // nil: all frames pass
}

// newWire listens once for each server.
func newWire(t testing.TB, servers []*fleettest.Server) *wire {
	t.Helper()
	w := new(wire)
	for _, s := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		w.addrs = append(w.addrs, l.Addr().String())
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go w.carry(c, s.Addr)
			}
		}()
	}
	return w
}

func (w *wire) url() string { return "nats://" + strings.Join(w.addrs, ",") }

// carry connects to a server, and copies until either side has ended. While the wire is cut, the
// connection stays open and silent.
func (w *wire) carry(client net.Conn, addr string) {
	defer client.Close()
	if w.isCut() {
		for w.isCut() {
			time.Sleep(50 * time.Millisecond) // between looks
		}
		return
	}
	server, err := fleettest.Wire{Pass: w.pass}.Dial(context.Background(), "tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// pass decides about one frame.
func (w *wire) pass(f fleettest.Frame) bool {
	w.mu.Lock()
	cut, tap := w.cut, w.tap
	w.mu.Unlock()
	return !cut && (tap == nil || tap(f))
}

func (w *wire) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// setCut cuts the host off: all its frames disappear. Or it ends that.
func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// setTap has tap decide about each frame.
func (w *wire) setTap(tap func(fleettest.Frame) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tap = tap
}

// kindOf names a frame of a client, or returns "". The answers of the servers are named by their
// reply subjects.
func kindOf(f fleettest.Frame) string {
	verb := strings.TrimPrefix(f.Verb, "H")
	if verb == "MSG" && strings.HasPrefix(f.Subject, "_INBOX") {
		return "answer " + f.Subject[strings.LastIndexByte(f.Subject, '.')+1:]
	}
	for _, k := range []struct{ verb, prefix, suffix, kind string }{
		{"PUB", "$KV.asl-head.", ".wish", "wish"},
		{"PUB", "$KV.asl-head.", "", "head"},
		{"PUB", "$KV.asl-who.", "", "registry"},
		{"PUB", "$JS.API.DIRECT.GET.", ".wish", "read of the wish"},
		{"PUB", "$JS.API.DIRECT.GET.KV_asl-head", "", "read of the head"},
		{"PUB", "$JS.API.DIRECT.GET.", "", "read"},
		{"PUB", "$JS.ACK.", "", "acknowledgement"},
		{"PUB", "$JS.API.CONSUMER.MSG.NEXT.", "", "pull"},
		{"PUB", "asl.box.", "", "post"},
		{"PUB", "asl.file.", "", "file"},
		{"PUB", "asl.hist.", "", "block"},
		{"PUB", "cmd.agent.", "", "ring"},
		{"MSG", "asl.box.", "", "delivery"},
	} {
		if verb == k.verb && strings.HasPrefix(f.Subject, k.prefix) && strings.HasSuffix(f.Subject, k.suffix) {
			return k.kind
		}
	}
	return ""
}
