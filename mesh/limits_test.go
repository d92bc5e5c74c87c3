package mesh

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/limittest"
)

func x(n int64) string { return strings.Repeat("x", int(n)) }

// padded returns a text with spaces behind it, n bytes long.
func padded(text string, n int64) string { return text + strings.Repeat(" ", int(n)-len(text)) }

// sized returns n files of these sizes.
func sized(sizes ...int64) []File {
	files := make([]File, len(sizes))
	for i, size := range sizes {
		files[i] = File{SHA256: strings.Repeat("0", 64), Name: "f", Size: size}
	}
	return files
}

// fields returns n results, and a value for each.
func fields(n int64, value string) (fs Fields) {
	for i := range n {
		fs = append(fs, Field{Name: fmt.Sprint("f", i), Value: json.RawMessage(value)})
	}
	return fs
}

// mailboxOf returns a mailbox with n messages of 100 bytes.
func mailboxOf(n int64) (box []heldMessage) {
	for i := range n {
		box = append(box, heldMessage{Message: Message{ID: fmt.Sprint(i)}, size: 100})
	}
	return box
}

func TestLimitsOfTheLedger(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxPerMailbox", Max: 1000, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			l.mailboxes["b"] = make([]heldMessage, n-1)
			return l.room(Message{To: "b", Proven: true})
		}},
		{Const: "maxHeld", Max: 100_000, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			l.count = int(n) - 1
			return l.room(Message{To: "b", Proven: true})
		}},
		{Const: "maxBytes", Max: 256 << 20, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			l.bytes = int(n) - 3
			return l.room(Message{To: "b", Text: "abc", Proven: true})
		}},
		{Const: "maxBytes", Max: 128 << 20, Within: func(_ *testing.T, n int64) bool { // for unproven senders
			l := newLedger()
			l.bytes = int(n) - 3
			return l.room(Message{To: "b", Text: "abc"})
		}},
		{Const: "maxAgents", Max: 10_000, Within: func(t *testing.T, n int64) bool {
			s := NewServer(Options{})
			defer s.Close()
			for i := range n - 1 {
				s.ledger.agents[strconv.FormatInt(i, 10)] = Presence{}
			}
			return s.publish(Presence{Handle: "one-more"}, nil, true) == nil
		}},
		{Const: "maxAgents", Max: 10_000, Within: func(_ *testing.T, n int64) bool { // of a list that a mesh shows
			var list presenceList
			return json.Unmarshal([]byte("["+strings.Repeat("{},", int(n)-1)+"{}]"), &list) == nil
		}},
		{Const: "maxSeen", Max: 200_000, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			first := seenPost{postKey: postKey{ID: "first"}}
			l.markSeen(first)
			l.seenOrder = append(l.seenOrder, make([]seenPost, n-2)...)
			l.markSeen(seenPost{postKey: postKey{ID: "last"}})
			return l.seen[first.postKey]
		}},
		limittest.Duration("keepSeen", 7*24*time.Hour, 1, func(_ *testing.T, d time.Duration) bool {
			l, at := newLedger(), newTestClock().now()
			first := seenPost{postKey: postKey{ID: "first"}, At: at}
			l.markSeen(first)
			l.markSeen(seenPost{postKey: postKey{ID: "last"}, At: at.Add(d)})
			return l.seen[first.postKey]
		}),
		{Const: "maxUnprovenNudges", Max: 8, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			for i := range n {
				l.add(Message{Kind: KindNudge, From: fmt.Sprint("a", i), To: "b"})
			}
			return len(l.mailboxes["b"]) == int(n)
		}},
		{Const: "MaxMessages", Max: 200, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			l.mailboxes["b"] = mailboxOf(n)
			return len(l.oldest("b")) == int(n)
		}},
		{Const: "MaxMailbox", Max: 4 << 20, Within: func(_ *testing.T, n int64) bool {
			l := newLedger()
			l.mailboxes["b"] = mailboxOf(2)
			l.mailboxes["b"][1].size = int(n) - len(`{"halted":false,"messages":[,,]}`) - 100
			return len(l.oldest("b")) == 2
		}},
		{Const: "maxLongPolls", Max: 4, Within: func(t *testing.T, n int64) (begun bool) {
			s := NewServer(Options{})
			defer s.Close()
			for range n {
				begun = s.beginPolling("a", "a")
			}
			return begun
		}},
		{Const: "maxUnprovenPolls", Max: 1000, Within: func(t *testing.T, n int64) bool {
			s := NewServer(Options{})
			defer s.Close()
			s.polling[""] = int(n) - 1
			return s.beginPolling("a", "")
		}},
		{Const: "callsPerMinute", Max: 5, Within: func(_ *testing.T, n int64) bool {
			p, wait := newRateLimit(), time.Duration(0)
			for range n {
				wait = p.take(rateKey{from: "a", proven: true}, newTestClock().now())
			}
			return wait == 0
		}},
		{Const: "maxUnprovenSenders", Max: 50_000, Within: func(_ *testing.T, n int64) bool {
			p, now := newRateLimit(), newTestClock().now()
			p.swept, p.unproven = now, int(n)-1
			return p.take(rateKey{from: "a"}, now) == 0
		}},
		limittest.Duration("keepUploaded", 24*time.Hour-1, 1, func(t *testing.T, d time.Duration) bool {
			now := newTestClock()
			b := newBlobs(&memoryBlobs{held: map[blobKey][]byte{}}, memoryQuota, now.now)
			b.held[blobKey{"a", "sum"}] = &blob{at: now.Time}
			now.Time = now.Add(d)
			b.sweep()
			return len(b.held) == 1
		}),
		{Const: "maxRecord", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			l := newLedger()
			record := fmt.Sprintf(`{"message":{"to":"b","message":%q}}`+"\n", x(n-int64(len(`{"message":{"to":"b","message":""}}`+"\n"))))
			damaged, err := l.replay(strings.NewReader(`{"version":1}` + "\n" + record))
			if err != nil || len(record) != int(n) {
				t.Fatal(err, len(record))
			}
			return !damaged && l.count == 1
		}},
	})
}

