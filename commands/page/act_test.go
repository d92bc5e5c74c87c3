package page_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// wants fails the test unless the history has this sentence once.
func (s *served) wants(sentence string) {
	s.t.Helper()
	if h := s.history(); strings.Count(h, sentence) != 1 {
		s.t.Errorf("the history has %q %d times, want once:\n%s", sentence, strings.Count(h, sentence), h)
	}
}

// quarantine puts a mail into quarantine, and returns its number.
func (s *served) quarantine(subject string) string {
	s.t.Helper()
	s.receive(subject, "List-Id: <x.example.com>\r\n")
	s.poll()
	items, err := s.agent.View().Quarantined()
	check(s.t, err)
	if len(items) == 0 {
		s.t.Fatal("nothing in quarantine")
	}
	return items[len(items)-1].Key
}

// asks takes a message, whose turn then asks the operator. It returns the turn and the question.
func (s *served) asks(options ...string) (cycle.Inside, string) {
	s.t.Helper()
	s.receive("a task", "")
	s.poll()
	next, err := s.agent.Next(s.t.Context())
	check(s.t, err)
	in := cycle.Inside{TurnID: next.TurnID, Epoch: next.Epoch}
	id, err := s.agent.AskOperator(s.t.Context(), in, cycle.OperatorQuestion{Text: "May I delete the backups?", Options: options, Patience: time.Hour})
	check(s.t, err)
	return in, id
}

// settled waits for a state.
func (s *served) settled(until func(state.State) bool) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); !until(s.state()); time.Sleep(10 * time.Millisecond) { // a poll of the listener reports to nobody
		if time.Now().After(end) {
			s.t.Fatalf("not reached: %+v", s.state().Received)
		}
	}
}

// TestHaltAndResume checks both acts, with and without a reason, and their repetition.
func TestHaltAndResume(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	b.do("halt", "", "it spends too much").says(t, 200, `"text":"@goulard3120 is HALTED: no turns, no mail, until `)
	b.do("halt", "", "it spends too much").says(t, 200, "is HALTED")
	s.wants("HALT: on the page: it spends too much")
	b.do("resume", "", "").says(t, 200, "@goulard3120 resumes")
	b.do("resume", "", "").says(t, 200, "@goulard3120 resumes")
	s.wants("GO: on the page\n")
	r := b.do("halt", "", strings.Repeat("x", 501))
	r.says(t, 409, "the reason has 501 bytes, and the limit is 500")
	if s.state().Halted() {
		t.Error("halted in spite of the refusal")
	}
}

// TestReleaseAndDrop checks both acts on quarantine, and the second click on each.
func TestReleaseAndDrop(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	s.quarantine("one")
	d := b.document()
	if len(d.Agents[0].Quarantine) != 1 {
		t.Fatalf("the page shows %+v", d.Agents[0].Quarantine)
	}
	number := d.Agents[0].Quarantine[0].Number
	b.do("release", number, "").says(t, 200, `"text":"released `+number)
	r := b.do("release", number, "")
	r.says(t, 409, number+" is not in quarantine")
	if !strings.Contains(r.body, "the hint of the command") {
		t.Errorf("no hint: %s", r.body)
	}
	s.wants(number + " released: on the page\n")
	s.wants(`you: "hello"`) // accepted once
	two := s.quarantine("two")
	b.do("drop", two, "spam").says(t, 200, "dropped")
	b.do("drop", two, "spam").says(t, 409, "")
	s.wants("q2 dropped: on the page: spam\n")
	for _, act := range []string{"release", "drop", "retry", "answer"} {
		b.do(act, "", "x").says(t, 409, "names no message, question or turn")
		b.do(act, "q99", "x").says(t, 409, "")
	}
}

// TestRetryAndDropOfMessages checks both acts on a deferred message of a program.
func TestRetryAndDropOfMessages(t *testing.T) {
	s := serve(t, func(s *served) { s.agent.Policy.Turns = true }) // which the hourly limit needs
	b := s.browser().login()
	tell := func(text string) string {
		key, err := s.agent.TellEvent(t.Context(), cycle.EventMessage{From: "ci", Text: text})
		check(t, err)
		return key
	}
	tell("first")
	second := tell("the build is red")
	s.settled(func(st state.State) bool { m, _ := st.Message(second); return m.Status == state.Deferred })
	b.do("retry", second, "").says(t, 200, `"text":"queued `+second+` again`)
	s.settled(func(st state.State) bool { m, _ := st.Message(second); return m.Status != state.Deferred })
	s.wants(`queued again on the page: "the build is red"`)
	b.do("retry", second, "").says(t, 409, "is already ")
	b.do("drop", second, "not now").says(t, 200, "dropped")
	b.do("drop", second, "not now").says(t, 409, "")
	s.wants(`dropped: "the build is red": on the page: not now`)
	b.do("retry", second, "").says(t, 200, "again")
	if h := s.history(); strings.Count(h, `queued again on the page: "the build is red"`) != 2 {
		t.Errorf("the history has no second retry:\n%s", h)
	}
}

