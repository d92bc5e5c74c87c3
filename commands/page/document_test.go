package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"agentstateloop/cycle"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

const (
	operator = "operator@example.com"
	address  = "agent@example.org"
)

var morning = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// TestMain also is the process between the runner and an agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__attempt" {
		fmt.Fprintln(os.Stderr, turn.Main(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// stage is an agent with a mailbox, whose clock the test moves. Its turns are taken by hand, or run
// by a program.
type stage struct {
	t     testing.TB
	agent *cycle.Agent
	mail  *mailtest.Servers
	now   time.Time
	maker Maker
}

func newStage(t testing.TB) *stage {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { osfile.MakeWritable(dir) })
	s := &stage{t: t, now: morning, mail: mailtest.StartMemory(t, mailtest.Options{Username: address})}
	now := func() time.Time { return s.now }
	imap := mail.Server{
		Addr: s.mail.IMAP, TLS: mail.TLSNone, Username: s.mail.Username, Timeout: time.Minute,
		Secret: func(context.Context) (string, error) { return s.mail.Password, nil },
	}
	smtp := imap
	smtp.Addr = s.mail.SMTP
	s.agent = &cycle.Agent{
		Handle: "goulard3120", Config: filepath.Join(dir, "agent.toml"), Store: &store.Store{Dir: filepath.Join(dir, "state"), Agent: "goulard3120"},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute, PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Cooldown: 5 * time.Minute,
			Location: time.UTC, HasMail: true, Operator: operator, SelfTurns: 3, MaxAttempts: 3, Budget: state.Budget{Day: 5 * state.Dollar},
		},
		Mail: &cycle.Mail{
			Mailbox: mail.Mailbox{Server: imap, Name: "INBOX", Now: now}, SMTP: smtp, Address: address,
			Filter: trust.Filter{Handle: "goulard3120", Operators: []string{operator}, Own: address, Require: trust.RequireFrom},
		},
		Schedule: cycle.Schedule{Mode: cycle.ModeNone},
		Now:      now, Self: []string{"/bin/false"}, CheckEvery: 20 * time.Millisecond,
	}
	s.poll()
	return s
}

func (s *stage) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) poll() {
	s.t.Helper()
	_, err := s.agent.Poll(context.Background(), cycle.PollOptions{})
	s.check(err)
}

// receive delivers a mail, and polls.
func (s *stage) receive(from, subject, text string) {
	s.t.Helper()
	raw := fmt.Sprintf("From: %s\r\nTo: %s\r\nSubject: %s\r\nMessage-ID: <%d.%d@example.com>\r\nDate: %s\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n%s\r\n",
		from, address, subject, len(text), s.now.UnixNano(), s.now.Format(time.RFC1123Z), text)
	_, err := s.mail.Append([]byte(raw), s.now)
	s.check(err)
	s.poll()
	s.now = s.now.Add(time.Second)
}

// document returns the document of the agent. It must be the one that a new reader makes.
func (s *stage) document() Agent {
	s.t.Helper()
	from := []Source{{Agent: s.agent, MayAct: true}}
	d := s.maker.Document(from, s.now)
	if again, fresh := encode(s.t, d), encode(s.t, NewDocument(from, s.now)); again != fresh {
		s.t.Errorf("the document of a Maker that is in use differs:\n%s\nand of a new one:\n%s", again, fresh)
	}
	if a := d.Agents[0]; a.Error != nil {
		s.t.Fatal(*a.Error)
	}
	return d.Agents[0]
}

