package page_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/page"
	"agentstateloop/cycle"
	"agentstateloop/state/store"
)

// TestStream checks the document at once, after changes by this and by another process, and after a
// reconnect. It stays silent while nothing changes.
func TestStream(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	documents, hangUp := b.follow()
	var d page.Document
	check(t, json.Unmarshal([]byte(until(t, documents, handle)), &d))
	if d.ActToken == nil || *d.ActToken != b.act || d.Version != "v9" || d.Host != "box" || !d.Live {
		t.Errorf("the document is for %v, %s on %s", d.ActToken, d.Version, d.Host)
	}

	// A process of its own has another agent for the same folder.
	other := s.newAgent(handle)
	other.Store = &store.Store{Dir: s.agent.Store.Dir, Agent: handle}
	_, err := other.Halt(t.Context(), "from elsewhere")
	check(t, err)
	until(t, documents, "from elsewhere")
	for deadline := time.After(2500 * time.Millisecond); deadline != nil; {
		select {
		case again := <-documents:
			t.Fatalf("nothing has changed, and a document came: %s", again)
		case <-deadline:
			deadline = nil
		}
	}
	hangUp()
	_, err = other.Resume(t.Context(), "while nobody looked")
	check(t, err)
	documents, hangUp = b.follow()
	defer hangUp()
	until(t, documents, "while nobody looked")
	b.do("tell", "", "for the stream").says(t, 200, "")
	until(t, documents, "for the stream")
	for range 10 { // a burst needs few documents
		_, err = other.Halt(t.Context(), "burst")
		check(t, err)
		_, err = other.Resume(t.Context(), "burst")
		check(t, err)
	}
	_, err = other.Halt(t.Context(), "the last one")
	check(t, err)
	until(t, documents, "the last one")
	if n := len(documents); n > 3 {
		t.Errorf("%d documents for a burst", n)
	}
}

// TestStreamOutlivesTheWriteTimeout checks heartbeats, and that a stream lives longer than an answer
// may take.
func TestStreamOutlivesTheWriteTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 25 seconds")
	}
	t.Parallel()
	s := serve(t)
	b := s.browser().login()
	documents, hangUp := b.follow()
	defer hangUp()
	until(t, documents, handle)
	time.Sleep(22 * time.Second) // the write timeout of the listener's server is 20
	_, err := s.agent.Halt(t.Context(), "after the timeout")
	check(t, err)
	until(t, documents, "after the timeout")
}

// TestHeartbeat checks that a silent stream says that it lives.
func TestHeartbeat(t *testing.T) {
	s := serve(t, func(s *served) { s.server.Heartbeat = time.Second })
	resp := s.browser().login().open("GET", "/page/events", "")
	defer resp.Body.Close()
	if resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Error("a proxy may buffer the stream")
	}
	var got []byte
	buffer := make([]byte, 64<<10)
	for end := time.Now().Add(20 * time.Second); !strings.Contains(string(got), ": still here"); {
		n, err := resp.Body.Read(buffer)
		check(t, err)
		if got = append(got, buffer[:n]...); time.Now().After(end) {
			t.Fatalf("no heartbeat in %s", got)
		}
	}
}

// TestStreamEndsWithItsSession checks that a stream ends after the token has changed.
func TestStreamEndsWithItsSession(t *testing.T) {
	s := serve(t)
	documents, hangUp := s.browser().login().follow()
	defer hangUp()
	until(t, documents, handle)
	s.token.Store("another")
	ended(t, documents)
}

// ended waits for the end of a stream.
func ended(t *testing.T, documents chan string) {
	t.Helper()
	for end := time.After(10 * time.Second); ; {
		select {
		case _, ok := <-documents:
			if !ok {
				return
			}
		case <-end:
			t.Fatal("the stream has not ended")
		}
	}
}

// TestListenerEndsItsStreams checks that a listener with open streams stops quickly.
func TestListenerEndsItsStreams(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	var all []chan string
	for range 5 {
		documents, hangUp := b.follow()
		defer hangUp()
		until(t, documents, handle)
		all = append(all, documents)
	}
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the listener took %v to stop", took)
	}
	for _, documents := range all {
		ended(t, documents)
	}
}

// TestStreamsAreLimited checks that the seventeenth stream is refused, and served after another one
// has left.
func TestStreamsAreLimited(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	var leave func()
	for range 16 {
		documents, hangUp := b.follow()
		defer hangUp()
		until(t, documents, handle)
		leave = hangUp
	}
	r := b.send("GET", "/page/events", "")
	r.says(t, 503, "too many open pages: the limit is 16")
	if r.head.Get("Retry-After") != "30" {
		t.Errorf("Retry-After %q", r.head.Get("Retry-After"))
	}
	b.send("GET", "/page/document", "").says(t, 200, handle)
	leave()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) { // the server notices the end of the connection a little later
		resp := b.open("GET", "/page/events", "")
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a free place is not given")
		}
	}
}

// TestPageFollowsItsAgents checks that the page shows an agent whose configuration has changed as it is
// then.
func TestPageFollowsItsAgents(t *testing.T) {
	s := serve(t, func(s *served) { s.more = []*cycle.Agent{s.newAgent("second1")} })
	b := s.browser().login()
	documents, hangUp := b.follow()
	defer hangUp()
	if d := until(t, documents, "second1"); !strings.Contains(d, handle) {
		t.Errorf("the first agent is missing: %s", d)
	}
	b.send("GET", "/page/history?agent=second1&q=nothing", "").says(t, 200, `"entries":[]`)
	b.send("GET", "/page/history?agent=second1&before=x", "").says(t, 409, "")
}
