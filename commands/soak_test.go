package commands

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// soakVariable names the environment variable that turns on the long tests. Its
// value is how long they run, such as "10m".
const soakVariable = "AGENTSTATELOOP_SOAK"

// soakFor returns how long the long tests run, or 0 if they are off.
func soakFor(t *testing.T) time.Duration {
	text := os.Getenv(soakVariable)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q is not a duration: write 10m", soakVariable, text)
	}
	return d
}

// TestSoak runs an agent with real processes and a real Dovecot, and kills its
// processes and those of its turns at random. Then it checks that each message had one turn and
// one answer. Its servers misbehave, and its payload files are damaged
// (soak_faults_test.go). The simulator tries the same a thousand times faster; here
// all is real. TestShortSoak and TestKilledPolls are the short forms.
func TestSoak(t *testing.T) {
	long := soakFor(t)
	if long == 0 {
		t.Skip("off by default: set " + soakVariable + "=10m")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := mailtest.StartDovecot(t)
	newSoak(t, newFaults(seed, 10), soakedMailbox{d.IMAP, d.Username, d.Password, d.Append}).live(long, seed)
}

// TestShortSoak is TestSoak for some seconds, with an IMAP server in memory. The retries of its
// failures take another minute.
func TestShortSoak(t *testing.T) {
	if os.Getenv(requireReal) == "" {
		t.Skip("takes more than a minute: set " + requireReal + "=1")
	}
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := mailtest.StartMemory(t, mailtest.Options{})
	s := newSoak(t, newFaults(seed, 5), soakedMailbox{m.IMAP, m.Username, m.Password, func(raw []byte, seen bool) error {
		var flags []imap.Flag
		if seen {
			flags = append(flags, imap.FlagSeen)
		}
		_, err := m.Append(raw, time.Now(), flags...)
		return err
	}})
	s.pause = 400 * time.Millisecond
	s.live(4*time.Second, seed)
}

// live disturbs the agent at random for a time, waits until it rests, and checks the results.
func (s *soak) live(long time.Duration, seed uint64) {
	ctx, cancel := context.WithTimeout(s.t.Context(), long)
	defer cancel()
	var wg sync.WaitGroup
	for n := range uint64(4) {
		wg.Go(func() { s.runCommandsAtRandom(ctx, rand.New(rand.NewPCG(seed, n))) })
	}
	wg.Go(func() { s.writeMessages(ctx, rand.New(rand.NewPCG(seed, 10))) })
	wg.Go(func() { s.killAtRandom(ctx, rand.New(rand.NewPCG(seed, 11))) })
	wg.Go(func() { s.faults.damage(ctx, s.store().Dir) })
	wg.Wait()
	s.waitForRest()
	s.check()
	s.t.Logf("faults: %v", s.faults.count)
	s.t.Logf("%d processes killed, agents killed %d times; %d mails, %d mesh messages, %d tells, %d nudges; %d commands exited with 75",
		s.kills, s.groups, len(s.mails), len(s.posts), len(s.tellKeys), len(s.nudged), s.busy)
}

// soak is an agent, its servers, and the input that it has accepted.
type soak struct {
	installedAgent
	t       *testing.T
	mailbox soakedMailbox
	faults  *faults
	pause   time.Duration     // between two messages, at most
	sink    *mailtest.Servers // receives the mail that the agent sends
	mesh    *mesh.Server

	mu               sync.Mutex
	mails, posts     []string // Message-IDs of mails and ids of mesh messages
	tellKeys, nudged []string // keys of tells and reasons of nudges that exited with 0
	kills, groups    int      // number of killed processes, and of kills of all agents
	busy             int      // commands that exited with 75
}

// soakedMailbox is the mailbox of a soak, on a server without TLS.
type soakedMailbox struct {
	addr, username, password string

	append func(raw []byte, seen bool) error
}

func newSoak(t *testing.T, f *faults, mailbox soakedMailbox) *soak {
	s := &soak{t: t, mailbox: mailbox, faults: f, pause: 4 * time.Second, mesh: mesh.NewServer(mesh.Options{Open: true})}
	s.dir = t.TempDir()
	s.sink = mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org", OnData: f.answerSMTP})
	web := httptest.NewServer(s.mesh)
	t.Cleanup(web.Close)
	s.program = buildProgram(t, s.dir)
	var peers []string
	for n := range 20 {
		peers = append(peers, strconv.Quote(peerHandle(n)))
	}
	unruly := mailtest.StartUnruly(t, mailbox.addr, f.changeIMAP)
	config := fmt.Sprintf(soakConfig, unruly, mailbox.username, s.sink.SMTPTLS, s.sink.CAFile, web.URL, strings.Join(peers, ", "))
	writeFiles(t, s.dir, map[string]string{"agent.toml": config, "secret": mailbox.password, "sent": s.sink.Password})
	writeScript(t, filepath.Join(s.dir, "slow.sh"), slowScript)
	s.poll(t) // the baseline
	f.on.Store(true)
	return s
}

const soakConfig = agentSection + `[timing]
cooldown = "1s"
[mail]
address = "goulard@example.org"
[mail.imap]
host = %q
tls = "none"
username = %q
password_file = "secret"
[mail.smtp]
host = %q
username = "goulard@example.org"
password_file = "sent"
ca_file = %q
[trust]
require = "from"
mesh = "open"
[mesh]
url = %q
peers = [%s]
[turn]
command = ["./slow.sh"]
[schedule]
mode = "none"
`

// peerHandle returns the handle of peer n.
func peerHandle(n int) string { return fmt.Sprintf("peer%d", n) }

// runCommandsAtRandom runs the commands that people, cron and scripts run.
func (s *soak) runCommandsAtRandom(ctx context.Context, chance *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("u%d.%d", chance.Uint32(), n)
		switch k := chance.IntN(20); {
		case k < 8:
			s.runCommand(ctx, "poll", "--quiet")
		case k < 11:
			if _, done := s.runCommand(ctx, "nudge", "--from", "test", "--reason", id); done {
				s.record(&s.nudged, id)
			}
		case k < 14 && s.inboxLength() < 50: // the agent is slower
			if out, done := s.runCommand(ctx, "tell", "--no-wait", "do it, "+id); done {
				s.record(&s.tellKeys, strings.TrimSpace(out))
			}
		case k < 15:
			s.runCommand(ctx, "stop")
		case k < 16:
			s.runCommand(ctx, "halt")
			s.runCommand(ctx, "resume")
		case k < 17:
			s.runCommand(ctx, "transition", []string{"IDLE", "PREP", "ACTIVE"}[chance.IntN(3)])
		case k < 19:
			s.runCommand(ctx, "status", "--json")
		default:
			short, cancel := context.WithTimeout(ctx, time.Second)
			s.runCommand(short, "listen")
			cancel()
		}
	}
}