// TestTell checks a message, its sender, and a double click.
func TestTell(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	b.do("tell", "", "what are you working on?").says(t, 200, "@goulard3120 has your message")
	b.do("tell", "", "what are you working on?").says(t, 200, "already has this message: it was not sent twice")
	s.wants(`you, on the page: "what are you working on?"`)
	if m := s.state().Inbox; len(m) != 1 || m[0].From != "Anna (on the page)" || !m[0].Operator || m[0].Source != state.CLI {
		t.Errorf("the inbox is %+v", m)
	}
	s.later.Store(int64(11 * time.Second))
	b.do("tell", "", "what are you working on?").says(t, 200, "has your message")
	if m := s.state().Inbox; len(m) != 2 {
		t.Errorf("a repeated message is not sent later: %+v", m)
	}
	b.do("tell", "", " \n").says(t, 409, "the message is empty")
	b.do("halt", "", "")
	b.do("tell", "", "hello?").says(t, 200, "but no answer is expected soon: ")
}

// TestTellBesideAStuckAgent checks that a message to an agent whose state is locked delays no message to
// another one, that a second click on it sends nothing, and that its failure is forgotten.
func TestTellBesideAStuckAgent(t *testing.T) {
	s := serve(t, func(s *served) { s.more = []*cycle.Agent{s.newAgent("second1")} })
	b := s.browser().login()
	tell := func(handle string) reply {
		return b.send("POST", "/page/act", `{"agent":"`+handle+`","act":"tell","text":"hello"}`)
	}
	release, reached := make(chan struct{}), make(chan struct{})
	now := s.agent.Now
	var once sync.Once
	s.agent.Now = func() time.Time { // each commit asks for it
		once.Do(func() { close(reached); <-release })
		return now()
	}
	first := make(chan reply, 1)
	go func() { first <- tell(handle) }()
	<-reached
	b.client.Timeout = 5 * time.Second
	tell("second1").says(t, 200, "@second1 has your message")
	tell(handle).says(t, 200, "already has this message")
	close(release)
	(<-first).says(t, 200, "@goulard3120 has your message")
	if m := s.state().Inbox; len(m) != 1 {
		t.Errorf("the inbox is %+v", m)
	}
	for range 2 { // a refused message is not remembered
		b.do("tell", "", " ").says(t, 409, "the message is empty")
	}
}

// TestAnswer checks an answer, a second one, and one that is not an option.
func TestAnswer(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	in, id := s.asks("yes", "no")
	d := b.document()
	if q := d.Agents[0].Questions; len(q) != 1 || q[0].ID != id || len(q[0].Options) != 2 {
		t.Fatalf("the page shows %+v", q)
	}
	b.do("answer", id, "YES").says(t, 200, `"text":"answered `+id+`: yes"`)
	b.do("answer", id, "no").says(t, 409, "this question is closed: it is already answered")
	s.wants("you answered on the page\n")
	if w, _, _ := s.state().OperatorWait(id); !w.Answered() {
		t.Errorf("the question is %+v", w)
	}
	other, err := s.agent.AskOperator(t.Context(), in, cycle.OperatorQuestion{Text: "Which ones?", Options: []string{"all"}, Patience: time.Hour})
	check(t, err)
	b.do("answer", other, "only those of May").says(t, 200, "(not one of the options (all): the agent gets the text unchanged)")
	b.do("answer", "question.0000", "yes").says(t, 409, "no such question")
}

// TestStop checks the stop of a turn.
func TestStop(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	b.do("stop", "t1", "").says(t, 200, "@goulard3120 has no running turn")
	in, _ := s.asks()
	b.do("stop", "t1", "of the last turn").says(t, 409, "that turn has ended; another one runs now")
	b.do("stop", "", "of any turn").says(t, 409, "names no message, question or turn")
	if head := s.state().Turn; head.Stop != "" {
		t.Errorf("another turn was stopped: %+v", head)
	}
	if id := b.document().Agents[0].Status.Turn.ID; id == nil || *id != in.TurnID {
		t.Errorf("the page shows the turn %v, want %s", id, in.TurnID)
	}
	b.do("stop", in.TurnID, "wrong repository").says(t, 200, "@goulard3120 is being stopped")
	b.do("stop", in.TurnID, "wrong repository").says(t, 200, "")
	s.wants("its turn was stopped: on the page: wrong repository")
}
