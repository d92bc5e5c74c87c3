package mesh

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
)

const day = 24 * time.Hour

func xs(n int64) string { return strings.Repeat("x", int(n)) }

func repeat[T any](n int64, item func(i int) T) []T {
	var all []T
	for i := range int(n) {
		all = append(all, item(i))
	}
	return all
}

// justBefore returns the last time before d has passed.
func justBefore(d time.Duration) time.Duration { return d - 1 }

// callCode returns the code of one call with the token of goulard. Only the length of a
// *strings.Reader is announced.
func callCode(s *Server, method, path string, body io.Reader) int {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, body)
	r.Header.Set("Authorization", "Bearer tg")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}

// TestLimitsOfMessages checks each limit of the profile at its boundary.
func TestLimitsOfMessages(t *testing.T) {
	malformed := func(m Message) bool { return m.Malformed() != "" }
	posted := func(n int64, wrap func(io.Reader) io.Reader) bool {
		const rest = `{"to":"dorlange","message":""}`
		body := `{"to":"dorlange","message":"` + xs(n-int64(len(rest))) + `"}`
		return callCode(NewServer(Options{Tokens: twoTokens()}), "POST", "/message", wrap(strings.NewReader(body))) == http.StatusAccepted
	}
	list := func(n int64, format string) Mailbox {
		var mailbox Mailbox
		items := repeat(n, func(i int) string { return fmt.Sprintf(format, i) })
		if err := mailbox.UnmarshalJSON([]byte(`{"messages":[` + strings.Join(items, ",") + `]}`)); err != nil {
			t.Error(err)
		}
		return mailbox
	}
	field := func(n int64, value string) Fields {
		return repeat(n, func(i int) Field { return Field{fmt.Sprint("f", i), json.RawMessage(value)} })
	}
	files := func(n int64, size int64) []File {
		return repeat(n, func(int) File { return File{SHA256: strings.Repeat("0", 64), Name: "a", Size: size} })
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxLabel", Max: 64, Within: func(_ *testing.T, n int64) bool { return int64(len(label(strings.Repeat("X", int(n))))) == n }},
		{Const: "MaxMessage", Max: 64 << 10, Within: func(_ *testing.T, n int64) bool {
			return posted(n, func(r io.Reader) io.Reader { return r })
		}},
		{Const: "MaxMessage", Max: 64 << 10, Within: func(_ *testing.T, n int64) bool { // without an announced length
			return posted(n, func(r io.Reader) io.Reader { return io.MultiReader(r) })
		}},
		{Const: "MaxMessage", Max: 64 << 10, Within: func(_ *testing.T, n int64) bool { return !malformed(Message{Text: xs(n)}) }},
		{Const: "MaxMailbox", Max: 4 << 20, Within: func(_ *testing.T, n int64) bool {
			resp := &http.Response{Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}" + strings.Repeat(" ", int(n)-2)))}
			return request{into: &Status{}}.read(resp, nil) == nil
		}},
		{Const: "MaxMailbox", Max: 4 << 20, Within: func(_ *testing.T, n int64) bool { // including brackets and the comma before each message
			l := newLedger()
			l.mailboxes["a"] = []storedMessage{{Message{ID: "1"}, 1000}, {Message{ID: "2"}, int(n) - 1000 - len(`{"halted":false,"messages":[,,]}`)}}
			return len(l.oldest("a")) == 2
		}},
		{Const: "MaxMessages", Max: 200, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			l.mailboxes["a"] = repeat(n, func(i int) storedMessage { return storedMessage{Message: Message{ID: fmt.Sprint(i)}} })
			return len(l.oldest("a")) == int(n)
		}},
		{Const: "MaxMessages", Max: 200, Within: func(_ *testing.T, n int64) bool { return len(list(n, `{"id":"%d"}`).Messages) == int(n) }},
		{Const: "MaxMessages", Max: 200, Within: func(_ *testing.T, n int64) bool { return len(list(n, `{"message":"%d"}`).Messages) == int(n) }},
		{Const: "MaxMessages", Max: 200, Within: func(_ *testing.T, n int64) bool { return len(list(n, `%d`).Undecoded) == int(n) }},
		{Const: "MaxHops", Max: 4, Within: func(_ *testing.T, n int64) bool {
			m := Message{ID: "m", Kind: KindAsk, Text: "x", Hops: repeat(n, func(int) string { return "a" })}
			return m.Unsendable() == "" && !malformed(m)
		}},
		{Const: "maxKeptHops", Max: 32, Within: func(_ *testing.T, n int64) bool {
			return !malformed(Message{Hops: repeat(n, func(int) string { return "a" })})
		}},
		{Const: "maxID", Max: 256, Within: func(_ *testing.T, n int64) bool { return !malformed(Message{ID: xs(n)}) }},
		{Const: "maxSentID", Max: 128, Within: func(_ *testing.T, n int64) bool {
			return Message{ID: xs(n), Kind: KindAsk, Text: "x"}.Unsendable() == "" && ValidTrace(xs(n))
		}},
		{Const: "maxKind", Max: 64, Within: func(_ *testing.T, n int64) bool { return !malformed(Message{Kind: xs(n)}) }},
		{Const: "maxCorrelation", Max: 256, Within: func(_ *testing.T, n int64) bool { return !malformed(Message{Correlation: xs(n)}) }},
		{Const: "maxPart", Max: 96, Within: func(_ *testing.T, n int64) bool { return keyPart(xs(n)) == xs(n) }},
		{Const: "maxPart", Max: 96, Step: 3, Within: func(_ *testing.T, n int64) bool { // escaped
			return keyPart(strings.Repeat(":", int(n/3))) == strings.Repeat("%3A", int(n/3))
		}},

		// Fields and files.
		{Const: "MaxFields", Max: 64, Within: func(_ *testing.T, n int64) bool { return field(n, "1").Check() == nil }},
		{Const: "MaxFields", Max: 64, Within: func(t *testing.T, n int64) bool {
			data, err := encode(field(n, "1"))
			if err != nil {
				t.Fatal(err)
			}
			return json.Unmarshal(data, new(Fields)) == nil
		}},
		{Const: "MaxFieldsBytes", Max: 32 << 10, Within: func(_ *testing.T, n int64) bool {
			return Fields{{"a", json.RawMessage(`"` + xs(n-int64(len(`{"a":""}`))) + `"`)}}.Check() == nil
		}},
		{Const: "MaxFieldDepth", Max: 100, Within: func(_ *testing.T, n int64) bool {
			return field(1, strings.Repeat("[", int(n))+strings.Repeat("]", int(n))).Check() == nil
		}},
		{Const: "MaxFiles", Max: 16, Within: func(_ *testing.T, n int64) bool { return CheckFiles(files(n, 0)) == nil }},
		{Const: "MaxFile", Max: 16 << 20, Within: func(_ *testing.T, n int64) bool { return CheckFiles(files(1, n)) == nil }},
		{Const: "MaxFile", Max: 16 << 20, Within: func(_ *testing.T, n int64) bool { // of an upload
			r := httptest.NewRequest("PUT", "/", nil)
			r.SetPathValue("sha256", strings.Repeat("0", 64))
			r.ContentLength = n // the body is shorter, which is another refusal
			_, _, err := NewServer(Options{}).putBlob(httptest.NewRecorder(), r, "goulard")
			return err.(*refusal).code != http.StatusRequestEntityTooLarge
		}},
		{Const: "MaxFile", Max: 16<<20 + 1, Within: func(_ *testing.T, n int64) bool { // bytes that are read, one more than the limit of an upload
			b := newBlobs(zeros(n), memoryQuota, time.Now)
			k := blobKey{"goulard", zeros(n).sum()}
			b.stored[k] = &blob{size: n}
			_, size, err := b.read(k)
			return err == nil && size == n
		}},
		{Const: "MaxFilesBytes", Max: 32 << 20, Within: func(_ *testing.T, n int64) bool {
			return CheckFiles(append(files(2, 15<<20), files(1, n-30<<20)...)) == nil
		}},
		{Const: "maxFileName", Max: 255, Within: func(_ *testing.T, n int64) bool { return ValidFileName(xs(n)) }},
		{Const: "maxFileType", Max: 127, Within: func(_ *testing.T, n int64) bool { return ValidFileType("text/" + xs(n-5)) }},
	})
}

