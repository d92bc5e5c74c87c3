package page_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/page"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
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
	if d.Now.Before(d.Made) || len(d.Zones) == 0 {
		t.Errorf("made at %v, written at %v, zones %v", d.Made, d.Now, d.Zones)
	}
	s.later.Store(int64(time.Hour)) // a second tab gets the same document later
	again, leave := b.follow()
	check(t, json.Unmarshal([]byte(until(t, again, handle)), &d))
	if ahead := time.Until(d.Now); ahead < 59*time.Minute {
		t.Errorf("written at %v, %v ahead", d.Now, ahead)
	}
	leave()
	s.later.Store(0)
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
	began := time.Now()
	for i := range 20 { // a burst needs few documents
		_, err = other.Tell(t.Context(), "you", fmt.Sprint("burst ", i))
		check(t, err)
		time.Sleep(2 * view.FollowEvery) // the watcher sees each commit by itself
	}
	n := 0
	for last := ""; !strings.Contains(last, "burst 19"); n++ {
		last = until(t, documents, handle)
	}
	if most := int(time.Since(began)/time.Second) + 2; n > most {
		t.Errorf("%d documents in %v", n, time.Since(began))
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

// TestStreamIsCompressed checks that a browser gets a compressed stream, another program a plain one, and
// that the same document again costs little.
func TestStreamIsCompressed(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	for range 50 {
		_, err := s.agent.Tell(t.Context(), "you", store.NewID())
		check(t, err)
	}
	plain := b.open("GET", "/page/events", "", "Accept-Encoding", "identity")
	defer plain.Body.Close()
	zipped := b.open("GET", "/page/events", "", "Accept-Encoding", "gzip")
	defer zipped.Body.Close()
	if plain.Header.Get("Content-Encoding") != "" || zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("encodings %q and %q", plain.Header.Get("Content-Encoding"), zipped.Header.Get("Content-Encoding"))
	}
	counted := &countingReader{r: zipped.Body}
	text, err := gzip.NewReader(counted)
	check(t, err)
	lines := bufio.NewReader(text)
	var sizes, documents []int
	for len(sizes) < 2 {
		line, err := lines.ReadString('\n')
		check(t, err)
		if strings.HasPrefix(line, "data: ") {
			sizes, documents = append(sizes, counted.n), append(documents, len(line))
			_, err = s.agent.Halt(t.Context(), "the second one")
			check(t, err)
		}
	}
	if first, second := sizes[0], sizes[1]-sizes[0]; first > documents[0]/2 || second > documents[1]/4 {
		t.Errorf("documents of %v bytes took %d and %d", documents, first, second)
	}
	t.Logf("documents of %v bytes took %d and %d", documents, sizes[0], sizes[1]-sizes[0])
}

// countingReader counts the bytes that are read.
type countingReader struct {
	r io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
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

// TestPageOfSeveralAgents checks that the page shows all agents, by handle.
func TestPageOfSeveralAgents(t *testing.T) {
	s := serve(t, func(s *served) { s.more = []*cycle.Agent{s.newAgent("second1"), s.newAgent("artificer")} })
	b := s.browser().login()
	documents, hangUp := b.follow()
	defer hangUp()
	var d page.Document
	check(t, json.Unmarshal([]byte(until(t, documents, "second1")), &d))
	for _, d := range []page.Document{d, b.document()} {
		if a := d.Agents; len(a) != 3 || a[0].Handle != "artificer" || a[1].Handle != handle || a[2].Handle != "second1" {
			t.Errorf("the page shows %+v", a)
		}
	}
	b.send("GET", "/page/history?agent=second1&q=nothing", "").says(t, 200, `"entries":[]`)
	b.send("GET", "/page/history?agent=second1&before=x", "").says(t, 409, "")
}
