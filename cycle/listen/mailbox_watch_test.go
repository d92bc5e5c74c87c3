package listen_test

import (
	"net"
	"sync"
	"testing"

	"agentstateloop/state"
)

// wire accepts connections for the mail server, and can break them all.
type wire struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	taken chan struct{} // receives a value for each connection; holds one
}

func (w *wire) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns = append(w.conns, conn)
		select {
		case w.taken <- struct{}{}:
		default:
		}
	}
	return conn, err
}

// The listener reconnects to a mail server that was away, and handles the mail that came
// meanwhile.
func TestMailServerReconnects(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w := &wire{Listener: ln, taken: make(chan struct{}, 1)}
	go h.mail.ServeIMAP(w) // ends with Close
	h.agent.Mail.Mailbox.Addr = ln.Addr().String()
	h.listen()
	<-w.taken
	w.mu.Lock()
	for _, conn := range w.conns {
		conn.Close()
	}
	w.mu.Unlock()
	h.receive("one")
	h.untilPhase(state.PREP)
}