// zeros is a store with one blob of this many zeros.
type zeros int64

func (z zeros) keep(blobKey, io.Reader, func() error) error { return nil }
func (z zeros) remove(blobKey) error                        { return nil }
func (z zeros) data() []byte                                { return make([]byte, z) }

func (z zeros) open(blobKey) (io.ReadSeekCloser, error) {
	return readSeekNopCloser{bytes.NewReader(z.data())}, nil
}

func (z zeros) sum() string { return fileOf("", string(z.data())).SHA256 }

// TestLimitsOfTheServer checks each limit of the ledger and its callers at its boundary.
func TestLimitsOfTheServer(t *testing.T) {
	clock := newTestClock()
	room := func(proven bool, change func(*ledger)) bool {
		l := newLedger()
		change(&l)
		return l.full(Message{To: "a", Text: "text", Proven: proven}) == ""
	}
	polls := func(caller string, n int64) bool {
		s := NewServer(Options{Open: true})
		s.pollingBy[caller] = int(n) - 1
		return s.beginPolling("goulard", caller) == nil
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxPerMailbox", Max: 1000, Within: func(_ *testing.T, n int64) bool {
			return room(true, func(l *ledger) { l.mailboxes["a"] = make([]storedMessage, n-1) })
		}},
		{Const: "maxPerMailbox", Max: 500, Within: func(_ *testing.T, n int64) bool {
			return room(false, func(l *ledger) { l.mailboxes["a"] = make([]storedMessage, n-1) })
		}},
		{Const: "maxHeld", Max: 100_000, Within: func(_ *testing.T, n int64) bool { return room(true, func(l *ledger) { l.count = int(n) - 1 }) }},
		{Const: "maxHeld", Max: 50_000, Within: func(_ *testing.T, n int64) bool { return room(false, func(l *ledger) { l.count = int(n) - 1 }) }},
		{Const: "maxBytes", Max: 256 << 20, Within: func(_ *testing.T, n int64) bool {
			return room(true, func(l *ledger) { l.bytes = int(n) - len("text") })
		}},
		{Const: "maxBytes", Max: 128 << 20, Within: func(_ *testing.T, n int64) bool {
			return room(false, func(l *ledger) { l.bytes = int(n) - len("text") })
		}},
		{Const: "maxUnprovenNudges", Max: 8, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			for i := range n {
				l.add(Message{ID: "n", From: fmt.Sprint("a", i), To: "goulard", Kind: KindNudge})
			}
			return len(l.mailboxes["goulard"]) == int(n)
		}},
		{Const: "maxSeen", Max: 200_000, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			l.seenOrder = make([]seenPost, n-1)
			l.markSeen(seenPost{postKey: postKey{ID: "new"}})
			return len(l.seenOrder) == int(n)
		}},
		limittest.Duration("keepSeen", 7*day, 1, func(_ *testing.T, d time.Duration) bool {
			l := newLedger()
			l.markSeen(seenPost{postKey{ID: "old"}, clock.now()})
			l.markSeen(seenPost{postKey{ID: "new"}, clock.now().Add(d)})
			return l.seen[postKey{ID: "old"}]
		}),
		{Const: "maxRecord", Max: 1 << 20, Within: func(t *testing.T, n int64) bool { // including its newline
			const rest = `{"message":{"message":""}}` + "\n"
			l := newLedger()
			log := `{"version":1}` + "\n" + `{"message":{"message":"` + xs(n-int64(len(rest))) + `"}}` + "\n"
			damaged, err := l.replay(strings.NewReader(log))
			if err != nil || damaged == (l.count == 1) {
				t.Errorf("%v; damaged: %t; %d messages", err, damaged, l.count)
			}
			return !damaged
		}},
		{Const: "maxAgents", Max: 10_000, Within: func(_ *testing.T, n int64) bool { return acceptsRow(n, true) }},
		{Const: "maxAgents", Max: 5000, Within: func(_ *testing.T, n int64) bool { return acceptsRow(n, false) }},
		{Const: "maxAgents", Max: 10_000, Within: func(_ *testing.T, n int64) bool {
			rows := `{"agents":[{}` + strings.Repeat(",{}", int(n)-1) + `]}`
			plain, renamed := new(onlineList).decode([]byte(rows), nil), new(onlineList).decode([]byte(rows), Keys{"phase": "p"})
			if (plain == nil) != (renamed == nil) {
				t.Errorf("%d agents: %v, but with other names %v", n, plain, renamed)
			}
			return plain == nil
		}},
		{Const: "MaxCallsign", Max: 64, Within: func(_ *testing.T, n int64) bool {
			s := NewServer(Options{Tokens: twoTokens()})
			return callCode(s, "PUT", "/registry/goulard", strings.NewReader(`{"callsign":"`+xs(n)+`"}`)) == http.StatusNoContent
		}},
		{Const: "maxLongPolls", Max: 4, Within: func(_ *testing.T, n int64) bool {
			s := NewServer(Options{Open: true})
			s.polling["goulard"] = int(n) - 1
			return s.mayWait("goulard")
		}},
		{Const: "maxCallerPolls", Max: 16, Within: func(_ *testing.T, n int64) bool { return polls("goulard", n) }},
		{Const: "maxAllPolls", Max: 1024, Within: func(_ *testing.T, n int64) bool {
			s := NewServer(Options{Open: true})
			s.pollingAll = int(n) - 1
			return s.beginPolling("goulard", "goulard") == nil
		}},
		limittest.Duration("longPollPause", 5*time.Second, time.Second, func(_ *testing.T, d time.Duration) bool {
			s := NewServer(Options{Open: true})
			s.pollingAll = maxAllPolls
			r, ok := s.beginPolling("goulard", "").(*refusal)
			return ok && d <= r.after
		}),
		{Const: "maxUnprovenPolls", Max: 1000, Within: func(_ *testing.T, n int64) bool { return polls("", n) }},
		{Const: "callsPerMinute", Max: 5, Within: func(_ *testing.T, n int64) (all bool) {
			p := newRateLimit()
			for range n {
				all = p.take(rateKey{from: "goulard", proven: true}, clock.now()) == 0
			}
			return all
		}},
		{Const: "maxUnprovenSenders", Max: 50_000, Within: func(_ *testing.T, n int64) bool {
			p := newRateLimit()
			p.unproven, p.swept = int(n)-1, clock.now()
			return p.take(rateKey{from: "liar"}, clock.now()) == 0
		}},

		// Files without a waiting message.
		limittest.Duration("keepUploaded", justBefore(day), 1, func(_ *testing.T, d time.Duration) bool {
			return keepsFile(clock, blob{at: clock.Add(-d)})
		}),
	})
}

