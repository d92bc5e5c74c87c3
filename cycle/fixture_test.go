package cycle_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-smtp"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// The cast.
const (
	handle   = "goulard3120"
	peer     = "dorlange3120"
	second   = "boreas3120" // another peer, whom a token proves
	operator = "operator@example.com"
	address  = "artificer3120@example.org"
)

// secondToken proves the second peer to the mesh.
const secondToken = "token-of-boreas"

// morning is when every test begins.
var morning = time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)

// fixture is one agent with its surroundings: mail servers and a mesh on
// loopback, a crontab, a program that answers, and a clock that only the test
// moves.
type fixture struct {
	t         testing.TB
	blueprint blueprint
	agent     *cycle.Agent
	mail      *mailtest.Servers
	peer      *mesh.Client // another agent on the mesh
	table     string       // the file behind the crontab program
	clock     *clock
	traffic   traffic           // of IMAP
	fresh     []cycle.FoundMail // received, and not polled yet

	// Faults that a test may set at any time.
	onFetch atomic.Pointer[func(uids imap.NumSet, body bool) error]
	stores  atomic.Int32 // requests to mark mails
	onRcpt  atomic.Pointer[func(to string) error]
	onData  atomic.Pointer[func(conn net.Conn, raw []byte) error]
	onMesh  atomic.Pointer[http.HandlerFunc] // answers instead of the mesh if it writes anything

	// onSentHeaders breaks the reading of the folder for sent mail.
	onSentHeaders atomic.Pointer[func(conn net.Conn, uids imap.NumSet, options *imap.FetchOptions) error]
}

// traffic counts the bytes of all connections, both ways.
type traffic struct{ n atomic.Int64 }

func (t *traffic) Write(p []byte) (int, error) {
	t.n.Add(int64(len(p)))
	return len(p), nil
}

// settled returns the number of bytes when no more come: the server says goodbye after the poll has
// ended.
func (t *traffic) settled() int64 {
	for last := t.n.Load(); ; {
		time.Sleep(50 * time.Millisecond) // the server gives no sign of its last word
		n := t.n.Load()
		if n == last {
			return n
		}
		last = n
	}
}

// clock is the time of a fixture.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	asked int // how often
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// blueprint holds what a process needs to be the agent of a fixture.
type blueprint struct {
	Dir, Self, Script             string
	IMAP, SMTP, Mesh              string
	Username, Password            string
	Crontab, Binary, ScheduleMode string
	Now                           time.Time // the clock of a process of its own
	Require                       string    // what proves a sender; "" is "from"
	Detached                      string    // the file into which a detached poll writes, instead of polling; see detached
}

// detachedSelf returns the argv of a detached poll.
func (b blueprint) detachedSelf() []string { return []string{b.Self, "__detached", b.Detached} }