func TestLimitsOfAMessage(t *testing.T) {
	sendable := func(m Message) bool {
		m.ID, m.Kind, m.Text = "1", KindMessage, "hello"
		return m.Unsendable() == ""
	}
	posted := func(n int64, length func(int64) int64) bool {
		r := httptest.NewRequest(http.MethodPost, "/message", strings.NewReader(padded(`{"from":"a"}`, n)))
		r.ContentLength = length(n)
		return readBody(httptest.NewRecorder(), r, &postBody{}) == nil
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "MaxMessage", Max: 64 << 10, Within: func(_ *testing.T, n int64) bool {
			return posted(n, func(n int64) int64 { return n })
		}},
		{Const: "MaxMessage", Max: 64 << 10, Within: func(_ *testing.T, n int64) bool { // of unknown length
			return posted(n, func(int64) int64 { return -1 })
		}},
		{Const: "MaxMessage", Max: 64 << 10, Within: func(_ *testing.T, n int64) bool { return Message{Text: x(n)}.Malformed() == "" }},
		{Const: "MaxHops", Max: 4, Within: func(_ *testing.T, n int64) bool {
			return sendable(Message{Hops: strings.Split(strings.Repeat("a ", int(n)-1)+"a", " ")})
		}},
		{Const: "maxKeptHops", Max: 32, Within: func(_ *testing.T, n int64) bool {
			return Message{Hops: strings.Split(strings.Repeat("a ", int(n)-1)+"a", " ")}.Malformed() == ""
		}},
		{Const: "maxID", Max: 256, Within: func(_ *testing.T, n int64) bool { return Message{ID: x(n)}.Malformed() == "" }},
		{Const: "maxOurID", Max: 128, Within: func(_ *testing.T, n int64) bool { return ValidTrace(x(n)) }},
		{Const: "maxKind", Max: 64, Within: func(_ *testing.T, n int64) bool { return Message{Kind: x(n)}.Malformed() == "" }},
		{Const: "maxCorrelation", Max: 256, Within: func(_ *testing.T, n int64) bool { return sendable(Message{Correlation: x(n)}) }},
		{Const: "longest", Max: 96, Within: func(_ *testing.T, n int64) bool { return keyPart(x(n)) == x(n) }},
		{Const: "longest", Max: 96, Within: func(_ *testing.T, n int64) bool { // of an escaped id
			return keyPart(x(n-3)+"/") == x(n-3)+"%2F"
		}},
		{Const: "MaxCallsign", Max: 64, Within: func(t *testing.T, n int64) bool {
			_, url := startServer(t, Options{Tokens: twoTokens()})
			resp, _ := rawCall(t, http.MethodPut, url+"/registry/goulard", "tg", `{"callsign":"`+x(n)+`"}`)
			return resp.StatusCode == http.StatusNoContent
		}},

		// Files and results.
		{Const: "MaxFiles", Max: 16, Within: func(_ *testing.T, n int64) bool { return sendable(Message{Files: sized(make([]int64, n)...)}) }},
		{Const: "MaxFile", Max: 16 << 20, Within: func(_ *testing.T, n int64) bool { return sendable(Message{Files: sized(n)}) }},
		{Const: "MaxFile", Max: 16 << 20, Within: func(t *testing.T, n int64) bool { // of an upload
			s := NewServer(Options{Tokens: twoTokens()})
			defer s.Close()
			r := httptest.NewRequest(http.MethodPut, "/blob/"+strings.Repeat("0", 64), strings.NewReader(""))
			r.ContentLength, r.Host = n, "127.0.0.1"
			r.Header.Set("Authorization", "Bearer tg")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Code != http.StatusRequestEntityTooLarge
		}},
		{Const: "MaxFilesBytes", Max: 32 << 20, Within: func(_ *testing.T, n int64) bool {
			return sendable(Message{Files: sized(12<<20, 12<<20, n-24<<20)})
		}},
		{Const: "maxFileName", Max: 255, Within: func(_ *testing.T, n int64) bool { return ValidFileName(x(n)) }},
		{Const: "maxFileType", Max: 127, Within: func(_ *testing.T, n int64) bool { return ValidFileType("text/" + x(n-5)) }},
		{Const: "MaxFields", Max: 64, Within: func(_ *testing.T, n int64) bool { return sendable(Message{Fields: fields(n, "1")}) }},
		{Const: "MaxFields", Max: 64, Within: func(t *testing.T, n int64) bool { // that are read
			data, err := fields(n, "1").MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			return json.Unmarshal(data, &Fields{}) == nil
		}},
		{Const: "MaxFieldsBytes", Max: 32 << 10, Within: func(_ *testing.T, n int64) bool {
			return sendable(Message{Fields: fields(1, `"`+x(n-int64(len(`{"f0":""}`)))+`"`)})
		}},
		{Const: "MaxFieldDepth", Max: 100, Within: func(_ *testing.T, n int64) bool {
			return sendable(Message{Fields: fields(1, strings.Repeat("[", int(n))+strings.Repeat("]", int(n)))})
		}},
	})
}