func encode(t testing.TB, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// want reports texts that the JSON of a part of a document lacks.
func (s *stage) want(part any, texts ...string) {
	s.t.Helper()
	got := encode(s.t, part)
	for _, text := range texts {
		if !strings.Contains(got, text) {
			s.t.Errorf("no %q in %s", text, got)
		}
	}
}

// TestDocument follows an agent through a day: mails, a turn by hand with a question, quarantine, HALT.
func TestDocument(t *testing.T) {
	s := newStage(t)
	ctx := context.Background()
	d := s.document()
	s.want(d.Rows, `"next poll"`, "in 30m")
	s.want(d.Trouble, `"TRUST"`)
	if d.Turn != nil || len(d.Messages) != 0 || d.Costs.BudgetDay == nil || *d.Costs.BudgetDay != 5 || len(d.Costs.Days) != 14 {
		t.Errorf("an agent without a past: %+v", d)
	}

	s.receive(operator, "@goulard3120 deploy", "Please deploy the shop.")
	s.receive(operator, "@goulard3120 and then", "Then check it.")
	s.receive(operator, "@goulard3120 away\r\nAuto-Submitted: auto-replied", "I am on holiday.")
	d = s.document()
	s.want(d.Messages, `"number": "1"`, `"subject": "@goulard3120 deploy"`, `"state": "waiting"`, "waits: `inbox next` takes it", `"may_drop": true`)
	s.want(d.Quarantine, `"number": "q1"`, `"gate": "auto"`, "operator@example.com (not proved)", "I am on holiday.", `"reason": "Auto-Submitted: auto-replied"`)
	s.want(d.History, `"kind": "message"`, `"text": "you"`, `"quote": "Please deploy the shop."`, "quarantined as q1", `"kind": "trouble"`)
	s.want(d.Schedule, `"what": "poll"`, `"what": "phase"`)
	s.want(d.Bands.Day.Marks, "mail from operator@example.com")
	if d.Schedule[0].At.After(d.Schedule[1].At) || d.History[0].At.Before(d.History[1].At) {
		t.Error("the schedule begins with its next entry, and the history with its newest")
	}

	m, err := s.agent.Next(ctx)
	s.check(err)
	s.now = s.now.Add(time.Minute)
	in := cycle.Inside{TurnID: m.TurnID, Epoch: m.Epoch}
	long := "May I delete the old backups? " + strings.Repeat("They are large. ", 100) + "Yes?"
	id, err := s.agent.AskOperator(ctx, in, cycle.OperatorQuestion{Text: long, Options: []string{turn.Allow, turn.Refuse}})
	s.check(err)
	d = s.document()
	s.want(d.Turn, `"words": "starts for 1m"`, `"number": "1"`, `"subject": "@goulard3120 deploy"`)
	s.want(d.Messages, `"state": "working"`, `"may_drop": false`)
	if len(d.Questions) != 1 || d.Questions[0].ID != id || d.Questions[0].Text != long || d.Questions[0].Number != "1" || !d.Questions[0].Permission {
		t.Errorf("the question is %s", encode(t, d.Questions))
	}
	s.check(s.agent.Done(ctx, in, "It is deployed."))
	_, err = s.agent.Halt(ctx, "lunch")
	s.check(err)
	s.now = s.now.Add(time.Hour)
	d = s.document()
	s.want(d.Trouble, `"HALTED"`)
	s.want(d.History, "answered "+time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).Local().Format("15:04"), `"quote": "Please deploy the shop."`, "HALT: lunch", `"kind": "order"`, `"kind": "answer"`)
	s.want(d.Bands.Week.Marks, `"kind": "turn"`, `"kind": "answer"`, `"kind": "halt"`)
	if d.Turn != nil || len(d.Questions) != 0 {
		t.Errorf("after the turn: %s", encode(t, []any{d.Turn, d.Questions}))
	}
	// The reader that was there all the time and a new one agree after each change of a day.
	_, err = s.agent.Resume(ctx, "")
	s.check(err)
	s.now = s.now.Add(25 * time.Hour)
	s.poll()
	s.document()
}