// agent wires the agent as package commands does.
func (b blueprint) agent(now func() time.Time) *cycle.Agent {
	imap := mail.Server{
		Addr: b.IMAP, TLS: mail.TLSNone, Username: b.Username, Timeout: time.Minute,
		Secret: func(context.Context) (string, error) { return b.Password, nil },
	}
	smtp := imap
	smtp.Addr = b.SMTP
	reply := func(text string) *template.Template { return template.Must(template.New("").Parse(text)) }
	return &cycle.Agent{
		Handle: handle,
		Config: "/home/you/agent.toml",
		Store:  &store.Store{Dir: filepath.Join(b.Dir, "state"), Agent: handle},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
			PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Cooldown: 5 * time.Minute,
			Location: time.UTC, HasMail: true, HasMesh: true, Operator: operator, Keymaster: peer, Peers: []string{peer},
			Ack: true, QuietPrep: true, QuietActive: true, Notices: true, Working: true,
			Turns: true, SelfTurns: 3, MaxAttempts: 3, Challenge: b.Require == trust.RequireChallenge,
		},
		Mail: &cycle.Mail{
			Mailbox: mail.Mailbox{Server: imap, Name: "INBOX", Now: now}, SMTP: smtp, Address: address,
			Filter: trust.Filter{Handle: handle, Operators: []string{operator}, Own: address, Require: cmp.Or(b.Require, trust.RequireFrom)},
		},
		Mesh: &cycle.Mesh{
			Carrier: &mesh.Client{URL: b.Mesh, Handle: handle, Timeout: time.Minute}, Handle: handle,
			Peers: []string{peer}, Open: true,
		},
		Schedule: cycle.Schedule{
			Mode: b.ScheduleMode, Binary: b.Binary,
			Table: cron.Table{
				Command: b.Crontab, Run: crontest.Play(b.Crontab, b.Crontab+".table"),
				Lock: filepath.Join(b.Dir, "crontab.lock"), Backup: filepath.Join(b.Dir, "backup"),
			},
		},
		Turn: &turn.Config{
			Runner: turn.Exec, Command: []string{b.Script}, Workdir: b.Dir,
			Timeout: time.Minute, Grace: time.Second, Self: b.Self,
		},
		Replies: cycle.Replies{
			Ack:         reply("{{.Handle}} standing by. what do you need?"),
			QuietPrep:   reply("going quiet"),
			QuietActive: reply("going quiet -- ping me when you need me"),
		},
		Now: now, CheckEvery: 20 * time.Millisecond,
	}
}

// answeringScript is the agent's program: it notes that it ran, keeps its prompt, and
// answers with the message's text. The shell itself copies: a thousand turns start no
// cat.
const answeringScript = `#!/bin/sh
copy() {
	while IFS= read -r line; do
		printf '%s\n' "$line"
	done
	printf %s "$line"
}
echo "$AGENTSTATELOOP_TURN $AGENTSTATELOOP_EPOCH" >>runs
copy >prompt
echo "I read: $(copy <"$AGENTSTATELOOP_CONTEXT/text.txt")"
`

// newFixture builds a fixture whose agent has never polled.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { osfile.MakeWritable(dir) }) // context boxes are read-only
	self, err := os.Executable()
	check(t, err)
	h := &fixture{t: t, clock: &clock{now: morning}}
	h.mail = mailtest.StartMemory(t, mailtest.Options{
		Username: address,
		Trace:    &h.traffic,
		OnStore:  func(imap.NumSet, *imap.StoreFlags) { h.stores.Add(1) },
		OnFetch:  h.fetching,
		OnRcpt: func(to string) error {
			if f := h.onRcpt.Load(); f != nil {
				return (*f)(to)
			}
			return nil
		},
		OnData: func(conn net.Conn, raw []byte) error {
			if f := h.onData.Load(); f != nil {
				return (*f)(conn, raw)
			}
			return nil
		},
	})
	crontab, table, err := crontest.Write(dir)
	check(t, err)
	h.table = table
	h.blueprint = blueprint{
		Dir: dir, Self: self, Script: filepath.Join(dir, "agent.sh"),
		IMAP: h.mail.IMAP, SMTP: h.mail.SMTP, Mesh: h.serveMesh(),
		Username: h.mail.Username, Password: h.mail.Password,
		Crontab: crontab, Binary: "/usr/local/bin/agentstateloop", ScheduleMode: cycle.ModeCrontab,
		Now: morning,
	}
	h.script(answeringScript)
	h.agent = h.blueprint.agent(h.clock.Now)
	h.agent.Self = []string{"/bin/false"} // a detached poll has its own tests
	h.peer = &mesh.Client{URL: h.blueprint.Mesh, Handle: peer}
	return h
}

// newAwakeFixture builds a fixture whose agent has polled once. So its mailbox has
// a baseline, and its crontab line is installed.
func newAwakeFixture(t testing.TB) *fixture {
	t.Helper()
	h := newFixture(t)
	h.poll()
	return h
}

