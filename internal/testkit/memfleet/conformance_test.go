package memfleet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/memfleet"
)

// world is the servers of one agent, in memory or real, with two hosts.
type world struct {
	t        *testing.T
	hosts    [2]seat.Engine
	hasty    seat.Engine // a host that waits only for a moment
	stranger seat.Engine // an agent without the rights of [fleet]
	offline  seat.Engine // a host that reaches no server
	patience time.Duration

	forge  func(subject string, body []byte) // stores a message without a signature
	remove func(subject string)
	lose   func(answers int) // throws away the next answers to the first host and the hasty one
	hold   func()            // delays the next request of these
	free   func()            // delivers the delayed request

	revisions []uint64 // that were seen, in this order
}

// worlds start the worlds for so many agents.
var worlds = map[string]func(t *testing.T, agents int) []*world{
	"memory": func(t *testing.T, agents int) (all []*world) {
		for range agents {
			all = append(all, memoryWorld())
		}
		return all
	},
	"one server":    func(t *testing.T, agents int) []*world { return realWorlds(t, 1, agents) },
	"three servers": func(t *testing.T, agents int) []*world { return realWorlds(t, 3, agents) },
}

func memoryWorld() *world {
	s := &memfleet.Server{Now: time.Now}
	lose, hold, free := 0, false, func() {}
	s.Hook = func(c memfleet.Call, do func() error) error {
		switch {
		case c.Host == "stranger":
			return &fleet.Error{Denied: true, Err: errors.New("the key lacks a right")}
		case c.Host == "offline":
			return memfleet.ErrDown
		case c.Host != "second" && hold:
			hold, free = false, func() { _ = do() }
			return memfleet.ErrLost
		case c.Host != "second" && lose > 0:
			lose--
			_ = do()
			return memfleet.ErrLost
		}
		return do()
	}
	return &world{
		hosts: [2]seat.Engine{s.Host("first"), s.Host("second")}, hasty: s.Host("hasty"), stranger: s.Host("stranger"), offline: s.Host("offline"),
		forge: s.Forge, remove: s.Remove, lose: func(n int) { lose = n }, hold: func() { hold = true }, free: func() { free() },
	}
}

// fleetRight matches a right that only an agent with [fleet] needs, in the configuration of servers.
var fleetRight = regexp.MustCompile(`(?m)^.*(asl-head|asl\.hist|asl\.file)\.mallory.*\n`)

func realWorlds(t *testing.T, servers, agents int) (all []*world) {
	handles := []string{"mallory"}
	for n := range agents {
		handles = append(handles, fmt.Sprint("agent", n))
	}
	e := fleettest.StartBare(t, servers, handles...)
	e.Configure(func(text string) string { return fleetRight.ReplaceAllString(text, "") })
	e.Create()
	for _, handle := range handles[1:] {
		first, second, hasty, stranger, offline := e.Conn(handle), e.Conn(handle), e.Conn(handle), e.Conn("mallory"), e.Conn(handle)
		first.Timeout = 4 * time.Second // it waits for lost answers
		hasty.Timeout = time.Second
		offline.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("cut off") }
		g := &gate{}
		first.Dial, hasty.Dial = fleettest.Wire{Pass: g.pass}.Dial, fleettest.Wire{Pass: g.pass}.Dial
		admin := e.Intrude("")
		all = append(all, &world{
			hosts: [2]seat.Engine{first, second}, hasty: hasty, stranger: stranger, offline: offline, patience: 10 * time.Second,
			forge: func(subject string, body []byte) {
				t.Helper()
				_, real := place(handle, subject)
				if a := admin.Ask(&nats.Msg{Subject: real, Data: body}); strings.Contains(string(a.Data), "error") {
					t.Fatalf("%s: %s", subject, a.Data)
				}
			},
			remove: func(subject string) {
				t.Helper()
				stream, real := place(handle, subject)
				e.Ask("STREAM.PURGE."+stream, map[string]string{"filter": real}, nil)
			},
			lose: g.lose, hold: g.hold, free: g.free,
		})
	}
	return all
}

// place returns the stream and the subject of a subject in memory.
func place(handle, subject string) (stream, real string) {
	kind, rest, _ := strings.Cut(subject, ".")
	switch kind {
	case "hist":
		return fleet.HistoryStream, "asl.hist." + handle + "." + rest
	case "file":
		return fleet.FileStream, "asl.file." + handle + "." + rest
	case "wish":
		return fleet.HeadStream, "$KV.asl-head." + handle + ".wish"
	}
	return fleet.HeadStream, "$KV.asl-head." + handle
}