// inboxLength returns the number of messages that wait.
func (s *soak) inboxLength() int {
	st, err := s.store().Read()
	if err != nil {
		s.t.Error(err)
	}
	return len(st.Inbox)
}

// runCommand runs a command. Unless it is killed, it must exit with 0, or with 75
// because another process does the work, or with 3 because a server misbehaved. done reports
// whether it exited with 0.
func (s *soak) runCommand(ctx context.Context, args ...string) (out string, done bool) {
	out, code, killed := s.run(ctx, args...)
	switch {
	case killed || ctx.Err() != nil, strings.HasSuffix(out, "signal: killed: \n"): // the kill hit its child before that became the agent
	case code == exitBusy:
		s.mu.Lock()
		s.busy++
		s.mu.Unlock()
	case strings.Contains(out, "has ended"): // its child was killed before it was recorded
	case code == exitSource: // a server misbehaved, or does not hand out a mail yet
	case code != 0:
		s.t.Errorf("%v: exit %d: %s", args, code, out)
	default:
		return out, true
	}
	return out, false
}

// record appends to one of the lists of accepted input.
func (s *soak) record(list *[]string, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, id)
}

// writeMessages delivers mail of the operator, messages of peers, and mail that is
// not for the agent. The operator writes fewer than sixty mails: above sixty an hour
// they are deferred.
func (s *soak) writeMessages(ctx context.Context, chance *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(chance.Int64N(int64(s.pause)))):
		}
		id := fmt.Sprintf("w%d@example.com", n)
		from, subject := "operator@example.com", "@goulard3120 work"
		switch k := chance.IntN(8); {
		case k == 0 && len(s.mails) < 50:
			s.record(&s.mails, "<"+id+">")
		case k == 1:
			from = "operator@example.com.evil.example"
		case k == 2:
			subject = "@goulard31200 work"
		case k == 3: // the mesh also takes only five reports a minute from us
			s.postFromPeer(fmt.Sprintf("w%d", n), peerHandle(chance.IntN(20)))
			continue
		default:
			subject = "lunch?"
		}
		raw := fmt.Sprintf("From: %s\r\nSubject: %s\r\nMessage-ID: <%s>\r\n\r\ndo it\r\n", from, subject, id)
		if err := s.mailbox.append([]byte(raw), chance.IntN(4) == 0); err != nil {
			s.t.Error(err)
		}
	}
}