// newDovecotFixture is newFixture with a mailbox of Dovecot.
func newDovecotFixture(t testing.TB) (*fixture, *mailtest.Dovecot) {
	t.Helper()
	h, d := newFixture(t), mailtest.StartDovecot(t).Fresh(t)
	box := &h.agent.Mail.Mailbox
	box.Addr, box.Username, box.Secret = d.IMAP, d.Username, fixedSecret(d.Password)
	return h, d
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *fixture) script(text string) { check(h.t, testkit.WriteProgram(h.blueprint.Script, text)) }

func (h *fixture) serveMesh() (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(h.t, err)
	real := mesh.NewServer(mesh.Options{Open: true, Tokens: map[string]string{second: secondToken}, Now: h.clock.Now})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := h.onMesh.Load(); f != nil {
			seen := &answerRecorder{ResponseWriter: w}
			(*f)(seen, r)
			if seen.wrote {
				return
			}
		}
		real.ServeHTTP(w, r)
	})}
	go server.Serve(listener) // ends with Close
	h.t.Cleanup(func() { server.Close(); real.Close() })
	return "http://" + listener.Addr().String()
}

// answerRecorder records whether an answer was begun.
type answerRecorder struct {
	http.ResponseWriter
	wrote bool
}

func (s *answerRecorder) WriteHeader(code int) { s.wrote = true; s.ResponseWriter.WriteHeader(code) }
func (s *answerRecorder) Write(p []byte) (int, error) {
	s.wrote = true
	return s.ResponseWriter.Write(p)
}

func (h *fixture) fetching(conn net.Conn, uids imap.NumSet, options *imap.FetchOptions) error {
	if f := h.onSentHeaders.Load(); f != nil {
		if err := (*f)(conn, uids, options); err != nil {
			return err
		}
	}
	f := h.onFetch.Load()
	if f == nil {
		return nil
	}
	body := slices.ContainsFunc(options.BodySection, func(s *imap.FetchItemBodySection) bool {
		return s.Specifier == imap.PartSpecifierNone
	})
	return (*f)(uids, body)
}

// refuseBodies makes the mail server refuse the bodies of these mails, or of all mails. It counts
// the requests for them.
func (h *fixture) refuseBodies(uids ...uint32) (asked *atomic.Int32) {
	asked = new(atomic.Int32)
	refuse := func(set imap.NumSet, body bool) error {
		of, _ := set.(imap.UIDSet)
		if !body || len(uids) > 0 && !slices.ContainsFunc(uids, func(uid uint32) bool { return of.Contains(imap.UID(uid)) }) {
			return nil
		}
		asked.Add(1)
		return &imap.Error{Type: imap.StatusResponseTypeNo, Text: "cannot read it"}
	}
	h.onFetch.Store(&refuse)
	return asked
}

// meshAnswers makes the mesh answer requests of this method with a code.
func (h *fixture) meshAnswers(method string, code int) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method {
			w.WriteHeader(code)
		}
	})
	h.onMesh.Store(&answer)
}

// refuses makes the mail server refuse every recipient with this code.
func (h *fixture) refuses(code int, text string) {
	refuse := func(string) error {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: text}
	}
	h.onRcpt.Store(&refuse)
}

// poll makes one poll, which must not fail.
func (h *fixture) poll() cycle.Report {
	h.t.Helper()
	agree := h.explainFresh()
	r, err := h.agent.Poll(h.t.Context(), cycle.PollOptions{})
	check(h.t, err)
	agree()
	return r
}

// collect polls without running turns.
func (h *fixture) collect() {
	h.t.Helper()
	_, err := h.agent.Poll(h.t.Context(), cycle.PollOptions{NoTurn: true})
	check(h.t, err)
}

// pollAfter moves the clock and polls.
func (h *fixture) pollAfter(d time.Duration) cycle.Report {
	h.t.Helper()
	h.clock.advance(d)
	return h.poll()
}

