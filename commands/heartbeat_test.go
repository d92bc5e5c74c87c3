package commands

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/mailtest"
)

// monitor is what hears heartbeats.
type monitor struct {
	*httptest.Server

	mu     sync.Mutex
	asked  []string
	answer int // the code; 0: it hangs
}

func newMonitor() *monitor {
	m := new(monitor)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked = append(m.asked, r.Method+" "+r.RequestURI)
		code := m.answer
		m.mu.Unlock()
		if code == 0 {
			<-r.Context().Done()
			return
		}
		http.Error(w, "you asked "+r.RequestURI, code)
	}))
	return m
}

func (m *monitor) answers(code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = code
}

// heard returns what was asked since the last call.
func (m *monitor) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	heard := m.asked
	m.asked = nil
	return heard
}

// scriptMonitor: monitor CODE
func scriptMonitor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: monitor CODE")
	}
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	w := worldOf(ts)
	if w.monitor == nil {
		w.monitor = newMonitor()
		ts.Defer(w.monitor.Close)
		ts.Setenv("MONITOR", w.monitor.URL)
	}
	w.monitor.answers(code)
}

// scriptBeats: [!] beats PATTERN
func scriptBeats(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] beats PATTERN")
	}
	expect(ts, neg, args[0], strings.Join(worldOf(ts).monitor.heard(), "\n"))
}

// TestKilledHeartbeat kills a poll while its monitor hangs: all that the poll did counts,
// and the next one repeats nothing.
func TestKilledHeartbeat(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	m := newMonitor()
	defer m.Close()
	program := buildProgram(t, dir)
	writeAgent(t, dir, servers, "[turn]\ncommand = [\"./reply.sh\"]\n[schedule]\nmode = \"none\"\nheartbeat = \""+m.URL+"/key\"\n")
	if err := testkit.WriteProgram(filepath.Join(dir, "reply.sh"), "#!/bin/sh\ncat >/dev/null\necho yes\n"); err != nil {
		t.Fatal(err)
	}
	poll := func() *exec.Cmd {
		return exec.Command(program, "--config", filepath.Join(dir, "agent.toml"), "poll", "--quiet")
	}
	m.answers(200)
	if out, err := poll().CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw := "From: operator@example.com\r\nSubject: @goulard3120 work\r\nMessage-ID: <m@example.com>\r\n\r\ndo it\r\n"
	if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
		t.Fatal(err)
	}
	m.heard()
	m.answers(0)
	killed := poll()
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	for over := time.Now().Add(time.Minute); len(m.heard()) == 0; time.Sleep(time.Millisecond) { // the kill comes while the monitor is asked
		if time.Now().After(over) {
			t.Fatal("the monitor was not asked")
		}
	}
	killed.Process.Kill()
	killed.Wait()
	m.answers(200)
	if out, err := poll().CombinedOutput(); err != nil {
		t.Errorf("the next poll: %v\n%s", err, out)
	}
	replies := 0
	for _, sent := range servers.Sent() {
		replies += strings.Count(string(sent.Raw), "Message-ID: <reply.")
	}
	if heard := m.heard(); replies != 1 || len(heard) != 1 || heard[0] != "GET /key" {
		t.Errorf("%d answers, then asked %q", replies, heard)
	}
}
