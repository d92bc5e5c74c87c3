package mesh

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestMain lets a test start this binary as a mesh server and kill it.
func TestMain(m *testing.M) {
	dir := os.Getenv("MESH_TEST_SERVE")
	if dir == "" {
		os.Exit(m.Run())
	}
	clock := newTestClock()
	var mu sync.Mutex
	s, err := OpenServer(dir, Options{Open: true, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		clock.Time = clock.Add(time.Minute) // stays below the rate limit
		return clock.Time
	}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	s.journal.limit = 4 << 10 // so that a kill also hits a rewrite of the log
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	fmt.Println(s.HTTPServer().Serve(l))
	os.Exit(1)
}

// openMesh opens a durable mesh, which the caller closes.
func openMesh(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := OpenServer(dir, Options{Tokens: twoTokens()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeServer(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func mailboxTexts(s *Server, handle string) (all string) {
	for _, m := range s.ledger.oldest(handle) {
		all += m.Kind + " " + m.Text + "; "
	}
	return all
}

func logOf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "mesh.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRestartRestoresLedger checks two restarts: the first from the log's records, the second from
// the snapshot that the first wrote.
func TestRestartRestoresLedger(t *testing.T) {
	dir := t.TempDir()
	s := openMesh(t, dir)
	url := serveMesh(t, s)
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	for _, id := range []string{"1", "2", "3"} {
		if _, err := d.Send(t.Context(), Message{ID: id, To: "goulard", Text: "text " + id}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := d.Nudge(t.Context(), "goulard", "", "wake"); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Ack(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	if err := g.Register(t.Context(), Presence{Phase: state.PREP, Wake: testWake("127.0.0.1:1", "goulard")}); err != nil {
		t.Fatal(err)
	}
	if err := d.Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.rings.Wait()
	before := s.ledger
	for range 2 {
		closeServer(t, s)
		s = openMesh(t, dir)
		if got, want := mailboxTexts(s, "goulard"), "message text 1; message text 3; nudge wake; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if !s.ledger.halted || s.ledger.count != before.count || s.ledger.bytes != before.bytes || len(s.ledger.seenOrder) != 3 {
			t.Errorf("got %+v, want %+v", s.ledger, before)
		}
		if p, want := s.ledger.agents["goulard"], before.agents["goulard"]; p.Phase != want.Phase || p.Wake != want.Wake {
			t.Errorf("registry: %+v, want %+v", p, want)
		}
		for _, id := range []string{"1", "2", "3"} {
			m := Message{ID: id, From: "dorlange", To: "goulard", Proven: true}
			if fresh, err := s.deliver(m); fresh || err != nil {
				t.Errorf("%s is accepted again: %v", id, err)
			}
		}
	}
	closeServer(t, s)
	if info, err := os.Stat(filepath.Join(dir, "mesh.log")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestSurvivesKill checks that a message answered with 202 survives kill -9 at any moment.
func TestSurvivesKill(t *testing.T) {
	dir, accepted := t.TempDir(), map[string]bool{}
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "MESH_TEST_SERVE="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + strings.TrimSpace(line)

		var mu sync.Mutex
		var senders sync.WaitGroup
		enough := make(chan struct{})
		for sender := range 4 {
			senders.Go(func() {
				c := &Client{URL: url, Handle: fmt.Sprint("sender", sender), Timeout: time.Minute}
				for i := 0; ; i++ {
					m := Message{ID: fmt.Sprintf("%d.%d.%d", round, sender, i), To: fmt.Sprint("agent", round), Text: "x"}
					if _, err := c.Send(t.Context(), m); err != nil {
						return // killed
					}
					mu.Lock()
					accepted[m.ID] = true
					if len(accepted) == 100*(round+1) {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		senders.Wait()
		cmd.Wait()
	}
	s := openMesh(t, dir)
	defer closeServer(t, s)
	if s.SetAside() != "" {
		t.Error("the log was damaged")
	}
	stored := map[string]bool{}
	for _, mailbox := range s.ledger.mailboxes {
		for _, h := range mailbox {
			stored[h.ID] = true
		}
	}
	for id := range accepted {
		if !stored[id] {
			t.Errorf("%s was accepted and is lost", id)
		}
	}
}

// TestRewriteUnderLoad checks that concurrent changes survive many rewrites of the log.
func TestRewriteUnderLoad(t *testing.T) {
	dir := t.TempDir()
	s := openMesh(t, dir)
	var all sync.WaitGroup
	for sender := range 8 {
		all.Go(func() {
			for i := range 20 {
				m := Message{ID: fmt.Sprint(i), From: fmt.Sprint("s", sender, i/5), To: "goulard", Kind: KindMessage, Proven: true, SentAt: s.clock()}
				if _, err := s.deliver(m); err != nil {
					t.Error(err)
				}
				if i%2 == 1 {
					s.journal.writing.Lock()
					s.journal.limit = 0
					s.journal.writing.Unlock()
				}
			}
		})
	}
	all.Wait()
	closeServer(t, s)
	s = openMesh(t, dir)
	defer closeServer(t, s)
	if s.ledger.count != 160 || len(s.ledger.seenOrder) != 160 {
		t.Errorf("%d messages, %d ids; want 160", s.ledger.count, len(s.ledger.seenOrder))
	}
}

// TestLogStaysSmall checks that many nudges do not make the log grow without limit.
func TestLogStaysSmall(t *testing.T) {
	dir := t.TempDir()
	s := openMesh(t, dir)
	s.journal.limit = 10_000
	for i := range 500 {
		if err := s.deliverNudge(Message{ID: fmt.Sprint(i), To: "goulard", From: "dorlange", Kind: KindNudge}); err != nil {
			t.Fatal(err)
		}
		s.journal.limit = min(s.journal.limit, 10_000)
	}
	closeServer(t, s)
	if n := len(logOf(t, dir)); n > 11_000 {
		t.Errorf("%d bytes", n)
	}
}

// TestDamagedLog checks that a log damaged by a crash or a bad disk is read as far as possible.
func TestDamagedLog(t *testing.T) {
	const head, one, two = `{"version":1}` + "\n",
		`{"message":{"id":"1","from":"dorlange","to":"goulard","message":"one","kind":"message"}}` + "\n",
		`{"message":{"id":"2","from":"dorlange","to":"goulard","message":"two","kind":"message"}}` + "\n"
	for name, tt := range map[string]struct {
		log, want string
		damaged   bool
	}{
		"whole":          {head + one + two, "message one; message two; ", false},
		"empty":          {"", "", false},
		"torn":           {head + one + two[:40], "message one; ", false},
		"zeros at end":   {head + one + "\x00\x00\x00", "message one; ", false},
		"a sector lacks": {head + one + two[:20] + "\x00\x00\x00\x00" + two[24:], "message one; ", false},
		"one lacks here": {head + one[:20] + "\x00\x00\x00\x00" + one[24:] + two, "message two; ", true},
		"bad line":       {head + "{\"mess\x00\n" + one + two, "message one; message two; ", true},
		"null":           {head + "null\n" + one, "message one; ", true},
		"a flipped bit":  {head + strings.Replace(two, "two", "tw\xef", 1) + one, "message one; ", true},
		"head missing":   {one + two, "message one; message two; ", true},
		"future records": {head + `{"later":{}}` + "\n" + one, "message one; ", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "mesh.log"), []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			s := openMesh(t, dir)
			defer closeServer(t, s)
			if got := mailboxTexts(s, "goulard"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if (s.SetAside() != "") != tt.damaged {
				t.Errorf("set aside: %q", s.SetAside())
			}
			if aside := s.SetAside(); aside != "" {
				if b, err := os.ReadFile(aside); err != nil || string(b) != tt.log {
					t.Errorf("set aside: %q, %v", b, err)
				}
			}
			if now := logOf(t, dir); !strings.HasPrefix(now, head) || strings.Contains(now, "\x00") {
				t.Errorf("not rewritten: %q", now)
			}
		})
	}
}

func TestOpenServerRefuses(t *testing.T) {
	dir := t.TempDir()
	s := openMesh(t, dir)
	if _, err := OpenServer(dir, Options{}); !errors.Is(err, ErrServed) {
		t.Errorf("second server: %v", err)
	}
	closeServer(t, s)

	newer := `{"version":2}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "mesh.log"), []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second round fails if the lock is still held
		if _, err := OpenServer(dir, Options{}); err == nil || !strings.Contains(err.Error(), "newer version") {
			t.Errorf("newer log: %v", err)
		}
	}
	if logOf(t, dir) != newer {
		t.Error("the newer log was changed")
	}
	if _, err := OpenServer(t.TempDir(), Options{Tokens: map[string]string{"a": ""}}); err == nil {
		t.Error("an empty token is accepted")
	}
}

// TestLogWriteFails checks that a sender gets 503 if the disk fails. The message is not on disk, and
// the log is used again only after a rewrite.
func TestLogWriteFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mesh")
	s := openMesh(t, dir)
	d := client(serveMesh(t, s), "dorlange", "td")
	post := func() error {
		_, err := d.Send(t.Context(), Message{ID: "1", To: "goulard", Text: "x"})
		return err
	}
	s.journal.file.Close() // every write fails from now on
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e, ok := errors.AsType[*Error](post())
		if !ok || e.Code != http.StatusServiceUnavailable || !e.Temporary() || e.RetryAfter == 0 {
			t.Errorf("got %v", e)
		}
	}
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(logOf(t, dir), `"1"`) {
		t.Error("the refused message was written")
	}
	if err := post(); err != nil {
		t.Errorf("after the disk came back: %v", err)
	}
	if !strings.Contains(logOf(t, dir), `"1"`) {
		t.Error("the accepted message was not written")
	}
}

// FuzzReplay checks that no log breaks a mesh, and that a mesh can write and reread every log that
// it has read.
func FuzzReplay(f *testing.F) {
	f.Add(`{"version":1}` + "\n" + `{"message":{"id":"1","from":"a","to":"b"}}` + "\n" + `{"ack":{"from":"a","to":"b","id":"1"}}` + "\n")
	f.Add(`{"seen":{"id":"1","at":"2026-03-01T10:00:00Z"}}` + "\n" + `{"halted":true}` + "\n" + `{"presence":{"handle":"a"}}` + "\n")
	f.Fuzz(func(t *testing.T, log string) {
		one, two := newLedger(), newLedger()
		if _, err := one.replay(strings.NewReader(log)); err != nil {
			return
		}
		var b strings.Builder
		for _, r := range one.snapshot() {
			line, err := encode(r)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(line, '\n'))
		}
		if damaged, err := two.replay(strings.NewReader(b.String())); damaged || err != nil {
			t.Fatalf("snapshot: %v, %v\n%s", damaged, err, b.String())
		}
		if one.count != two.count || one.bytes != two.bytes || one.halted != two.halted || len(one.agents) != len(two.agents) {
			t.Errorf("%+v became %+v", one, two)
		}
	})
}

// BenchmarkPost posts messages from many concurrent senders, in memory and on disk. For comparison
// it measures the obvious alternative, an SQLite table in Python with one transaction for each
// message and one for its removal.
func BenchmarkPost(b *testing.B) {
	for _, dir := range []string{"", b.TempDir()} {
		name := "memory"
		if dir != "" {
			name = "disk"
		}
		b.Run(name, func(b *testing.B) {
			s := NewServer(Options{})
			if dir != "" {
				var err error
				if s, err = OpenServer(dir, Options{}); err != nil {
					b.Fatal(err)
				}
			}
			defer s.Close()
			var mu sync.Mutex
			n := 0
			defer func() { b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msgs/s") }()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					mu.Lock()
					n++
					m := Message{ID: fmt.Sprint(n), From: fmt.Sprint("s", n), To: fmt.Sprint("a", n%10_000), Text: "hello", Kind: KindMessage, Proven: true, SentAt: s.clock()}
					mu.Unlock()
					if _, err := s.deliver(m); err != nil {
						b.Fatal(err)
					}
					s.mu.Lock()
					s.change(record{Ack: new(storedMessage{Message: m}.postKey())})
					s.mu.Unlock()
				}
			})
		})
	}
	b.Run("sqlite", func(b *testing.B) {
		const loop = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("create table mailbox (id text primary key, sender text, receiver text, body text)")
for n in range(int(sys.argv[2])):
    db.execute("insert into mailbox values (?, ?, ?, ?)", (str(n), "s%d" % n, "a%d" % (n % 10000), "hello"))
    db.execute("delete from mailbox where id = ?", (str(n),))
`
		if out, err := exec.Command("python3", "-c", loop, filepath.Join(b.TempDir(), "db"), fmt.Sprint(b.N)).CombinedOutput(); err != nil {
			b.Skipf("python3 with sqlite3 is not installed: %v: %s", err, out)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	})
}