func (h *fixture) halt() {
	h.t.Helper()
	_, err := h.agent.Halt(h.t.Context(), "test")
	check(h.t, err)
}

func (h *fixture) resume() {
	h.t.Helper()
	_, err := h.agent.Resume(h.t.Context(), "test")
	check(h.t, err)
}

// order moves the agent to a phase.
func (h *fixture) order(to state.Phase, noMail bool) {
	h.t.Helper()
	_, err := h.agent.Order(h.t.Context(), to, "", noMail)
	check(h.t, err)
}

// queue gives the agent a message of the operator at the terminal, without a poll.
func (h *fixture) queue(text string) (key string) {
	h.t.Helper()
	key, err := h.agent.Tell(h.t.Context(), "me", text)
	check(h.t, err)
	return key
}

// remind sets a reminder as the operator does at the terminal.
func (h *fixture) remind(when, text string) {
	h.t.Helper()
	_, err := h.agent.RemindByHand(h.t.Context(), "op", when, text)
	check(h.t, err)
}

func (h *fixture) state() state.State {
	h.t.Helper()
	s, err := h.agent.Store.Read()
	check(h.t, err)
	return s
}

// step commits events as another process of the agent does.
func (h *fixture) step(events ...state.Event) state.State {
	h.t.Helper()
	return h.changeState(func(*state.State) {}, events...)
}

// changeState is step, but also changes the state after the events.
func (h *fixture) changeState(change func(*state.State), events ...state.Event) state.State {
	h.t.Helper()
	other := store.Store{Dir: h.agent.Store.Dir, Agent: handle}
	next, err := other.Commit(h.t.Context(), h.clock.Now(), func(s state.State, _ store.Recovery) (state.State, error) {
		next := state.Step(s, events, h.agent.Policy, h.clock.Now())
		change(&next)
		return next, nil
	})
	check(h.t, err)
	return next
}

// lines returns the history lines of one kind.
func (h *fixture) lines(kind state.LineKind) []state.Line {
	h.t.Helper()
	var found []state.Line
	for l, err := range h.agent.Store.History() {
		check(h.t, err)
		if l.Kind == kind {
			found = append(found, l)
		}
	}
	return found
}

// runs returns the attempts that were started, as the agent's program noted
// them.
func (h *fixture) runs() []string {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.blueprint.Dir, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	check(h.t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// wantRuns fails unless so many attempts were started.
func (h *fixture) wantRuns(want int) {
	h.t.Helper()
	if runs := h.runs(); len(runs) != want {
		h.t.Errorf("%d attempts, want %d: %q", len(runs), want, runs)
	}
}

// prompt returns the prompt of the last turn.
func (h *fixture) prompt() string {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.blueprint.Dir, "prompt"))
	check(h.t, err)
	return string(data)
}

// letter is a mail of the operator to our agent. Its fields begin with any
// further header fields, each with its CRLF.
type letter struct {
	from, subject, id, fields, body string
}

func (l letter) raw() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: The Operator <%s>\r\nTo: %s\r\n", cmp.Or(l.from, operator), address)
	fmt.Fprintf(&b, "Subject: %s\r\n", cmp.Or(l.subject, "@"+handle+" hello"))
	if l.id != "" {
		fmt.Fprintf(&b, "Message-ID: %s\r\n", l.id)
	}
	fmt.Fprintf(&b, "%s\r\n%s\r\n", l.fields, cmp.Or(l.body, "are you there?"))
	return b.Bytes()
}

// receive puts a mail into the mailbox.
func (h *fixture) receive(l letter, flags ...imap.Flag) (uid uint32) {
	h.t.Helper()
	return h.receiveRaw(l.raw(), flags...)
}

func (h *fixture) receiveRaw(raw []byte, flags ...imap.Flag) (uid uint32) {
	h.t.Helper()
	uid, err := h.mail.Append(raw, h.clock.Now(), flags...)
	check(h.t, err)
	h.fresh = append(h.fresh, cycle.FoundMail{UID: uid, Raw: raw, Size: int64(len(raw)), At: h.clock.Now()})
	return uid
}

