package fleettest

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Intruder is a user of the servers with a program of its own.
type Intruder struct {
	*nats.Conn
	Inbox  string // the reply subject of its requests
	Answer chan *nats.Msg

	engine  *Engine
	mu      sync.Mutex
	refused []error
}

// Intrude connects with the key of a handle, or of the administrator for "".
func (e *Engine) Intrude(handle string) *Intruder {
	e.t.Helper()
	inbox := "_INBOX"
	if handle != "" {
		inbox += "_" + handle
	}
	in := &Intruder{engine: e, Inbox: inbox + ".answer", Answer: make(chan *nats.Msg, 100)}
	var err error
	in.Conn, err = nats.Connect(e.URL(), nats.Nkey(e.key(handle).Public, e.signer(handle)), nats.CustomInboxPrefix(inbox), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.refused = append(in.refused, err)
	}))
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(in.Close)
	if _, err := in.ChanSubscribe(in.Inbox, in.Answer); err != nil {
		e.t.Fatal(err)
	}
	return in
}

// Settle waits until the server has read every published message.
func (in *Intruder) Settle() {
	in.engine.t.Helper()
	if err := in.Flush(); err != nil {
		in.engine.t.Fatal(err)
	}
}

// IsRefused waits until the server has said that the user lacks the right to a subject.
func (in *Intruder) IsRefused(subject string) {
	in.engine.t.Helper()
	in.Settle()
	in.engine.Until(subject+" is refused", func(context.Context) error { // the client reports it in the background
		in.mu.Lock()
		defer in.mu.Unlock()
		n := slices.IndexFunc(in.refused, func(err error) bool {
			return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), strconv.Quote(subject))
		})
		if n < 0 {
			return errors.New("the server has not said so")
		}
		in.refused = slices.Delete(in.refused, n, n+1)
		return nil
	})
}

// Ask publishes a request and returns its answer, which may be an error of JetStream.
func (in *Intruder) Ask(m *nats.Msg) *nats.Msg {
	in.engine.t.Helper()
	a, err := in.RequestMsg(m, patience)
	if err != nil {
		in.engine.t.Fatalf("%s is not answered: %v", m.Subject, err)
	}
	return a
}

// signer returns the function that signs with the key of a user.
func (e *Engine) signer(handle string) nats.SignatureHandler {
	e.t.Helper()
	pair, err := nkeys.FromSeed([]byte(e.key(handle).Seed))
	if err != nil {
		e.t.Fatal(err)
	}
	return pair.Sign
}

// Sign signs a line and a body as an agent does, with the key of a user.
func (e *Engine) Sign(handle, line string, body []byte) string {
	e.t.Helper()
	sig, err := e.signer(handle)(append([]byte(line), body...))
	if err != nil {
		e.t.Fatal(err)
	}
	return base64.RawStdEncoding.EncodeToString(sig)
}