// postFromPeer posts a message from a peer, and records it if the mesh takes it.
// The mesh takes five a minute from each sender.
func (s *soak) postFromPeer(id, from string) {
	r := httptest.NewRequest(http.MethodPost, "/message",
		strings.NewReader(fmt.Sprintf(`{"id":%q,"from":%q,"to":"goulard3120","message":"do it"}`, id, from)))
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if s.mesh.ServeHTTP(w, r); w.Code == http.StatusAccepted {
		s.record(&s.posts, id)
	}
}

// killAtRandom kills a process of the program at random moments, and sometimes the
// agents of its turns as well.
func (s *soak) killAtRandom(ctx context.Context, chance *rand.Rand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(chance.IntN(250)) * time.Millisecond):
		}
		if chance.IntN(5) == 0 {
			killAgents(s.t, s.dir)
			s.groups++
		}
		if pids := s.processes(); len(pids) > 0 {
			syscall.Kill(pids[chance.IntN(len(pids))], syscall.SIGKILL)
			s.kills++
		}
	}
}

// waitForRest polls until the inbox and the outbox are empty and no turn runs.
func (s *soak) waitForRest() {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	s.faults.on.Store(false)
	s.runCommand(ctx, "resume")
	for rested := false; ctx.Err() == nil; { // twice, because a poll that ran turns may have left mail on the server
		_, done := s.runCommand(ctx, "poll", "--quiet")
		st, err := s.store().Read()
		if err != nil {
			s.t.Fatal(err)
		}
		rests := done && len(st.Cursor.Owed)+len(st.Cursor.Unseen)+len(st.Inbox) == 0 && len(st.Outbox) == 0 && st.Turn.Status == state.HeadIdle && len(s.processes()) == 0
		if rests && rested {
			return
		}
		rested = rests
		time.Sleep(500 * time.Millisecond) // mostly the agent itself waits for a retry
	}
	out, _, _ := s.run(s.t.Context(), "status")
	s.t.Errorf("the agent does not come to rest:\n%s", out)
}

// check compares the output with the accepted input (docs/design.md, "Promises" 1
// and 2). A message whose payload was damaged may be lost if a mail reports that to the operator.
func (s *soak) check() {
	keys, nudges, lost, undeliverable := s.history()
	for _, key := range s.tellKeys {
		if keys[key] == 0 && !lost[key] {
			s.t.Errorf("tell %s had no turn", key)
		}
	}
	for key, n := range keys {
		if n != 1 && !lost[key] {
			s.t.Errorf("%s has %d task lines, want 1", key, n)
		}
	}
	for key := range lost {
		if !s.mentioned(key) && undeliverable["notice"] == 0 {
			s.t.Errorf("%s was lost, and no mail reports it", key)
		}
	}
	if want := len(s.mails) + len(s.posts) + len(s.tellKeys); len(keys) < want { // more, if a tell was killed before it printed its key
		s.t.Errorf("%d turns, want %d or more", len(keys), want)
	}
	for _, reason := range s.nudged {
		if !nudges[reason] {
			s.t.Errorf("nudge %s is not in the history", reason)
		}
	}
	s.checkReplies(undeliverable["reply"])
	s.checkReports(undeliverable["reply"])
	s.checkNothingUnread()
	if s.t.Failed() {
		s.logHistory()
	}
}

// logHistory logs the history of the agent, which a seed alone does not reproduce.
func (s *soak) logHistory() {
	files, err := filepath.Glob(filepath.Join(s.store().Dir, "history-*.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Error(err)
		}
		s.t.Logf("%s:\n%s", filepath.Base(file), text)
	}
}