// TestDocumentOfRunningTurn shows what an agent does in its turn.
func TestDocumentOfRunningTurn(t *testing.T) {
	s := newStage(t)
	self, err := os.Executable()
	s.check(err)
	dir := t.TempDir()
	program, goOn := filepath.Join(dir, "agent.sh"), filepath.Join(dir, "go")
	s.check(testkit.WriteProgram(program, `#!/bin/sh
echo '{"type":"system","subtype":"init","session_id":"s","model":"opus"}'
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}}'
: >`+dir+`/up
while ! [ -e `+goOn+` ]; do sleep 0.05; done
echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"done"}]}}'
echo '{"type":"result","subtype":"success","result":"Deployed.","total_cost_usd":0.25}'
`))
	s.agent.Policy.Turns = true
	s.agent.Turn = &turn.Config{Runner: turn.Claude, Command: []string{program}, Workdir: dir, Timeout: time.Minute, Grace: time.Second, Self: self}
	s.agent.Now = time.Now
	s.now = time.Now()
	ended := make(chan error, 1)
	_, err = s.agent.Tell(context.Background(), "you", "deploy")
	s.check(err)
	go func() {
		_, err := s.agent.Poll(context.Background(), cycle.PollOptions{})
		ended <- err
	}()
	var d Agent
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // another process writes
		d = s.maker.Document([]Source{{Agent: s.agent}}, time.Now()).Agents[0]
		if d.Turn != nil && d.Turn.Tool != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no tool: %s", encode(t, d))
		}
	}
	s.want(d.Turn, `"words": "uses Bash for `, `"state": "running_tool"`, `"text": "began its session with opus"`, `"kind": "tool"`, `"text": "uses Bash"`, `"kill_for"`)
	s.want(d.Schedule, `"what": "kill"`)
	s.check(os.WriteFile(goOn, nil, 0o600))
	s.check(<-ended)
	d = s.maker.Document([]Source{{Agent: s.agent}}, time.Now()).Agents[0]
	if d.Turn != nil || d.Costs.Days[13].USD != 0.25 || d.Costs.Days[13].Turns != 1 || d.Costs.MonthUSD != 0.25 {
		t.Errorf("after the turn: %s", encode(t, []any{d.Turn, d.Costs}))
	}
}

// TestDocumentOfHostileTexts has texts that would control a terminal, turn around what follows, or be
// megabytes long, in each place where others write.
func TestDocumentOfHostileTexts(t *testing.T) {
	s := newStage(t)
	ctx := context.Background()
	nasty := "</script><script>alert(1)</script>\u202e\u2066\x1b[2J\x1b]0;x\a\u0085\u2028"
	huge := strings.Repeat(nasty, 20_000)
	s.receive(operator, "@goulard3120 "+strings.NewReplacer("\r", "", "\n", "").Replace(nasty), huge)
	s.receive(operator, "@goulard3120 "+strings.Repeat("=?utf-8?q?=1B=5B2J=E2=80=AEx?= ", 2000), huge)
	s.receive(operator, "@goulard3120 "+nasty+"\r\nAuto-Submitted: auto-replied"+nasty, huge)
	_, err := s.agent.Tell(ctx, nasty, huge)
	s.check(err)
	for range 5 {
		s.check(s.agent.Ring(nasty, huge[:1000]))
	}
	s.poll()
	m, err := s.agent.Next(ctx)
	s.check(err)
	in := cycle.Inside{TurnID: m.TurnID, Epoch: m.Epoch}
	_, err = s.agent.AskOperator(ctx, in, cycle.OperatorQuestion{Text: huge[:4000], Options: []string{"<b>yes</b>", "no"}})
	s.check(err)
	s.check(s.agent.Done(ctx, in, huge))
	_, err = s.agent.Halt(ctx, huge)
	s.check(err)
	data, err := json.Marshal(s.document())
	s.check(err)
	if len(data) > 200_000 {
		t.Errorf("the document has %d bytes", len(data))
	}
	var d any
	s.check(json.Unmarshal(data, &d))
	walk(d, func(text string) {
		if bad := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); bad >= 0 {
			t.Errorf("%q has %q", text[:min(len(text), 100)], text[bad:min(len(text), bad+8)])
		}
	})
	found, err := History(Source{Agent: s.agent}, "", "script", "", 50, s.now)
	s.check(err)
	if len(found.Entries) < 3 {
		t.Errorf("%d entries have the word", len(found.Entries))
	}
}

// walk calls f with each text of a JSON value.
func walk(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			walk(e, f)
		}
	case map[string]any:
		for key, e := range v {
			f(key)
			walk(e, f)
		}
	}
}