// acceptsRow reports whether a registry takes its row number n.
func acceptsRow(n int64, proven bool) bool {
	s := NewServer(Options{})
	for i := range n - 1 {
		s.ledger.agents[fmt.Sprint(i)] = Presence{}
	}
	return s.publish(Presence{Handle: "new"}, nil, proven) == nil
}

// keepsFile reports whether a blob is kept.
func keepsFile(clock *testClock, file blob) bool {
	b := newBlobs(&memoryBlobs{}, memoryQuota, clock.now)
	b.stored[blobKey{}] = &file
	b.sweep()
	return len(b.stored) == 1
}

// TestLimitsOfCalls checks each limit of a connection at its boundary.
func TestLimitsOfCalls(t *testing.T) {
	get := func(expect string) func(*http.Client) error {
		return func(c *http.Client) error {
			r := httptest.NewRequest("GET", "http://127.0.0.1:1/", nil)
			r.RequestURI = ""
			r.Header.Set("Expect", expect)
			_, err := c.Do(r)
			return err
		}
	}
	refusal := func(after, body string) *Error {
		resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {after}}, Body: io.NopCloser(strings.NewReader(body))}
		return new(Client).refusal("call", resp, "").(*Error)
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxHeader", Max: 64 << 10, Within: func(t *testing.T, n int64) bool { return acceptsAnswer(t, n, 0, get("")) }},
		{Const: "maxHeader", Max: 64 << 10, Within: func(t *testing.T, n int64) bool { // of the response to an upload
			return acceptsAnswer(t, n, 0, get("100-continue"))
		}},
		{Const: "maxRetryAfter", Max: 3600, Within: func(_ *testing.T, n int64) bool {
			return refusal(fmt.Sprint(n), "").RetryAfter == time.Duration(n)*time.Second
		}},
		{Const: "maxRefusal", Max: 4 << 10, Within: func(_ *testing.T, n int64) bool {
			return refusal("", fmt.Sprintf("%*s", int(n), `{"error":"no"}`)).Err != nil
		}},
		{Const: "maxQuoted", Max: 80, Within: func(_ *testing.T, n int64) bool { return quoteShort(xs(n)) == `"`+xs(n)+`"` }},
		limittest.Duration("ringTimeout", 2*time.Second, 2, func(t *testing.T, d time.Duration) bool {
			return acceptsAnswer(t, 0, d-1, func(c *http.Client) error {
				s := NewServer(Options{})
				s.wake = c
				return s.callWake("goulard", testWake("127.0.0.1:1", "goulard"))
			})
		}),
		limittest.Duration("writeTimeout", 30*time.Second, 2, func(t *testing.T, d time.Duration) bool { return acceptsSplitRequest(t, getStatus, d-1, "") }),
	})
}