// mentioned reports whether a mail to the operator has a text.
func (s *soak) mentioned(text string) bool {
	return slices.ContainsFunc(s.sink.Sent(), func(m mailtest.Sent) bool {
		whole := strings.ReplaceAll(string(m.Raw), "=\r\n", "") // soft line breaks
		return strings.Contains(strings.Join(strings.Fields(whole), ""), text)
	})
}

// history returns the number of task lines of each message, the reasons of the
// nudges, the keys of messages that were lost by damage, and how many effects of each
// kind were undeliverable: those that were damaged when a copy may have arrived. It
// reports a recovery: a kill must not damage the state.
func (s *soak) history() (keys map[string]int, nudges, lost map[string]bool, undeliverable map[string]int) {
	keys, nudges, lost, undeliverable = map[string]int{}, map[string]bool{}, map[string]bool{}, map[string]int{}
	for l, err := range s.store().History() {
		if err != nil {
			s.t.Fatal(err)
		}
		switch l.Kind {
		case state.LineMessage:
			keys[l.Key] += 0
		case state.LineTask:
			keys[l.Key]++
		case state.LineEnded:
			lost[l.Key] = lost[l.Key] || l.What == state.Word(state.Errored)
		case state.LineNudge:
			nudges[l.Reason] = true
		case state.LineDelivery:
			if l.What == "undeliverable" {
				kind, _, _ := strings.Cut(l.ID, ".")
				undeliverable[kind]++
			}
		case state.LineRecovery:
			s.t.Errorf("a kill damaged the state: %+v", l)
		}
	}
	return keys, nudges, lost, undeliverable
}

// checkReplies checks that each mail of the operator has one answer, in any number
// of equal copies, and that no other mail has one. So many answers may be missing.
func (s *soak) checkReplies(missing int) {
	answers := sentReplies(s.t, s.sink)
	for _, id := range s.mails {
		if answers[id] == nil {
			if missing--; missing < 0 {
				s.t.Errorf("mail %s has no answer", id)
			}
		}
		delete(answers, id)
	}
	for id := range answers {
		s.t.Errorf("an answer to %s, which was not for the agent", id)
	}
}

// checkReports checks that each mesh message has one report. So many may be missing.
func (s *soak) checkReports(missing int) {
	reports := map[string]int{}
	for n := range 20 {
		r := httptest.NewRequest(http.MethodGet, "/mailbox/"+peerHandle(n), nil)
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		w := httptest.NewRecorder()
		s.mesh.ServeHTTP(w, r)
		var box mesh.Mailbox
		if err := box.UnmarshalJSON(w.Body.Bytes()); err != nil {
			s.t.Fatalf("mailbox of %s: %v: %s", peerHandle(n), err, w.Body)
		}
		for _, m := range box.Messages {
			reports[m.Correlation]++
		}
	}
	for _, id := range s.posts {
		if reports[id] == 0 && missing > 0 {
			missing--
		} else if reports[id] != 1 {
			s.t.Errorf("mesh message %s has %d reports, want 1", id, reports[id])
		}
	}
}

// checkNothingUnread checks that no mail for the agent is unread on the server.
func (s *soak) checkNothingUnread() {
	c, err := imapclient.DialInsecure(s.mailbox.addr, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if err := c.Login(s.mailbox.username, s.mailbox.password).Wait(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := c.Select("INBOX", &imap.SelectOptions{ReadOnly: true}).Wait(); err != nil {
		s.t.Fatal(err)
	}
	found, err := c.UIDSearch(&imap.SearchCriteria{
		NotFlag: []imap.Flag{imap.FlagSeen},
		Header:  []imap.SearchCriteriaHeaderField{{Key: "From", Value: "operator@example.com"}, {Key: "Subject", Value: "@goulard3120 work"}},
		Not:     []imap.SearchCriteria{{Header: []imap.SearchCriteriaHeaderField{{Key: "From", Value: "evil"}}}},
	}, nil).Wait()
	if err != nil {
		s.t.Fatal(err)
	}
	if left := found.AllUIDs(); len(left) > 0 {
		s.t.Errorf("mails for the agent that are unread: UIDs %v", left)
	}
}