// inbox opens the mailbox as a mail program does.
func (h *fixture) inbox(readOnly bool) *imapclient.Client {
	h.t.Helper()
	c, err := imapclient.DialInsecure(h.mail.IMAP, nil)
	check(h.t, err)
	check(h.t, c.Login(h.mail.Username, h.mail.Password).Wait())
	_, err = c.Select("INBOX", &imap.SelectOptions{ReadOnly: readOnly}).Wait()
	check(h.t, err)
	return c
}

// unread returns the UIDs of the mailbox that are not \Seen. A poll does not wait for the
// last marks, so unread does, for a while.
func (h *fixture) unread() (uids []uint32) {
	h.t.Helper()
	c := h.inbox(true)
	defer c.Close()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) { // a server tells nobody when it has done a STORE of another session
		check(h.t, c.Noop().Wait())
		found, err := c.UIDSearch(&imap.SearchCriteria{NotFlag: []imap.Flag{imap.FlagSeen}}, nil).Wait()
		check(h.t, err)
		uids = nil
		for _, u := range found.AllUIDs() {
			uids = append(uids, uint32(u))
		}
		s, err := h.agent.Store.Read()
		underWay := func(u uint32) bool { return slices.Contains(s.ToFlag.UIDs, u) }
		if err != nil || !slices.ContainsFunc(uids, underWay) || time.Now().After(end) {
			return uids
		}
	}
}

// sentMail is one mail of our agent.
type sentMail struct {
	kind string // of the effect, as the Message-ID shows it
	to   string
	text string
	raw  string
	head message.Header
}

// sent returns what our agent has mailed so far, repeats included.
func (h *fixture) sent() []sentMail {
	h.t.Helper()
	var all []sentMail
	for _, m := range h.mail.Sent() {
		head := message.ParseHeader(m.Raw)
		all = append(all, sentMail{
			kind: kindOf(head.MessageID), to: strings.Join(m.To, ","), head: head, raw: string(m.Raw),
			text: strings.TrimSpace(message.ReadContent(bytes.NewReader(m.Raw), message.Sent{}).Text),
		})
	}
	return all
}

// kindOf returns the kind of the effect with this Message-ID.
func kindOf(messageID string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(messageID, "<"), ".")
	return kind
}

// ids returns what makes the agent's Message-IDs.
func (h *fixture) ids() message.IDs {
	h.t.Helper()
	key, err := h.agent.Store.ReadIDKey()
	check(h.t, err)
	return message.IDs{Handle: handle, Address: address, IDKey: message.IDKey{Secret: key.Secret}}
}

func messageID(raw []byte) string { return message.ParseHeader(raw).MessageID }

func (h *fixture) sentOf(kind string) []sentMail {
	h.t.Helper()
	return slices.DeleteFunc(h.sent(), func(s sentMail) bool { return s.kind != kind })
}

// onlyReply returns the one reply that was sent.
func (h *fixture) onlyReply() sentMail {
	h.t.Helper()
	replies := h.sentOf("reply")
	if len(replies) != 1 {
		h.t.Fatalf("%d replies, want one: %+v", len(replies), replies)
	}
	return replies[0]
}

// wantReplies fails unless the replies have these texts.
func (h *fixture) wantReplies(want ...string) {
	h.t.Helper()
	if got := h.replyTexts(); !slices.Equal(got, want) {
		h.t.Errorf("the replies are %q, want %q", got, want)
	}
}

// replyTexts returns the texts of the replies, in the order in which they left.
func (h *fixture) replyTexts() []string {
	var texts []string
	for _, s := range h.sentOf("reply") {
		texts = append(texts, s.text)
	}
	return texts
}

