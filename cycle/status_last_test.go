package cycle_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// TestStatusHolds checks that the status gives each reason for which rows of the outbox wait,
// once.
func TestStatusHolds(t *testing.T) {
	h := newFixture(t)
	now := h.clock.Now()
	mail := func(id string, change func(*state.Effect)) state.Effect {
		e := state.Effect{ID: id, Kind: state.Reply, Channel: state.ByMail, To: operator}
		if change != nil {
			change(&e)
		}
		return e
	}
	toPeer := func(e *state.Effect) { e.Channel, e.To = state.ByMesh, peer }
	later := now.Add(2 * time.Minute)
	for _, c := range []struct {
		what  string
		state state.State
		want  string // of each hold: how often, what, the words
		next  *time.Time
	}{
		{"nothing", state.State{}, "", nil},
		{"the next poll", state.State{Deliveries: state.Deliveries{Outbox: []state.Effect{mail("reply.t1", nil)}}}, "1 poll: the next poll sends it", nil},
		{"HALT", state.State{Halts: state.Halts{HaltedHere: true}, Deliveries: state.Deliveries{Outbox: []state.Effect{mail("reply.t1", nil), mail("reply.t2", nil), mail("a", func(e *state.Effect) { e.Kind = state.Answer })}}},
			"2 halt: held back by HALT|1 poll: the next poll sends it", nil},
		{"login", state.State{Deliveries: state.Deliveries{Outbox: []state.Effect{mail("reply.t1", nil), mail("q", toPeer)}}, Faults: state.Faults{Credentials: map[string]state.Credential{state.CredentialSMTP: {Since: now}}}},
			"1 login: the mail server rejects our login|1 poll: the next poll sends it", nil},
		{"token", state.State{Deliveries: state.Deliveries{Outbox: []state.Effect{mail("q", toPeer)}}, Faults: state.Faults{Credentials: map[string]state.Credential{state.CredentialMesh: {Since: now}}}}, "1 login: the mesh rejects our token", nil},
		{"server down", state.State{Deliveries: state.Deliveries{SendingFails: state.SendingFailure{Since: now}, Outbox: []state.Effect{mail("reply.t1", func(e *state.Effect) { e.NotBefore = later }), mail("reply.t2", nil)}}},
			"2 down: the mail server is unavailable", &later},
		{"backoff", state.State{Deliveries: state.Deliveries{Outbox: []state.Effect{mail("reply.t1", func(e *state.Effect) { e.NotBefore, e.Attempts, e.Reason = later, 2, "451 try\n later" }), mail("reply.t2", nil)}}},
			"1 backoff: has been tried 2 times: 451 try later|1 order: waits for an earlier message to the same recipient", &later},
		{"after a failure", state.State{Deliveries: state.Deliveries{Outbox: []state.Effect{mail("q", func(e *state.Effect) { toPeer(e); e.Attempts, e.Reason = 1, "no route" })}}},
			"1 poll: the next poll retries it; the last failure: no route", nil},
		{"sending", state.State{Timers: state.Timers{LastStep: now}, Deliveries: state.Deliveries{Outbox: []state.Effect{mail("reply.t1", func(e *state.Effect) { e.Sending = true })}}}, "1 sending: is being sent by another process", nil},
		{"its sender was killed", state.State{Timers: state.Timers{LastStep: now.Add(-time.Hour)}, Deliveries: state.Deliveries{Outbox: []state.Effect{mail("reply.t1", func(e *state.Effect) { e.Sending = true })}}},
			"1 sending: its sending process seems to have been killed; the next poll handles that", nil},
		{"hooks", state.State{HookQueue: state.HookQueue{FailingHooks: map[string]state.FailingHook{"chat": {Since: now}}, HookCalls: []state.Effect{
			{ID: "hook.1", Channel: state.ByHook, To: "chat", NotBefore: later}, {ID: "hook.2", Channel: state.ByHook, To: "log"}}}},
			"1 hook: hook chat is failing|1 poll: the next poll calls hook log", &later},
	} {
		c.state.Turn.Status = state.HeadIdle
		s := h.agent.View().StatusOf(c.state)
		var got []string
		count := 0
		for _, hold := range s.Outbox.Holds {
			got = append(got, strings.Join([]string{string(rune('0' + hold.Count)), " ", string(hold.Why), ": ", hold.Text}, ""))
			count += hold.Count
		}
		if strings.Join(got, "|") != c.want || count != s.Outbox.Waiting {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if c.next != nil && (s.Outbox.Holds[0].NextTry == nil || !s.Outbox.Holds[0].NextTry.Equal(*c.next)) {
			t.Errorf("%s: next try %v, want %v", c.what, s.Outbox.Holds[0].NextTry, c.next)
		}
	}
}

// TestStatusAnswer checks the status of the last answer, from the end of its turn to its bounce.
func TestStatusAnswer(t *testing.T) {
	h := newFixture(t)
	now := h.clock.Now()
	row := state.Effect{ID: "reply.t1", Kind: state.Reply, Channel: state.ByMail, To: operator}
	last := state.LastAnswer{Key: "m1", TurnID: "t1", Outcome: state.Success, At: now, Took: 4 * time.Second, Reply: "reply.t1"}
	ended := last
	ended.Ended = "dropped"
	printed := last
	printed.Reply = ""
	for want, s := range map[string]state.State{
		view.AnswerPrinted:     {Exchange: state.Exchange{LastAnswer: printed}},
		view.AnswerSent:        {Exchange: state.Exchange{LastAnswer: last}},
		view.AnswerWaiting:     {Exchange: state.Exchange{LastAnswer: last}, Deliveries: state.Deliveries{Outbox: []state.Effect{row}}},
		view.AnswerUndelivered: {Exchange: state.Exchange{LastAnswer: ended}, Deliveries: state.Deliveries{Undelivered: []state.Effect{row}}},
		view.AnswerReturned:    {Exchange: state.Exchange{LastAnswer: ended}, Deliveries: state.Deliveries{Lost: []state.Returned{{ID: "reply.t1"}}}},
		view.AnswerDropped:     {Exchange: state.Exchange{LastAnswer: ended}},
	} {
		s.Turn.Status = state.HeadIdle
		got := h.agent.View().StatusOf(s).LastAnswer
		if got.Delivery != want || *got.Took != 4 || (got.Waits != nil) != (want == view.AnswerWaiting) {
			t.Errorf("want %s: %+v", want, got)
		}
	}
	if s := h.agent.View().StatusOf(state.New(handle, "seed")); s.LastAnswer != nil || s.LastMail != nil || s.Questions == nil || s.NextWakeup != nil {
		t.Errorf("of a new agent: %+v, %+v, %v, %v", s.LastAnswer, s.LastMail, s.Questions, s.NextWakeup)
	}
}

// TestStatusWithoutWords checks that a turn of another agent sees no texts in the status: no
// subjects, questions or titles of wakeups.
func TestStatusWithoutWords(t *testing.T) {
	h := newFixture(t)
	const secret = "of the red door"
	s := state.New(handle, "seed")
	s.LastMail = state.LastMail{Key: "m1", From: operator, Subject: secret, At: h.clock.Now()}
	s.LastRing = state.Ring{From: "cron", Reason: secret}
	s.Turn = state.Head{Status: state.HeadSuspended, TurnID: "t1", Epoch: 1, Waiting: []state.Wait{{ID: "ask.1", To: peer, Text: secret}}}
	s.Inbox = []state.Message{{Key: "self:1", Source: state.Self, Kind: state.KindReminder, Status: state.Deferred, Title: secret}}
	s.Challenges = []state.OpenChallenge{{ID: "challenge.1", Key: "mail:" + secret, Until: h.clock.Now().Add(time.Hour)}}
	full := h.agent.View().StatusOf(s)
	if n := strings.Count(asJSON(t, full), secret); n != 6 {
		t.Errorf("the words occur %d times, want 6:\n%s", n, asJSON(t, full))
	}
	if shown := asJSON(t, full.WithoutWords()); strings.Contains(shown, secret) {
		t.Errorf("the words are shown:\n%s", shown)
	}
	if n := strings.Count(asJSON(t, full), secret); n != 6 {
		t.Errorf("WithoutWords changed its receiver: %d times", n)
	}
}

// TestStatusReader checks that the state is read again only if its file has changed, and that
// times are current nevertheless.
func TestStatusReader(t *testing.T) {
	h := newFixture(t)
	h.poll()
	reader := h.agent.View().StatusReader()
	s, err := reader.Status()
	check(t, err)
	if s.Halted {
		t.Fatal("HALTED before it was")
	}
	// The same file with another phase: only a reader of the stamp does not see it.
	path := filepath.Join(h.agent.Store.Dir, "state.json")
	info, err := os.Stat(path)
	check(t, err)
	data, err := os.ReadFile(path)
	check(t, err)
	check(t, os.WriteFile(path, bytes.Replace(data, []byte(`"phase":"IDLE"`), []byte(`"phase":"PREP"`), 1), 0o600))
	check(t, os.Chtimes(path, time.Time{}, info.ModTime()))
	if again, err := reader.Status(); err != nil || again.Phase != state.IDLE {
		t.Errorf("an unchanged file was read again: %s, %v", again.Phase, err)
	}
	h.agent.Store = &store.Store{Dir: h.agent.Store.Dir, Agent: handle}
	if other, err := h.agent.View().StatusReader().Status(); err != nil || other.Phase != state.PREP {
		t.Errorf("another reader sees %s, %v", other.Phase, err)
	}
	reader = h.agent.View().StatusReader()
	h.agent.Store.Dir = filepath.Join(t.TempDir(), "fresh")
	if s, err := reader.Status(); err != nil || s.NextDue != nil {
		t.Errorf("of another file: %v, %v", s.NextDue, err)
	}
	h.halt()
	if s, err := reader.Status(); err != nil || !s.Halted {
		t.Errorf("a change was not seen: %v", err)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	check(t, err)
	return string(data)
}
