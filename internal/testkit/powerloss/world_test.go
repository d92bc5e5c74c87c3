package powerloss

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
)

// kind is a kind of event in the world outside of the disk. No power loss takes it back.
type kind string

const (
	mailed  kind = "mailed"  // a mail came into the mailbox; text is the mail
	seen    kind = "seen"    // the mails uids were marked \Seen
	sent    kind = "sent"    // the SMTP server took text
	called  kind = "called"  // the mesh carried out a call
	rotated kind = "rotated" // the provider ended its refresh token; text is the next one
	used    kind = "used"    // an access token was used; text is its number
	did     kind = "did"     // a tool or an agent did text
	ended   kind = "ended"   // the command text succeeded
	told    kind = "told"    // text was accepted from us, or shown to us
)

// event is what happened at a time, in microseconds since 1970.
type event struct {
	at   int64
	kind kind
	text string
	uids []imap.UID
	call meshCall
}

// meshCall is a request to the mesh.
type meshCall struct {
	method, path, auth string
	body               []byte
}

// world is what an agent talks to: a mailbox, an SMTP server and a mesh. It records
// what happens, and can be put back to where it was after some of it. Its addresses
// stay the same.
type world struct {
	mail *mailtest.Servers
	url  string // of the mesh

	mu     sync.Mutex
	events []event
	mesh   *mesh.Server
}

func newWorld(t *testing.T, dir string) *world {
	w := &world{mesh: mesh.NewServer(mesh.Options{Open: true})}
	var err error
	w.mail, err = mailtest.Start(dir, mailtest.Options{
		Username: "goulard@example.org",
		OnData: func(_ net.Conn, raw []byte) error {
			w.note(event{kind: sent, text: string(raw)})
			return nil
		},
		OnStore: func(set imap.NumSet, flags *imap.StoreFlags) {
			uids, _ := set.(imap.UIDSet).Nums()
			if flags.Op == imap.StoreFlagsAdd && slices.Contains(flags.Flags, imap.FlagSeen) {
				w.note(event{kind: seen, uids: uids})
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.mail.Close() })
	web := httptest.NewServer(http.HandlerFunc(w.serveMesh))
	t.Cleanup(web.Close)
	w.url = web.URL
	return w
}

// note records an event that happens now.
func (w *world) note(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.at = time.Now().UnixMicro()
	w.events = append(w.events, e)
}

// happened returns the events so far.
func (w *world) happened() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// serveMesh answers a call, and records it before the answer if it changed something.
func (w *world) serveMesh(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	server := w.mesh
	w.mu.Unlock()
	if r.Method == http.MethodGet {
		server.ServeHTTP(out, r)
		return
	}
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	if answer.Code < 300 {
		w.note(event{kind: called, call: meshCall{r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), body}})
	}
	for name, values := range answer.Header() {
		out.Header()[name] = values
	}
	out.WriteHeader(answer.Code)
	out.Write(answer.Body.Bytes())
}

// deliver puts a mail into the mailbox.
func (w *world) deliver(t *testing.T, raw string) {
	t.Helper()
	if _, err := w.mail.Append([]byte(raw), time.Now()); err != nil {
		t.Fatal(err)
	}
	w.note(event{kind: mailed, text: raw})
}

// reset puts the world back to where it was after these events, and goes on to
// record behind them.
func (w *world) reset(past []event) error {
	if err := w.mail.Reset(); err != nil {
		return err
	}
	flags := map[int][]imap.Flag{}
	for _, e := range past {
		for _, uid := range e.uids {
			flags[int(uid)] = []imap.Flag{imap.FlagSeen}
		}
	}
	server := mesh.NewServer(mesh.Options{Open: true})
	uid := 0
	for _, e := range past {
		switch e.kind {
		case mailed:
			uid++
			if _, err := w.mail.Append([]byte(e.text), time.UnixMicro(e.at), flags[uid]...); err != nil {
				return err
			}
		case called:
			r := httptest.NewRequest(e.call.method, e.call.path, bytes.NewReader(e.call.body))
			r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
			r.Header.Set("Content-Type", "application/json")
			if e.call.auth != "" {
				r.Header.Set("Authorization", e.call.auth)
			}
			answer := httptest.NewRecorder()
			if server.ServeHTTP(answer, r); answer.Code >= 300 {
				return fmt.Errorf("%s %s again: %d %s", e.call.method, e.call.path, answer.Code, answer.Body)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mesh, w.events = server, slices.Clone(past)
	return nil
}
