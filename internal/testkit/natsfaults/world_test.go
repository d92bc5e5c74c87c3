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
	loss    time.Time     // when the engine lost all that it had; zero if it did not
}

const (
	agents = 8
	speed  = 60 // of their clock
)

// newWorld starts it. What w carries may be nil: then nothing lies between the agents and
// the servers.
func newWorld(t *testing.T, timeout, patience time.Duration, w *fleettest.Wire) *world {
	var handles []string
	for n := range agents {
		handles = append(handles, "agent"+strconv.Itoa(n))
	}
	wo := &world{t: t, engine: fleettest.StartCluster(t, handles...), clock: newClock(speed), books: &books{kept: map[letter]time.Time{}}, ackWait: time.Minute}
	if !long() {
		wo.ackWait = 3 * time.Second
	}
	hurry(wo.engine, wo.ackWait)
	dir := t.TempDir()
	for _, handle := range handles {
		client := wo.engine.Client(handle)
		client.Timeout, client.Now = timeout, wo.clock.now
		if w != nil {
			client.Dial = w.Dial
		}
		m := newMember(client)
		m.patience = patience
		m.Agent = wired(dir, &post{client, wo.books}, handle, slices.DeleteFunc(slices.Clone(handles), func(h string) bool { return h == handle }), wo.clock)
		m.RunTurn = m.turn
		wo.members = append(wo.members, m)
	}
	return wo
}

// hurry has what is not acknowledged come again sooner than after the minute of
// docs/design.md, so that a short test need not wait for it.
func hurry(e *fleettest.Engine, wait time.Duration) {
	for handle := range e.Users {
		c := fleet.Mailbox(handle)
		c.AckWait = wait
		request := map[string]any{"stream_name": fleet.MailboxStream, "config": c, "action": "update"}
		e.Ask("CONSUMER.DURABLE.CREATE."+fleet.MailboxStream+"."+handle, request, nil)
	}
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
			o := order{Number: fmt.Sprintf("%d.%d", n, told)}
			told++
			for range 3 {
				o.Send = append(o.Send, w.members[(n+1+random.IntN(agents-1))%agents].Handle)
			}
			// They ask agents behind them only: two that ask each other wait for each other.
			if n < agents-1 && random.IntN(2) == 0 {
				o.Ask = []string{w.members[n+1+random.IntN(agents-1-n)].Handle}
			}
			text, _ := json.Marshal(o)
			if key, err = m.Tell(ctx, "operator", string(text)); err != nil {
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
	if err := settle(200*time.Millisecond, 3*time.Minute+2*w.ackWait, w.restless); err != nil {
		w.t.Fatal(err)
	}
}

// settle waits until restless has no reason. It asks at this pace.
func settle(pace, patience time.Duration, restless func() (why string)) error {
	over := time.After(patience)
	for tick := time.NewTicker(pace); ; {
		why := restless()
		if why == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-over:
			return fmt.Errorf("it does not come to rest: %s", why)
		}
	}
}

func (w *world) restless() string {
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
	w.engine.Ask("STREAM.INFO."+fleet.MailboxStream, nil, &info)
	if info.State.Messages > 0 {
		return fmt.Sprintf("the engine has %d messages", info.State.Messages)
	}
	return ""
}