// gate loses and delays the frames of a connection.
type gate struct {
	mu      sync.Mutex
	answers int           // how many are lost from now on
	held    chan struct{} // the next request waits until it is closed
}

func (g *gate) pass(f fleettest.Frame) bool {
	g.mu.Lock()
	if strings.HasPrefix(f.Subject, "_INBOX_") && strings.HasSuffix(f.Verb, "MSG") && g.answers > 0 {
		g.answers--
		g.mu.Unlock()
		return false
	}
	var held chan struct{}
	if f.Verb == "HPUB" {
		held = g.held
	}
	g.mu.Unlock()
	if held != nil {
		<-held
	}
	return true
}

func (g *gate) lose(answers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers = answers
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = make(chan struct{})
}

func (g *gate) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.held)
	g.held = nil
}

// revision returns the name of a revision: A for the first one that was seen, and so on.
func (w *world) revision(r uint64) string {
	if r == 0 {
		return "none"
	}
	if !slices.Contains(w.revisions, r) {
		w.revisions = append(w.revisions, r)
	}
	return string(rune('A' + slices.Index(w.revisions, r)))
}

// number returns the revision with a name.
func (w *world) number(name string) uint64 {
	switch {
	case name == "none":
		return 0
	case name == "future":
		return 1 << 40
	}
	n := int(name[0] - 'A')
	if n >= len(w.revisions) {
		w.t.Fatalf("no revision %s was seen", name)
	}
	return w.revisions[n]
}

// class returns the class of an error.
func (w *world) class(err error) string {
	e, ok := errors.AsType[*fleet.Error](err)
	refused, _ := errors.AsType[*fleet.Refused](err)
	switch {
	case err == nil:
		return "ok"
	case refused != nil:
		return "refused, last " + w.revision(refused.Last)
	case errors.Is(err, fleet.ErrExists):
		return "exists"
	case ok && e.Code == 404:
		return "missing"
	case fleet.Unsure(err):
		return "unsure"
	case ok && e.Denied:
		return "denied"
	case ok && e.Code == 413:
		return "too large"
	case ok:
		return "error"
	}
	return err.Error()
}

