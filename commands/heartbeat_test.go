package commands

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"agentstateloop/internal/testkit/mailtest"
)

// monitor is a server for heartbeats.
type monitor struct {
	*httptest.Server

	mu       sync.Mutex
	requests []string
	code     int // of its answers; 0: it hangs
}

func newMonitor() *monitor {
	m := new(monitor)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.requests = append(m.requests, r.Method+" "+r.RequestURI)
		code := m.code
		m.mu.Unlock()
		if code == 0 {
			<-r.Context().Done()
			return
		}
		http.Error(w, "you asked "+r.RequestURI, code)
	}))
	return m
}

// setCode sets the code of all answers from now on.
func (m *monitor) setCode(code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.code = code
}

// takeRequests returns the requests since the last call.
func (m *monitor) takeRequests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	requests := m.requests
	m.requests = nil
	return requests
}

// scriptMonitor: monitor CODE
func scriptMonitor(ts *testscript.TestScript, args []string) {
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	w := worldOf(ts)
	if w.monitor == nil {
		w.monitor = newMonitor()
		ts.Defer(w.monitor.Close)
		ts.Setenv("MONITOR", w.monitor.URL)
	}
	w.monitor.setCode(code)
}

// scriptHeartbeats: [!] heartbeats PATTERN
func scriptHeartbeats(ts *testscript.TestScript) string {
	return strings.Join(worldOf(ts).monitor.takeRequests(), "\n")
}

// TestKilledHeartbeat kills a poll while its monitor hangs. The work of that poll is done, and the
// next poll does not repeat it.
func TestKilledHeartbeat(t *testing.T) {
	t.Parallel()
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	m := newMonitor()
	defer m.Close()
	a := newInstalledAgent(t, servers, "[turn]\ncommand = [\"./reply.sh\"]\n"+noSchedule+"heartbeat = \""+m.URL+"/key\"\n")
	writeScript(t, filepath.Join(a.dir, "reply.sh"), "cat >/dev/null\necho yes")
	m.setCode(200)
	a.poll(t)
	deliverMail(t, servers, "m")
	m.takeRequests()
	m.setCode(0)
	killed := a.command(t.Context(), "poll", "--quiet")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	for over := time.Now().Add(time.Minute); len(m.takeRequests()) == 0; time.Sleep(time.Millisecond) { // the kill comes while the monitor is asked
		if time.Now().After(over) {
			t.Fatal("the monitor was not asked")
		}
	}
	killed.Process.Kill()
	killed.Wait()
	m.setCode(200)
	a.poll(t)
	replies := 0
	for _, sent := range servers.Sent() {
		replies += strings.Count(string(sent.Raw), "Message-ID: <reply.")
	}
	if requests := m.takeRequests(); replies != 1 || len(requests) != 1 || requests[0] != "GET /key" {
		t.Errorf("%d answers, then the requests %q", replies, requests)
	}
}