// kinds returns the kinds of the mails sent so far, in their order.
func (h *fixture) kinds() string {
	h.t.Helper()
	var kinds []string
	for _, s := range h.sent() {
		kinds = append(kinds, s.kind)
	}
	return strings.Join(kinds, " ")
}

// crontabFields returns the five fields of our crontab line, or "" if it is
// missing.
func (h *fixture) crontabFields() string {
	h.t.Helper()
	table, err := os.ReadFile(h.table)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	check(h.t, err)
	lines := cron.Find(table, handle)
	if len(lines) > 1 {
		h.t.Fatalf("the crontab has %d lines of ours:\n%s", len(lines), table)
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(lines[0])[:5], " ")
}

// post sends our agent a message via the mesh.
func (h *fixture) post(m mesh.Message) {
	h.t.Helper()
	m.To = handle
	_, err := h.peer.Send(h.t.Context(), m)
	check(h.t, err)
}

// reports returns what the peer was sent; it stays in the peer's mailbox.
func (h *fixture) reports() []mesh.Message {
	h.t.Helper()
	box, err := h.peer.Mailbox(h.t.Context(), 0)
	check(h.t, err)
	return box.Messages
}

// waiting returns what lies in our agent's own mailbox on the mesh.
func (h *fixture) waiting() []mesh.Message {
	h.t.Helper()
	box, err := h.agent.Mesh.Carrier.Mailbox(h.t.Context(), 0)
	check(h.t, err)
	return box.Messages
}

// wantAcknowledged fails if our mailbox on the mesh holds a message.
func (h *fixture) wantAcknowledged() {
	h.t.Helper()
	if left := h.waiting(); len(left) != 0 {
		h.t.Errorf("not acknowledged: %+v", left)
	}
}

func (h *fixture) status() view.Status {
	h.t.Helper()
	s, err := h.agent.View().Status()
	check(h.t, err)
	return s
}

// wantLogged fails unless the log has these words.
func (h *fixture) wantLogged(words ...string) {
	h.t.Helper()
	wantWords(h.t, string(mustRead(h.t, h.agent.Store.Path("log"))), words...)
}

// blueprintFile writes the blueprint for another process, whose clock stands at
// the present time of the fixture.
func (h *fixture) blueprintFile() string {
	h.t.Helper()
	h.blueprint.Now = h.clock.Now()
	data, err := json.Marshal(h.blueprint)
	check(h.t, err)
	path := filepath.Join(h.blueprint.Dir, "blueprint.json")
	check(h.t, os.WriteFile(path, data, 0o600))
	return path
}

// wantPhase fails unless the machine is in this phase.
func (h *fixture) wantPhase(want state.Phase) {
	h.t.Helper()
	if got := h.state().Phase; got != want {
		h.t.Fatalf("the phase is %s, want %s", got, want)
	}
}

// wantSent fails unless exactly these kinds of mail were sent so far.
func (h *fixture) wantSent(kinds string) {
	h.t.Helper()
	if got := h.kinds(); got != kinds {
		h.t.Fatalf("sent %q, want %q", got, kinds)
	}
}

// open marks a mail as read, as a person's mail program does.
func (h *fixture) open(uid uint32) {
	h.t.Helper()
	c := h.inbox(false)
	defer c.Close()
	seen := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagSeen}}
	check(h.t, c.Store(imap.UIDSetNum(imap.UID(uid)), seen, nil).Close())
}

// write puts a file where the agent's program runs.
func (h *fixture) write(name, text string) {
	h.t.Helper()
	check(h.t, os.WriteFile(filepath.Join(h.blueprint.Dir, name), []byte(text), 0o600))
}

func fixedSecret(s string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return s, nil }
}

// wantEmpty fails if a folder of the agent's directory holds anything.
func (h *fixture) wantEmpty(folder string) {
	h.t.Helper()
	left, err := os.ReadDir(h.agent.Store.Path(folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	if len(left) > 0 {
		h.t.Errorf("left in %s: %v", folder, left)
	}
}
