package natsfaults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
)

// world is an engine of three servers, and agents that write to each other through it.
type world struct {
	t       *testing.T
	engine  *fleettest.Engine
	clock   clock
	members []*member
	books   *books
	ackWait time.Duration // after which what is not acknowledged comes again

	patience time.Duration // of a question, by their clock
	loss     time.Time     // when the engine lost all that it had; zero if it did not
}

const (
	agents = 8
	speed  = 60 // of their clock
)

// newWorld starts it. What w carries may be nil: then nothing lies between the agents and
// the servers.
func newWorld(t *testing.T, timeout time.Duration, w *wire) *world {
	var handles []string
	for n := range agents {
		handles = append(handles, "agent"+strconv.Itoa(n))
	}
	wo := &world{t: t, engine: fleettest.StartCluster(t, handles...), clock: newClock(speed), books: newBooks(), ackWait: time.Minute, patience: 20 * time.Hour}
	if !long() {
		wo.ackWait = 3 * time.Second
	}
	wo.hurry()
	dir := t.TempDir()
	for _, handle := range handles {
		client := wo.engine.Client(handle)
		client.Timeout, client.Now = timeout, wo.clock.now
		if w != nil {
			client.Dial = w.dial
		}
		m := newMember(client)
		m.patience = func() time.Duration { return wo.patience }
		m.Agent = wired(dir, &post{client, wo.books}, handle, slices.DeleteFunc(slices.Clone(handles), func(h string) bool { return h == handle }), wo.clock)
		m.RunTurn = m.turn
		wo.members = append(wo.members, m)
	}
	return wo
}

// hurry has what is not acknowledged come again sooner than after the minute of
// docs/design.md, so that a short test need not wait for it.
func (w *world) hurry() { hurry(w.t, w.engine, w.ackWait) }

func hurry(t *testing.T, e *fleettest.Engine, wait time.Duration) {
	t.Helper()
	admin := e.Conn("")
	defer admin.Close()
	for handle := range e.Users {
		c := fleet.Mailbox(handle)
		c.AckWait = wait
		request := map[string]any{"stream_name": fleet.MailboxStream, "config": c, "action": "update"}
		e.Until("the consumer of "+handle+" is changed", func(ctx context.Context) error {
			return ask(ctx, admin, "CONSUMER.DURABLE.CREATE."+fleet.MailboxStream+"."+handle, request, &struct{}{})
		})
	}
}

// ask asks JetStream.
func ask(ctx context.Context, c *fleet.Conn, subject string, request, into any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	a, err := c.Request(ctx, "$JS.API."+subject, body, nil)
	if err != nil {
		return err
	}
	var refused struct {
		Error *struct {
			Text string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(a.Data, &refused); err != nil {
		return err
	}
	if refused.Error != nil {
		return errors.New(refused.Error.Text)
	}
	return json.Unmarshal(a.Data, into)
}

// load has all agents work. Each has an order at a time, until harm returns; then they
// finish what they have begun.
func (w *world) load(seed uint64, harm func(context.Context)) {
	w.t.Helper()
	working, stop := context.WithCancel(w.t.Context())
	living, end := context.WithCancel(w.t.Context())
	defer end()
	var wg sync.WaitGroup
	for n, m := range w.members {
		wg.Go(func() { w.live(living, working, m, n, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	harm(working)
	stop()
	w.rest()
	end()
	wg.Wait()
}

// live polls, as a listener does, and gives the agent its orders.
func (w *world) live(ctx, working context.Context, m *member, n int, random *rand.Rand) {
	for told, key := 0, ""; ctx.Err() == nil; {
		s, err := m.Store.Read()
		if err != nil {
			w.t.Error(err)
			return
		}
		if _, open := s.Message(key); !open && working.Err() == nil && len(s.Outbox) < 10 {
			o := order{number: fmt.Sprintf("%d.%d", n, told)}
			told++
			for range 3 {
				o.send = append(o.send, w.members[(n+1+random.IntN(agents-1))%agents].Handle)
			}
			// They ask agents behind them only: two that ask each other wait for each other.
			if n < agents-1 && random.IntN(2) == 0 {
				o.ask = []string{w.members[n+1+random.IntN(agents-1-n)].Handle}
			}
			if key, err = m.Tell(ctx, "operator", o.String()); err != nil {
				w.t.Error(err)
				return
			}
		}
		if _, err := m.Poll(ctx, cycle.PollOptions{}); err != nil && !errors.Is(err, cycle.ErrBusy) && ctx.Err() == nil {
			w.t.Errorf("%s: %v", m.Handle, err)
		}
		watching, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		_, _ = m.client.Watch(watching, 300*time.Millisecond) // a poll that is too much does no harm
		cancel()
	}
}

// rest waits until nothing is left to do: no agent has anything in its inbox or outbox,
// and the engine has no message.
func (w *world) rest() {
	w.t.Helper()
	admin := w.engine.Conn("")
	defer admin.Close()
	over := time.After(3*time.Minute + 2*w.ackWait)
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		why := w.restless(admin)
		if why == "" {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			w.t.Fatalf("it does not come to rest: %s", why)
		}
	}
}

func (w *world) restless(admin *fleet.Conn) string {
	for _, m := range w.members {
		if _, why := m.restless(w.t.Context()); why != "" {
			return why
		}
	}
	var info struct {
		State struct {
			Messages int `json:"messages"`
		} `json:"state"`
	}
	if err := ask(w.t.Context(), admin, "STREAM.INFO."+fleet.MailboxStream, nil, &info); err != nil {
		return err.Error()
	}
	if info.State.Messages > 0 {
		return fmt.Sprintf("the engine has %d messages", info.State.Messages)
	}
	return ""
}
