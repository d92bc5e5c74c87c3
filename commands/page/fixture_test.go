package page_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/commands/page"
	"agentstateloop/commands/present"
	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

const (
	handle   = "goulard3120"
	operator = "operator@example.com"
	theToken = "open sesame"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// served is an agent with a mail server, and a listener with the page.
type served struct {
	t      *testing.T
	agent  *cycle.Agent
	mail   *mailtest.Servers
	server *page.Server
	base   string // the address of the page
	token  atomic.Value
	later  atomic.Int64 // how far the clock of the page is ahead
	stop   func()
	more   []*cycle.Agent
}

// serve polls once, and starts a listener on a loopback port.
func serve(t *testing.T, change ...func(*served)) *served {
	t.Helper()
	s := &served{t: t, server: &page.Server{Version: "v9", Host: "box", User: "Anna", Now: time.Now}}
	s.token.Store(theToken)
	s.server.Token = func(context.Context) (string, error) { return s.token.Load().(string), nil }
	s.server.Now = func() time.Time { return time.Now().Add(time.Duration(s.later.Load())) }
	s.mail = mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	s.agent = s.newAgent(handle)
	for _, f := range change {
		f(s)
	}
	s.poll()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	s.base = "http://" + web.Addr().String()
	ready := make(chan struct{})
	l := &listen.Listener{
		Agents: append([]*cycle.Agent{s.agent}, s.more...), Web: web, Logf: t.Logf, Ready: func() { close(ready) }, Page: s.server.Handler,
		Token: s.server.Token, ScanEvery: time.Hour,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		check(t, <-ended)
		web.Close()
	})
	t.Cleanup(s.stop)
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return s
}

func (s *served) newAgent(name string) *cycle.Agent {
	imap := mail.Server{
		Addr: s.mail.IMAP, TLS: mail.TLSNone, Username: s.mail.Username, Timeout: time.Minute,
		Secret: func(context.Context) (string, error) { return s.mail.Password, nil },
	}
	smtp := imap
	smtp.Addr = s.mail.SMTP
	return &cycle.Agent{
		Handle: name,
		Config: "/home/you/agent.toml",
		Store:  &store.Store{Dir: filepath.Join(s.t.TempDir(), "state"), Agent: name},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute, PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute,
			Location: time.UTC, HasMail: true, Operator: operator, MaxAttempts: 3, TurnTimeout: time.Hour, EventRate: 1,
		},
		Mail: &cycle.Mail{
			Mailbox: mail.Mailbox{Server: imap}, SMTP: smtp, Address: s.mail.Username,
			Filter: trust.Filter{Handle: name, Operators: []string{operator}, Own: s.mail.Username, Require: "from"},
		},
		Schedule: cycle.Schedule{Mode: cycle.ModeNone},
		Self:     []string{"/bin/false"},
		Now:      time.Now,
		Explain:  func(error) (hint, kind string, exit int) { return "the hint of the command", "", 1 },
	}
}

func (s *served) poll() {
	s.t.Helper()
	for {
		_, err := s.agent.Poll(s.t.Context(), cycle.PollOptions{NoTurn: true})
		if !errors.Is(err, cycle.ErrBusy) { // the listener polls after each act
			check(s.t, err)
			return
		}
	}
}

// receive puts a mail of the operator into the mailbox.
func (s *served) receive(subject, fields string) {
	s.t.Helper()
	raw := fmt.Sprintf("From: %s\r\nSubject: @%s %s\r\nMessage-ID: <%s@example.com>\r\n%s\r\nhello\r\n", operator, handle, subject, store.NewID(), fields)
	_, err := s.mail.Append([]byte(raw), time.Now())
	check(s.t, err)
}

func (s *served) state() state.State {
	s.t.Helper()
	st, err := s.agent.Store.Read()
	check(s.t, err)
	return st
}