// TestDocumentHidesSecrets gives an agent secrets that its records have already, whole and where a text is
// cut.
func TestDocumentHidesSecrets(t *testing.T) {
	s := newStage(t)
	const canary, short = "canary-0123456789-canary", "canary-0"
	s.receive(operator, "@goulard3120 "+canary, "The password is "+canary+".")
	s.receive(operator, "@goulard3120 away\r\nAuto-Submitted: "+canary, strings.Repeat("x", quarantinedText-10)+canary)
	m, err := s.agent.Next(context.Background())
	s.check(err)
	_, err = s.agent.AskOperator(context.Background(), cycle.Inside{TurnID: m.TurnID, Epoch: m.Epoch},
		cycle.OperatorQuestion{Text: canary + "?", Options: []string{canary}, Patience: time.Hour})
	s.check(err)
	_, err = s.agent.Halt(context.Background(), canary)
	s.check(err)
	from := Source{Agent: s.agent}
	search := func() Found {
		found, err := History(from, "", "canary", "", 50, s.now)
		s.check(err)
		return found
	}
	if d := s.document(); strings.Count(encode(t, d), canary) < 6 || len(search().Entries) < 2 {
		t.Fatalf("without known secrets: %s", encode(t, d))
	}
	s.agent.Secrets = &secret.Known{}
	s.agent.Secrets.Learn("imap", canary)
	s.maker = Maker{}
	if got := encode(t, s.document()); strings.Contains(got, short) || strings.Count(got, "***") < 6 {
		t.Errorf("the document: %s", got)
	}
	if found := search(); len(found.Entries) != 0 {
		t.Errorf("a search for a secret found %s", encode(t, found))
	}
	found, err := History(from, "", "", "", 50, s.now)
	s.check(err)
	if got := encode(t, found); strings.Contains(got, short) || !strings.Contains(got, "***") {
		t.Errorf("the history: %s", got)
	}
}

// TestZones checks the zones of a clock with summer time, and of one without.
func TestZones(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	want := `[
 {
  "from": "2026-01-28T09:00:00Z",
  "minutes": 60
 },
 {
  "from": "2026-03-29T01:00:00Z",
  "minutes": 120
 },
 {
  "from": "2026-10-25T01:00:00Z",
  "minutes": 60
 },
 {
  "from": "2027-03-28T01:00:00Z",
  "minutes": 120
 }
]`
	now := time.Date(2027, 3, 4, 9, 0, 0, 0, time.UTC)
	if got := encode(t, zones(now.In(berlin))); got != want {
		t.Errorf("the zones are %s, want %s", got, want)
	}
	if got := zones(now); len(got) != 1 || got[0].Minutes != 0 {
		t.Errorf("the zones of UTC are %v", got)
	}
	if got := zones(now.AddDate(0, -2, 0).In(berlin)); len(got) != 3 {
		t.Errorf("the zones of January are %v", got)
	}
}

// TestDocumentOfManyMessages leaves out rows, and counts them.
func TestDocumentOfManyMessages(t *testing.T) {
	s := newStage(t)
	for i := range maxMessages + 3 {
		_, err := s.agent.Tell(context.Background(), "you", fmt.Sprint("message ", i))
		s.check(err)
	}
	s.poll()
	if d := s.document(); len(d.Messages) != maxMessages || d.More.Messages != 3 || len(d.History) != recentEntries {
		t.Errorf("%d messages and %d more, %d entries", len(d.Messages), d.More.Messages, len(d.History))
	}
}

// TestDocumentOfUnreadableState shows the other agents.
func TestDocumentOfUnreadableState(t *testing.T) {
	s, broken := newStage(t), newStage(t)
	s.check(os.WriteFile(broken.agent.Store.Path("state.json"), []byte(`{"version": 99}`), 0o600)) // of a newer program
	d := NewDocument([]Source{{Agent: broken.agent}, {Agent: s.agent}}, s.now)
	if a := d.Agents[0]; a.Error == nil || a.Status != nil || a.Messages == nil || a.Bands.Day.Marks == nil {
		t.Errorf("the broken one: %s", encode(t, a))
	}
	if d.Agents[1].Error != nil {
		t.Error(*d.Agents[1].Error)
	}
	data := encode(t, d)
	if strings.Contains(data, `"messages": null`) || strings.Contains(data, `"marks": null`) || strings.Contains(data, `"days": null`) {
		t.Errorf("a list is null: %s", data)
	}
}