// TestLimitsWithoutAConstant checks the limits that are defaults or units of time at their
// boundary.
func TestLimitsWithoutAConstant(t *testing.T) {
	clock := newTestClock()
	later := func(first, second string) func(*testing.T, time.Duration) bool {
		return func(t *testing.T, d time.Duration) bool { return acceptsSplitRequest(t, first, d-1, second) }
	}
	for name, l := range map[string]struct {
		longest time.Duration
		step    time.Duration // two if the limit ends something that sleeps
		within  func(*testing.T, time.Duration) bool
	}{
		"a released file": {justBefore(time.Hour), 1, func(_ *testing.T, d time.Duration) bool {
			return keepsFile(clock, blob{at: clock.Add(-d), released: true})
		}},
		"a look for old files": {justBefore(time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			b := newBlobs(&memoryBlobs{}, memoryQuota, clock.now)
			b.swept = clock.Add(-d)
			b.sweep()
			return b.swept.Equal(clock.Add(-d))
		}},
		"an agent that is online": {justBefore(35 * time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			return NewServer(Options{Now: clock.now}).isOnline(Presence{SeenAt: clock.Add(-d)})
		}},
		"a call that counts": {justBefore(time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			return len(lastMinute([]time.Time{clock.Add(-d)}, clock.now())) == 1
		}},
		"a long poll": {time.Minute, 2, func(t *testing.T, d time.Duration) (whole bool) {
			synctest.Test(t, func(*testing.T) {
				began := time.Now()
				callCode(NewServer(Options{Tokens: twoTokens()}), "GET", "/mailbox/goulard?wait="+d.String(), nil)
				whole = time.Since(began) == d
			})
			return whole
		}},
		"an answer": {30 * time.Second, 2, func(t *testing.T, d time.Duration) bool {
			return acceptsAnswer(t, 0, d-1, func(c *http.Client) error {
				return (&Client{URL: "http://127.0.0.1:1", http: c}).Ack(context.Background(), "m") // the context of the test is outside the bubble
			})
		}},
		"the header of a request": {5 * time.Second, 2, later("GET /status HTTP/1.1\r\n", "Host: 127.0.0.1\r\n\r\n")},
		"a whole request":         {15 * time.Second, 2, later("POST /nudge/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 12\r\n\r\n", `{"from":"b"}`)},
		"an upload":               {time.Minute, 2, later("PUT /blob/"+fileOf("", "x").SHA256+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\n", "x")},
	} {
		limittest.Run(t, []limittest.Limit{limittest.Duration(name, l.longest, l.step, l.within)})
	}
}

const getStatus = "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

// acceptsSplitRequest reports whether a server accepts a request whose second part comes after a
// pause.
func acceptsSplitRequest(t *testing.T, first string, pause time.Duration, second string) (ok bool) {
	synctest.Test(t, func(t *testing.T) {
		conns, h := make(pipes), NewServer(Options{Open: true}).HTTPServer()
		go h.Serve(conns)
		conn, _ := conns.dial(t.Context(), "", "")
		io.WriteString(conn, first)
		time.Sleep(pause)
		io.WriteString(conn, second) // fails if the server has hung up
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		ok = err == nil && resp.StatusCode/100 == 2
		h.Close()
	})
	return ok
}

// acceptsAnswer reports whether a client accepts an answer that comes after a pause and has a header
// of this many bytes, or the shortest one.
func acceptsAnswer(t *testing.T, header int64, pause time.Duration, call func(*http.Client) error) (ok bool) {
	synctest.Test(t, func(*testing.T) {
		conns, c := make(pipes, 1), plainClient(&net.Dialer{})
		c.Transport.(*exchanger).dial = conns.dial
		var server sync.WaitGroup
		server.Go(func() {
			conn := <-conns
			defer conn.Close()
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				return
			}
			time.Sleep(pause)
			const least = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: \r\n\r\n"
			io.WriteString(conn, strings.Replace(least, "X: ", "X: "+xs(max(header-int64(len(least)), 0)), 1))
		})
		ok = call(c) == nil
		server.Wait()
	})
	return ok
}

// TestFileQuotas tries the quotas of files at their edge: that of one sender, that of all, and the
// quarter that all unproven senders have.
func TestFileQuotas(t *testing.T) {
	for _, tt := range []struct {
		total        blobQuota
		owner, other string
		bytes, count int64
	}{
		{blobQuota{1 << 40, 1 << 20}, "goulard", "goulard", 128 << 20, 256},
		{memoryQuota, "goulard", "dorlange", 128 << 20, 1024},
		{diskQuota, "goulard", "dorlange", 2 << 30, 8192},
		{memoryQuota, unprovenOwner, "dorlange", 32 << 20, 256},
		{diskQuota, unprovenOwner, "dorlange", 512 << 20, 2048},
	} {
		room := func(sizes ...int64) bool {
			b := newBlobs(&memoryBlobs{}, tt.total, time.Now)
			for i, size := range sizes {
				b.stored[blobKey{tt.other, fmt.Sprint(i)}] = &blob{size: size, named: 1}
			}
			_, err := b.reserve(blobKey{tt.owner, "new"}, 10)
			return err == nil
		}
		name := fmt.Sprint(tt.owner, " besides ", tt.other)
		limittest.Run(t, []limittest.Limit{
			{Const: name, Max: tt.bytes, Within: func(_ *testing.T, n int64) bool { return room(n - 10) }},
			{Const: name, Max: tt.count, Within: func(_ *testing.T, n int64) bool { return room(make([]int64, n-1)...) }},
		})
	}
}