// does checks the result of a call.
func (w *world) does(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// reads checks the result of a read, which a server that lags may answer later.
func (w *world) reads(what string, read func() string, want string) {
	w.t.Helper()
	got := read()
	for end := time.Now().Add(w.patience); got != want && time.Now().Before(end); got = read() {
		time.Sleep(10 * time.Millisecond) // the servers give no sign when they agree
	}
	w.does(what, got, want)
}

func (w *world) offer(after, body, want string) {
	w.t.Helper()
	w.offerBy(w.hosts[0], after, body, want)
}

func (w *world) offerBy(by seat.Engine, after, body, want string) {
	w.t.Helper()
	r, err := by.OfferHead(w.t.Context(), w.number(after), []byte(body))
	got := w.class(err)
	if err == nil {
		got = w.revision(r)
	}
	w.does("offer "+body[:min(len(body), 10)]+" after "+after, got, want)
}

func (w *world) load(want string) {
	w.t.Helper()
	for _, host := range w.hosts {
		w.reads("the head", func() string {
			began := time.Now().Add(-time.Minute)
			h, err := host.LoadHead(w.t.Context())
			if err != nil || h.Revision == 0 {
				return w.class(err) + fmt.Sprint(h.Body == nil && !h.Signed)
			}
			if h.Stored.Before(began) || h.Stored.After(time.Now()) {
				return h.Stored.String()
			}
			return fmt.Sprintf("%s %s %t %t", w.revision(h.Revision), h.Body[:min(len(h.Body), 10)], h.Body == nil, h.Signed)
		}, want)
	}
}

func (w *world) put(n uint64, body, want string) {
	w.t.Helper()
	w.does(fmt.Sprint("put block ", n), w.class(w.hosts[0].PutBlock(w.t.Context(), n, []byte(body))), want)
}

func (w *world) get(from, to uint64, want string) {
	w.t.Helper()
	w.reads(fmt.Sprint("blocks ", from, " to ", to), func() string {
		var all []string
		by := w.hosts[1]
		if strings.HasSuffix(want, "missing") {
			by = w.hasty
		}
		err := by.GetBlocks(w.t.Context(), from, to, func(n uint64, body []byte) error {
			all = append(all, fmt.Sprint(n, string(body[:min(len(body), 10)])))
			return nil
		})
		return strings.Join(append(all, w.class(err)), " ")
	}, want)
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func (w *world) putFile(sum string, size int64, data []byte, want string) {
	w.t.Helper()
	w.does("put file", w.class(w.hosts[0].PutFile(w.t.Context(), sum, size, bytes.NewReader(data))), want)
}

func (w *world) getFile(sum string, size int64, data []byte, want string) {
	w.t.Helper()
	w.reads("get file", func() string {
		err := w.hosts[1].GetFile(w.t.Context(), sum, size, func(r io.Reader) error {
			got, err := io.ReadAll(r)
			if err == nil && !bytes.Equal(got, data) {
				return fmt.Errorf("got %d bytes", len(got))
			}
			return err
		})
		return w.class(err)
	}, want)
}

func (w *world) wish(body, want string) {
	w.t.Helper()
	w.does("set wish", w.class(w.hosts[0].SetWish(w.t.Context(), []byte(body))), want)
}

func (w *world) wished(want string) {
	w.t.Helper()
	w.reads("wish", func() string {
		body, stored, err := w.hosts[1].LoadWish(w.t.Context())
		return fmt.Sprint(string(body), " ", body == nil, " ", stored.IsZero(), " ", w.class(err))
	}, want)
}

// content returns so many bytes, which differ from chunk to chunk.
func content(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return data
}

// cases are what the servers promise.
var cases = map[string]func(w *world){
	"no head": func(w *world) { w.load("oktrue") },
	"create and replace": func(w *world) {
		w.offer("none", "one", "A")
		w.load("A one false true")
		w.offer("A", "two", "B")
		w.load("B two false true")
		w.offer("B", "two", "C") // the same bytes are another head
		w.load("C two false true")
	},
	"the first head where one exists": func(w *world) {
		w.offer("none", "one", "A")
		w.offer("none", "other", "refused, last A")
		w.load("A one false true")
	},
	"after an older head": func(w *world) {
		w.offer("none", "one", "A")
		w.offer("A", "two", "B")
		w.offer("A", "other", "refused, last B")
		w.load("B two false true")
	},
	"after a head of the future": func(w *world) {
		w.offer("future", "one", "refused, last none")
		w.offer("none", "one", "A")
		w.offer("future", "other", "refused, last A")
		w.load("A one false true")
	},
	"the tenth head": func(w *world) {
		w.offer("none", "1", "A")
		for i := range 9 {
			w.offer(string(rune('A'+i)), fmt.Sprint(i+2), string(rune('B'+i)))
		}
		w.load("J 10 false true")
	},
	"the answer is lost": func(w *world) {
		w.lose(1)
		w.offerBy(w.hasty, "none", "one", "unsure")
		w.offer("none", "one", "refused, last A")
		w.load("A one false true")
		w.lose(2)
		w.offerBy(w.hasty, "A", "two", "unsure")
		w.offerBy(w.hasty, "A", "two", "unsure")
		w.offer("A", "two", "refused, last B")
		w.load("B two false true")
		w.offer("B", "three", "C")
	},
	"the request is delayed, and its repeat is first": func(w *world) {
		w.offer("none", "one", "A")
		w.hold()
		w.offerBy(w.hasty, "A", "two", "unsure")
		w.offerBy(w.hosts[1], "A", "other", "B")
		w.free()
		w.load("B other false true")
		w.offer("B", "three", "C")
		w.load("C three false true")
	},
	"the request is delayed, and arrives": func(w *world) {
		w.offer("none", "one", "A")
		w.hold()
		w.offerBy(w.hasty, "A", "two", "unsure")
		w.load("A one false true")
		w.free()
		w.load("B two false true")
		w.offer("A", "two", "refused, last B")
	},
	"two contenders": func(w *world) {
		w.offer("none", "one", "A")
		for round := range 20 {
			before := len(w.revisions)
			var errs [2]error
			var revisions [2]uint64
			var both sync.WaitGroup
			for i, host := range w.hosts {
				both.Go(func() {
					revisions[i], errs[i] = host.OfferHead(w.t.Context(), w.revisions[before-1], fmt.Append(nil, i))
				})
			}
			both.Wait()
			winner := slices.Index(errs[:], nil)
			if winner < 0 {
				w.t.Fatalf("round %d: nobody won: %v", round, errs)
			}
			w.revision(revisions[winner])
			loser := w.class(errs[1-winner])
			if loser != "refused, last none" { // the server was busy with the other one
				w.does("the loser", loser, "refused, last "+w.revision(revisions[winner]))
			}
			w.offerBy(w.hosts[1-winner], w.revision(w.revisions[before-1]), "late", "refused, last "+w.revision(revisions[winner]))
		}
	},
	"a removed head": func(w *world) {
		w.offer("none", "one", "A")
		w.offer("A", "", "B")
		w.load("B  true true")
		w.offer("none", "two", "refused, last B")
		w.offer("B", "two", "C")
		w.load("C two false true")
	},
	"a foreign head": func(w *world) {
		w.offer("none", "one", "A")
		w.forge("head", []byte("foreign"))
		w.load("B foreign false false")
		w.offer("A", "two", "refused, last B")
		w.offer("B", "two", "C")
		w.load("C two false true")
		w.forge("head", nil)
		w.load("D  true false")
	},
	"an erased head": func(w *world) {
		w.offer("none", "one", "A")
		w.remove("head")
		w.load("oktrue")
		w.offer("A", "two", "refused, last none")
		w.offer("none", "two", "B")
	},
	"a large head": func(w *world) {
		w.offer("none", strings.Repeat("x", fleet.MaxHead), "A")
		w.offer("A", strings.Repeat("x", fleet.MaxHead+1), "too large")
		w.load("A xxxxxxxxxx false true")
	},
	"a stranger": func(w *world) {
		w.offerBy(w.stranger, "none", "one", "denied")
		ctx := w.t.Context()
		_, err := w.stranger.LoadHead(ctx)
		w.does("load", w.class(err), "denied")
		w.does("put block", w.class(w.stranger.PutBlock(ctx, 1, []byte("a"))), "denied")
		w.does("get blocks", w.class(w.stranger.GetBlocks(ctx, 1, 1, nil)), "denied")
		w.does("put file", w.class(w.stranger.PutFile(ctx, sum(nil), 0, bytes.NewReader(nil))), "denied")
		w.does("get file", w.class(w.stranger.GetFile(ctx, sum(nil), 0, func(r io.Reader) error {
			_, err := io.ReadAll(r)
			return err
		})), "denied")
		w.does("set wish", w.class(w.stranger.SetWish(ctx, []byte("a"))), "denied")
		_, _, err = w.stranger.LoadWish(ctx)
		w.does("load wish", w.class(err), "denied")
	},
	"no server is reachable": func(w *world) {
		w.offerBy(w.offline, "none", "one", "error")
		_, err := w.offline.LoadHead(w.t.Context())
		w.does("load", w.class(err), "error")
		w.does("put block", w.class(w.offline.PutBlock(w.t.Context(), 1, []byte("a"))), "error")
		w.load("oktrue")
	},
	"the caller has given up": func(w *world) {
		w.offer("none", "one", "A")
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		_, err := w.hosts[0].OfferHead(ctx, w.number("A"), []byte("two"))
		w.does("offer", w.class(err), "error")
		_, err = w.hosts[0].LoadHead(ctx)
		w.does("load", w.class(err), "error")
		w.load("A one false true")
	},
	"blocks": func(w *world) {
		w.get(1, 1, "missing")
		w.put(1, "a", "ok")
		w.put(1, "a", "ok")
		w.put(1, "b", "exists")
		w.put(2, "b", "ok")
		w.put(4, "d", "ok")
		w.get(1, 2, "1a 2b ok")
		w.get(2, 2, "2b ok")
		w.get(1, 4, "missing")
		w.put(3, "", "ok")
		w.put(3, "", "ok")
		w.get(1, 4, "1a 2b 3 4d ok")
		w.get(2, 1, "ok")
		stop := errors.New("stop")
		err := w.hosts[0].GetBlocks(w.t.Context(), 1, 4, func(n uint64, _ []byte) error {
			if n == 2 {
				return stop
			}
			return nil
		})
		w.does("the error of take", w.class(err), "stop")
	},
	"two writers of a block": func(w *world) {
		for n := range uint64(20) {
			var errs [2]error
			var both sync.WaitGroup
			for i, host := range w.hosts {
				both.Go(func() { errs[i] = host.PutBlock(w.t.Context(), n+1, fmt.Append(nil, "writer", i)) })
			}
			both.Wait()
			winner := slices.Index(errs[:], nil)
			if winner < 0 {
				w.t.Fatalf("nobody has written block %d: %v", n+1, errs)
			}
			w.does("the other one", w.class(errs[1-winner]), "exists")
			w.get(n+1, n+1, fmt.Sprint(n+1, "writer", winner, " ok"))
		}
	},
	"the answer to a block is lost": func(w *world) {
		w.lose(1)
		w.put(1, "a", "ok")
		w.put(1, "b", "exists")
		w.get(1, 1, "1a ok")
	},
	"a foreign block": func(w *world) {
		w.forge("hist.1", []byte("a"))
		w.put(1, "a", "error")
		w.get(1, 1, "error")
		w.put(2, "b", "ok")
		w.get(1, 2, "error")
		w.get(2, 2, "2b ok")
	},
	"a large block": func(w *world) {
		w.put(1, strings.Repeat("x", fleet.MaxHead), "ok")
		w.put(2, strings.Repeat("x", fleet.MaxHead+1), "too large")
		w.get(1, 1, "1xxxxxxxxxx ok")
	},
	"many blocks": func(w *world) {
		var want strings.Builder
		for n := range uint64(600) {
			w.put(n+1, "x", "ok")
			fmt.Fprint(&want, n+1, "x ")
		}
		w.get(1, 600, want.String()+"ok")
	},
	"files": func(w *world) {
		for _, size := range []int64{0, 1, 256 << 10, 256<<10 + 1, 3 << 20} {
			data := content(int(size))
			w.getFile(sum(data), size, data, "missing")
			w.putFile(sum(data), size, data, "ok")
			w.putFile(sum(data), size, data, "ok")
			w.getFile(sum(data), size, data, "ok")
		}
	},
	"files with a wrong sum": func(w *world) {
		data := content(256<<10 + 1)
		w.putFile(sum(nil), int64(len(data)), data, "error")
		w.getFile(sum(nil), 0, nil, "missing")
		w.putFile(sum(data), int64(len(data))-1, data, "error")
		w.putFile(sum(data), int64(len(data))+1, data, "error")
		w.getFile(sum(data), int64(len(data)), data, "missing")
		w.putFile(sum(data), int64(len(data)), data, "ok")
		w.getFile(sum(data), 256<<10, data, "error")
		w.getFile(sum(data), 600<<10, data, "missing")
		w.forge("file."+sum(data)+".0", data[1:])
		w.getFile(sum(data), int64(len(data)), data, "error")
		w.putFile(sum(data), int64(len(data)), data, "ok")
		w.getFile(sum(data), int64(len(data)), data, "ok")
	},
	"files without a chunk": func(w *world) {
		data := content(600 << 10)
		for _, missing := range []string{".0", ".1", ".2"} {
			w.putFile(sum(data), int64(len(data)), data, "ok")
			w.getFile(sum(data), int64(len(data)), data, "ok")
			w.remove("file." + sum(data) + missing)
			w.getFile(sum(data), int64(len(data)), data, "missing")
		}
	},
	"the answers to a file are lost": func(w *world) {
		data := content(600 << 10)
		w.lose(1)
		w.putFile(sum(data), int64(len(data)), data, "ok")
		w.getFile(sum(data), int64(len(data)), data, "ok")
	},
	"wishes": func(w *world) {
		w.wished(" true true ok")
		w.wish("one", "ok")
		w.wished("one false false ok")
		w.load("oktrue")
		w.offer("none", "head", "A")
		w.wish("two", "ok")
		w.offer("A", "head2", "B")
		w.lose(1)
		w.wish("three", "ok")
		w.wished("three false false ok")
		w.load("B head2 false true")
		w.wish("", "ok")
		w.wished(" true true ok")
		w.wish(strings.Repeat("x", fleet.MaxHead+1), "too large")
		w.forge("wish", []byte("foreign"))
		w.wished(" true true ok")
	},
}

// TestConformance runs the cases against the servers in memory, one real server and three.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, start := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := start(t, len(cases))
			for name, run := range cases {
				w := all[0]
				all = all[1:]
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					w.t = t
					run(w)
				})
			}
		})
	}
}