// history returns the history as `history` prints it.
func (s *served) history() string {
	s.t.Helper()
	var text strings.Builder
	reader := present.NewHistoryReader(time.Now(), plainFitter{}, s.agent.FirstWords)
	for l, err := range s.agent.Store.History() {
		check(s.t, err)
		if line := reader.Line(l); line != nil {
			text.WriteString(line())
		}
	}
	return text.String()
}

type plainFitter struct{}

func (plainFitter) Fit(line string, _ int) string      { return line }
func (plainFitter) FitWords(text string, _ int) string { return text }

// reply is the answer to a request.
type reply struct {
	code int
	body string
	head http.Header
}

// says fails the test unless the reply has this code and contains text.
func (r reply) says(t testing.TB, code int, text string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.body, text) {
		t.Errorf("answered %d %s, want %d and %q", r.code, r.body, code, text)
	}
}

// browser is a client with cookies.
type browser struct {
	t      testing.TB
	base   string
	origin string
	client *http.Client
	act    string // its act token
}

func (s *served) browser() *browser { return newBrowser(s.t, s.base, nil) }

func newBrowser(t testing.TB, base string, transport http.RoundTripper) *browser {
	jar, err := cookiejar.New(nil)
	check(t, err)
	u, err := url.Parse(base)
	check(t, err)
	return &browser{t: t, base: base, origin: u.Scheme + "://" + u.Host, client: &http.Client{Jar: jar, Transport: transport, Timeout: time.Minute}}
}

// send sends a request. Header fields follow as names and values; "" removes one.
func (b *browser) send(method, path, body string, header ...string) reply {
	b.t.Helper()
	resp := b.open(method, path, body, header...)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check(b.t, err)
	return reply{resp.StatusCode, string(data), resp.Header}
}

func (b *browser) open(method, path, body string, header ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	check(b.t, err)
	if method == "POST" {
		req.Header.Set("Origin", b.origin)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Page-Token", b.act)
	}
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			req.Host = header[i+1]
		case header[i+1] == "":
			req.Header.Del(header[i])
		default:
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := b.client.Do(req)
	check(b.t, err)
	return resp
}

// login gives the token, and remembers the act token of the document.
func (b *browser) login() *browser {
	b.t.Helper()
	b.send("POST", "/page/login", fmt.Sprintf(`{"token":%q}`, theToken)).says(b.t, 200, `"ok":true`)
	if d := b.document(); d.ActToken != nil {
		b.act = *d.ActToken
	}
	return b
}

func (b *browser) document() (d page.Document) {
	b.t.Helper()
	r := b.send("GET", "/page/document", "")
	r.says(b.t, 200, `"agents"`)
	check(b.t, json.Unmarshal([]byte(r.body), &d))
	return d
}

// do does an act.
func (b *browser) do(act, what, text string) reply {
	b.t.Helper()
	body, err := json.Marshal(map[string]string{"agent": handle, "act": act, "what": what, "text": text})
	check(b.t, err)
	return b.send("POST", "/page/act", string(body))
}

// follow opens the stream of documents. Each has its text. The channel is closed with the stream.
func (b *browser) follow() (documents chan string, hangUp func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", b.base+"/page/events", nil)
	check(b.t, err)
	client := *b.client
	client.Timeout = 0
	resp, err := client.Do(req)
	check(b.t, err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		b.t.Fatalf("answered %d: %s", resp.StatusCode, body)
	}
	documents = make(chan string, 1000)
	go func() {
		defer close(documents)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				documents <- data
			}
		}
	}()
	return documents, cancel
}

// until waits for a document that contains text.
func until(t testing.TB, documents chan string, text string) string {
	t.Helper()
	last := ""
	for end := time.After(20 * time.Second); ; {
		select {
		case d, ok := <-documents:
			if !ok {
				t.Fatalf("the stream ended before %q: %s", text, last)
			}
			if last = d; strings.Contains(d, text) {
				return d
			}
		case <-end:
			t.Fatalf("no %q in %s", text, last)
		}
	}
}

// requireReal fails the test if a program is missing and the machine should have it, and else skips it.
func requireReal(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
		t.Fatal("missing: " + what)
	}
	t.Skip("missing: " + what)
}
