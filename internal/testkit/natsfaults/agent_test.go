package natsfaults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// clock runs faster than that of the machine, so that the pace of messages, five a
// minute, does not make a test long.
type clock struct {
	Began, Start time.Time // of the test, and what the clock said then
	Speed        int
}

// newClock begins some days ago: at its end it must not be far ahead of the engine's
// clock, and at its beginning not a week behind it.
func newClock(speed int) clock {
	now := time.Now()
	return clock{Began: now, Start: now.Add(-3 * 24 * time.Hour).Truncate(time.Second), Speed: speed}
}

func (c clock) now() time.Time {
	return c.Start.Add(time.Duration(c.Speed) * time.Since(c.Began))
}

// wired returns an agent of which all parts are real but the program of its turns.
func wired(dir string, carrier cycle.Carrier, handle string, peers []string, c clock) *cycle.Agent {
	return &cycle.Agent{
		Handle: handle, Config: filepath.Join(dir, handle+".toml"),
		Store: &store.Store{Dir: filepath.Join(dir, handle), Agent: handle},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
			PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Cooldown: 5 * time.Minute, Location: time.UTC,
			HasMesh: true, PacesMesh: true, Peers: peers, Turns: true, MaxAttempts: 3,
		},
		Mesh:     &cycle.Mesh{Carrier: carrier, Handle: handle, Peers: peers, Paces: true},
		Schedule: cycle.Schedule{Mode: cycle.ModeNone},
		Turn:     &turn.Config{Runner: turn.Exec, Command: []string{"agent"}, Workdir: dir, Timeout: 24 * time.Hour},
		Recall:   1,
		Self:     []string{"/bin/true"}, // a detached poll; the next poll does the same work
		Now:      c.now,
	}
}

// order is what a turn is told to do, in the text of its message. A text that is not JSON is a number.
type order struct {
	Number    string
	Send, Ask []string // handles
}

// member is an agent of the test.
type member struct {
	*cycle.Agent
	client   *natsmesh.Client
	patience time.Duration // of a question, by the clock of the agent

	mu    sync.Mutex
	begun map[string]int  // turns begun, by the number of the order
	asked map[string]bool // turns that have asked, by their id
}

func newMember(client *natsmesh.Client) *member {
	return &member{client: client, begun: map[string]int{}, asked: map[string]bool{}}
}

// turn stands in for the program of a turn. It does what the message says.
func (m *member) turn(ctx context.Context, at turn.Attempt) (turn.Result, error) {
	text, err := os.ReadFile(filepath.Join(at.Dir, "context", "text.txt"))
	if err != nil {
		return turn.Result{}, err
	}
	var o order
	if json.Unmarshal(text, &o) != nil {
		o.Number = strings.TrimSpace(string(text))
	}
	m.mu.Lock()
	again := m.asked[at.TurnID] // the reports are there
	if len(o.Ask) > 0 {
		m.asked[at.TurnID] = true
	}
	if !again {
		m.begun[o.Number]++
	}
	m.mu.Unlock()
	done := turn.Result{Status: turn.Success, Text: "done " + o.Number}
	if again {
		return done, nil
	}
	in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
	for n, to := range o.Send {
		if err := m.Send(ctx, in, to, fmt.Sprintf("%s.s%d", o.Number, n)); err != nil {
			return turn.Result{}, err
		}
	}
	for n, to := range o.Ask {
		q := cycle.Question{To: to, Text: fmt.Sprintf("%s.a%d", o.Number, n), Patience: m.patience}
		if _, err := m.Ask(ctx, in, q); err != nil {
			return turn.Result{}, err
		}
	}
	return done, nil
}

// restless returns why an agent is not at rest, "" if nothing is left to do, and its state.
func (m *member) restless(ctx context.Context) (state.State, string) {
	s, err := m.Store.Read()
	if err != nil {
		return s, err.Error()
	}
	if len(s.Inbox)+len(s.Outbox)+len(s.ToAck) > 0 || s.Turn.Status != state.HeadIdle {
		return s, fmt.Sprintf("%s has %d in its inbox, %d in its outbox, %d to acknowledge, its turn is %s: %+v", m.Handle, len(s.Inbox), len(s.Outbox), len(s.ToAck), s.Turn.Status, s.Turn.Waiting)
	}
	heard, err := m.client.Watch(ctx, 0)
	if err != nil {
		return s, err.Error()
	}
	if !heard.Empty() {
		return s, fmt.Sprintf("%s has messages on the mesh", m.Handle)
	}
	return s, ""
}