// answeredWith has exchange read an answer from memory.
func answeredWith(t *testing.T, answer string) (*http.Response, error) {
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close(); server.Close() })
	go func() {
		if _, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
			io.WriteString(server, answer)
		}
		server.Close()
	}()
	req, err := http.NewRequest(http.MethodGet, "http://mesh.test/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	return exchange(client, req)
}

// decoded returns what is read of a mailbox with n messages, each of this form.
func decoded(t *testing.T, n int64, form string) (box Mailbox) {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(form, i))
	}
	if err := box.decode([]byte(`{"messages":[`+strings.Join(list, ",")+`]}`), nil); err != nil {
		t.Fatal(err)
	}
	return box
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	conn chan net.Conn
	done chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l oneConn) Close() error   { close(l.done); return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestLimitsOfACall(t *testing.T) {
	answer := func(n int64) *http.Response {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(padded("{}", n)))}
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "MaxMessages", Max: 200, Within: func(t *testing.T, n int64) bool { return int64(len(decoded(t, n, `{"id":"%d"}`).Messages)) == n }},
		{Const: "MaxMessages", Max: 200, Within: func(t *testing.T, n int64) bool { // that cannot be decoded
			return int64(len(decoded(t, n, `{"id":%d}`).Undecoded)) == n
		}},
		{Const: "MaxMailbox", Max: 4 << 20, Within: func(_ *testing.T, n int64) bool { return request{}.read(answer(n), nil) == nil }},
		{Const: "maxQuoted", Max: 80, Within: func(_ *testing.T, n int64) bool { return quoteShort(x(n)) == `"`+x(n)+`"` }},
		{Const: "maxRetryAfter", Max: 3600, Within: func(t *testing.T, n int64) bool {
			refused := answer(2)
			refused.StatusCode = http.StatusTooManyRequests
			refused.Header.Set("Retry-After", strconv.FormatInt(n, 10))
			err, ok := new(Client).refusal("send message", refused, "").(*Error)
			return ok && err.RetryAfter == time.Duration(n)*time.Second
		}},
		{Const: "maxHeader", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			const rest = "HTTP/1.1 204 No Content\r\nX: \r\n\r\n"
			resp, err := answeredWith(t, strings.Replace(rest, "X: ", "X: "+x(n-int64(len(rest))), 1))
			return err == nil && resp.StatusCode == http.StatusNoContent
		}},
		limittest.Duration("ringTimeout", 2*time.Second, time.Second, func(t *testing.T, d time.Duration) (within bool) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(Options{})
				defer s.Close()
				s.wake = &http.Client{Transport: &exchanger{dial: func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					go func() {
						defer server.Close()
						if _, err := http.ReadRequest(bufio.NewReader(server)); err != nil {
							return
						}
						time.Sleep(d - 1)
						io.WriteString(server, "HTTP/1.1 204 No Content\r\n\r\n")
					}()
					return client, nil
				}}}
				within = s.callWake("a", testWake("127.0.0.1:9", "a")) == nil
				time.Sleep(d) // until the listener has ended
			})
			return within
		}),
		limittest.Duration("writeTimeout", 30*time.Second, time.Second, func(t *testing.T, d time.Duration) (within bool) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(Options{})
				defer s.Close()
				h, l := s.HTTPServer(), oneConn{make(chan net.Conn, 1), make(chan struct{})}
				client, server := net.Pipe()
				l.conn <- server
				go h.Serve(l)
				io.WriteString(client, "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
				time.Sleep(d - 1) // the answer waits for its reader
				_, err := http.ReadResponse(bufio.NewReader(client), nil)
				within = err == nil
				client.Close()
				h.Close()
			})
			return within
		}),
	})
}
