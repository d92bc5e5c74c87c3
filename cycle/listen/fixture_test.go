package listen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

const (
	handle   = "goulard3120"
	peer     = "dorlange3120"
	operator = "operator@example.com"
	token    = "open sesame"
)

// fixture is an agent that has polled once, with its mail server and mesh.
type fixture struct {
	t     testing.TB
	agent *cycle.Agent
	mail  *mailtest.Servers
	mesh  *meshServer
	peer  *mesh.Client
	web   string        // the address of the listener, if one is running
	done  chan struct{} // receives a value for each commit; holds one

	mu     sync.Mutex
	logged []string
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// meshServer is a mesh that can be down for a while. It counts how often polls
// read the mailbox of our agent, without the long poll.
type meshServer struct {
	url   string
	looks atomic.Int32
	asked atomic.Int64                  // when a poll last read the mailbox, in Unix nanoseconds
	hold  atomic.Pointer[chan struct{}] // if set, polls wait until it is closed
	down  atomic.Bool
	wakes chan string // wake addresses that were registered
}

func newMesh(t testing.TB) *meshServer {
	t.Helper()
	m := &meshServer{wakes: make(chan string, 100)}
	// Each look at its clock is a minute on, so that the pace of senders does not
	// slow a test.
	var looks atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(looks.Add(1)) * time.Minute) }
	real := mesh.NewServer(mesh.Options{Open: true, Now: clock, OnlineFor: 1000 * time.Hour})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	m.url = "http://" + ln.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.Method == http.MethodPut {
			m.noteWake(r)
		}
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/mailbox/"+handle) && r.URL.RawQuery == "" {
			m.looks.Add(1)
			m.asked.Store(time.Now().UnixNano())
			if gate := m.hold.Load(); gate != nil {
				<-*gate
			}
		}
		real.ServeHTTP(w, r)
	})}
	go server.Serve(ln) // ends with Close
	t.Cleanup(func() { server.Close(); real.Close() })
	return m
}

// noteWake sends the wake address of a registration to wakes. It restores the
// body.
func (m *meshServer) noteWake(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var p mesh.Presence
	if json.Unmarshal(body, &p) == nil && p.Wake != "" {
		m.wakes <- p.Wake
	}
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := &fixture{t: t, done: make(chan struct{}, 1)}
	h.mail = mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	h.mesh = newMesh(t)
	h.peer = &mesh.Client{URL: h.mesh.url, Handle: peer}
	h.agent = h.newAgent(handle)
	h.agent.Store.Hook = func(step, _ string) error {
		if step == "done" {
			select {
			case h.done <- struct{}{}:
			default:
			}
		}
		return nil
	}
	_, err := h.agent.Poll(t.Context(), cycle.PollOptions{})
	check(t, err)
	return h
}

func (h *fixture) newAgent(name string) *cycle.Agent {
	imap := mail.Server{
		Addr: h.mail.IMAP, TLS: mail.TLSNone, Username: h.mail.Username, Timeout: time.Minute,
		Secret: func(context.Context) (string, error) { return h.mail.Password, nil },
	}
	smtp := imap
	smtp.Addr = h.mail.SMTP
	return &cycle.Agent{
		Handle: name,
		Config: "/home/you/agent.toml",
		Store:  &store.Store{Dir: filepath.Join(h.t.TempDir(), "state"), Agent: name},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
			PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Location: time.UTC,
			HasMail: true, HasMesh: true, Operator: operator, MaxAttempts: 3, TurnTimeout: time.Hour,
		},
		Mail: &cycle.Mail{
			Mailbox: mail.Mailbox{Server: imap}, SMTP: smtp, Address: h.mail.Username,
			Filter: trust.Filter{Handle: name, Operators: []string{operator}, Own: h.mail.Username, Require: "from"},
		},
		Mesh:     &cycle.Mesh{Carrier: &mesh.Client{URL: h.mesh.url, Handle: name, Timeout: time.Minute}, Handle: name, Peers: []string{peer}, Open: true},
		Schedule: cycle.Schedule{Mode: cycle.ModeNone},
		Self:     []string{"/bin/false"},
		Now:      time.Now,
	}
}

// listen starts a listener. stop ends it and waits for its end.
func (h *fixture) listen(change ...func(*listen.Listener)) (stop func()) {
	h.t.Helper()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	check(h.t, err)
	h.web = "http://" + web.Addr().String()
	ready := make(chan struct{})
	l := &listen.Listener{
		Agents: []*cycle.Agent{h.agent}, Web: web, Logf: h.logf, Ready: func() { close(ready) },
		Token:     func(context.Context) (string, error) { return token, nil },
		ScanEvery: time.Hour, // the slow scan must not replace the wake that is tested
	}
	for _, f := range change {
		f(l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		h.t.Fatalf("the listener ended: %v", err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("the listener ended with %v", err)
		}
	})
	h.t.Cleanup(stop)
	return stop
}

func (h *fixture) logf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logged = append(h.logged, fmt.Sprintf(format, args...))
}

// until waits for a commit after which is returns true.
func (h *fixture) until(what string, is func(state.State) bool) {
	h.t.Helper()
	for {
		s, err := h.agent.Store.Read()
		check(h.t, err)
		if is(s) {
			return
		}
		select {
		case <-h.done:
		case <-time.After(time.Minute): // nothing more is going to happen
			h.mu.Lock()
			defer h.mu.Unlock()
			h.t.Fatalf("never happened: %s; logged: %q", what, h.logged)
		}
	}
}

func (h *fixture) untilPhase(p state.Phase) {
	h.t.Helper()
	h.until(string(p), func(s state.State) bool { return s.Phase == p })
}

// receive puts a mail of the operator into the mailbox.
func (h *fixture) receive(id string) {
	h.t.Helper()
	raw := fmt.Sprintf("From: %s\r\nSubject: @%s hello\r\nMessage-ID: <%s@example.com>\r\n\r\nhello\r\n", operator, handle, id)
	_, err := h.mail.Append([]byte(raw), time.Now())
	check(h.t, err)
}

// call sends a request to the listener and returns the status of the answer.
func (h *fixture) call(method, path, body string, header ...string) int {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.web+path, strings.NewReader(body))
	check(h.t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	check(h.t, err)
	resp.Body.Close()
	return resp.StatusCode
}
