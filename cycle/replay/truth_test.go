package replay_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/replay"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

const (
	handle   = "goulard3120"
	operator = "operator@example.com"
	address  = "artificer3120@example.org"
	crlf     = "\r\n"
)

func TestMain(m *testing.M) {
	if err := testkit.InMemory(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// midnight is when every story begins. In Berlin the clocks change on the next day.
var midnight = time.Date(2026, time.March, 28, 0, 0, 0, 0, time.UTC)

// letter is a mail of a story.
type letter struct {
	at  time.Time
	raw string
}

// write returns a mail that came at a time. Further fields end with a line break.
func write(at time.Time, from, subject, text string, fields ...string) letter {
	id := fmt.Sprintf("Message-ID: <%d@example.com>%s", at.UnixNano(), crlf)
	if slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "Message-ID:") }) {
		id = ""
	}
	return letter{at, "From: " + from + crlf + "To: " + address + crlf + "Subject: " + subject + crlf + id + strings.Join(fields, "") + crlf + text + crlf}
}

// setting is the agent of a story, apart from the policy of every agent here.
type setting struct {
	policy  func(*state.Policy)
	require string // "" is "from"
	figure  replay.Figure
	listen  bool
}

// newAgent wires an agent as package commands does.
func (st setting) newAgent(dir string, now func() time.Time) *cycle.Agent {
	reply := func(text string) *template.Template { return template.Must(template.New("").Parse(text)) }
	require := cmp.Or(st.require, trust.RequireFrom)
	a := &cycle.Agent{
		Handle: handle, Config: "/home/you/agent.toml", Store: &store.Store{Dir: filepath.Join(dir, "state"), Agent: handle},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
			PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Cooldown: 5 * time.Minute,
			Location: time.UTC, HasMail: true, Operator: operator,
			Ack: true, QuietPrep: true, QuietActive: true, Notices: true, Working: true,
			Turns: true, SelfTurns: 10, MaxAttempts: 3, Challenge: require == trust.RequireChallenge,
		},
		Mail: &cycle.Mail{
			Mailbox: mail.Mailbox{Name: "INBOX", Now: now}, Address: address,
			Filter: trust.Filter{Handle: handle, Operators: []string{operator}, Own: address, Require: require},
		},
		Replies: cycle.Replies{Ack: reply("standing by"), QuietPrep: reply("going quiet"), QuietActive: reply("going quiet, ping me")},
		Now:     now, CheckEvery: time.Millisecond,
	}
	a.ClockPrompts = []cycle.ClockPrompt{{Name: "report", Text: "report", Kind: state.KindAlways}}
	if st.policy != nil {
		st.policy(&a.Policy)
	}
	return a
}

// record writes down what the machine records, without ids and keys, which differ.
type record struct {
	mu    sync.Mutex // a turn and its ack are recorded by two goroutines
	lines []string
}

func (r *record) step(s state.State, events []state.Event, p state.Policy, now time.Time) state.State {
	next := state.Step(s, events, p, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range next.Lines {
		if text := r.text(l); text != "" {
			r.lines = append(r.lines, l.At.Format("2 15:04:05 ")+string(l.Kind)+" "+text)
		}
	}
	return next
}

func (r *record) text(l state.Line) string {
	switch l.Kind {
	case state.LineTransition:
		return fmt.Sprintf("%s to %s: %s", l.Old, l.New, l.Reason)
	case state.LineMessage:
		m := l.Message
		return fmt.Sprintf("%s at %s %s until %s %s", m.From, m.At.Format("15:04:05"), m.Status, m.NextRetryAt.Format("15:04:05"), m.Reason)
	case state.LineDuplicate, state.LineControl:
		return fmt.Sprintf("%s %s", l.What, l.From)
	case state.LineGate:
		return fmt.Sprintf("%s %s %s: %s", l.Gate, l.What, l.From, l.Reason)
	case state.LineTurn, state.LineHalt, state.LineAck, state.LinePrompt, state.LineTier:
		return fmt.Sprintf("%s %s", l.What, l.Reason)
	case state.LineTask:
		return fmt.Sprintf("%s for %s and %d more", l.Outcome, l.Row.From, len(l.Collected))
	case state.LineEffect:
		text := l.Effect.Text
		if l.Effect.Kind == state.Notice { // it may name a key
			text = ""
		}
		return fmt.Sprintf("%s to %s %s", l.Effect.Kind, l.Effect.To, text)
	case state.LineDelivery:
		kind, _, _ := strings.Cut(l.ID, ".")
		return fmt.Sprintf("%s %s %s", kind, l.What, l.Reason)
	case state.LineSpend:
		return fmt.Sprintf("%v on %s", l.Spending.Cost, l.Day)
	case state.LineChallenge:
		return string(l.What)
	}
	return ""
}

// world is the real agent with its servers, its crontab and a clock that jumps from one firing of
// cron to the next.
type world struct {
	t       testing.TB
	setting setting
	dir     string
	mu      sync.Mutex // guards now
	now     time.Time
	letters []letter // that have not come yet
	mail    *mailtest.Servers
	table   string
	record  record
}

// live plays the letters of a story with the real program, and returns what the machine recorded.
func live(t testing.TB, st setting, letters []letter, until time.Time) []string {
	w := &world{t: t, setting: st, dir: t.TempDir(), now: midnight, letters: letters}
	t.Cleanup(func() { osfile.MakeWritable(w.dir) })
	w.mail = mailtest.StartMemory(t, mailtest.Options{Username: address})
	_, table, err := crontest.Write(w.dir)
	check(t, err)
	w.table = table
	agent := w.agent()
	for w.now.Before(until) {
		came := w.toNextPoll(agent, until)
		if w.now.Before(until) {
			w.poll(agent, !came)
		}
	}
	return w.record.lines
}

// agent returns the agent, as a process of its own sees it.
func (w *world) agent() *cycle.Agent {
	a := w.setting.newAgent(w.dir, w.clock)
	server := mail.Server{
		Addr: w.mail.IMAP, TLS: mail.TLSNone, Username: w.mail.Username, Timeout: time.Minute,
		Secret: func(context.Context) (string, error) { return w.mail.Password, nil },
	}
	a.Mail.Mailbox.Server, a.Mail.SMTP = server, server
	a.Mail.SMTP.Addr = w.mail.SMTP
	command := strings.TrimSuffix(w.table, ".table")
	a.Schedule = cycle.Schedule{Mode: cycle.ModeCrontab, Binary: "/usr/local/bin/agentstateloop", Table: cron.Table{
		Command: command, Run: crontest.Play(command, w.table), Lock: filepath.Join(w.dir, "crontab.lock"), Backup: filepath.Join(w.dir, "backup"),
	}}
	a.Turn = &turn.Config{Runner: turn.Exec, Command: []string{"/bin/false"}, Workdir: w.dir, Timeout: time.Hour}
	a.Self, a.Step, a.RunTurn = []string{"/bin/false"}, w.record.step, w.attempt
	return a
}

// poll polls. Another process may be about to end its poll.
func (w *world) poll(a *cycle.Agent, ifDue bool) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) { // the runner of the turn may hold the lock for its ack
		_, err := a.Poll(w.t.Context(), cycle.PollOptions{IfDue: ifDue})
		if errors.Is(err, cycle.ErrBusy) && time.Since(began) < 20*time.Second {
			continue
		}
		check(w.t, err)
		return
	}
}

// toNextPoll moves the clock to the next minute at which a line of the crontab fires, and delivers
// the mails until then. A listener looks each second, and polls when a mail has come.
func (w *world) toNextPoll(a *cycle.Agent, until time.Time) (came bool) {
	for at := w.now; at.Before(until); {
		if !w.setting.listen {
			at = at.Truncate(time.Minute).Add(time.Minute)
			if w.fires(at) {
				w.moveTo(at)
				return false
			}
			continue
		}
		at = at.Truncate(time.Second).Add(time.Second)
		came = len(w.letters) > 0 && !w.letters[0].at.After(at)
		w.moveTo(at)
		why, err := a.PollReason()
		check(w.t, err)
		if came || why != "" || at.Second() == 0 && w.fires(at) {
			return came
		}
	}
	w.moveTo(until)
	return false
}

// fires reports whether a line of the agent fires at a minute. Before its first poll it has none,
// and cron starts it at each half hour.
func (w *world) fires(at time.Time) bool {
	table, err := os.ReadFile(w.table)
	lines := append(cron.Find(table, handle), cron.FindAlarm(table, handle)...)
	if err != nil {
		lines = []string{"*/30 * * * *"}
	}
	for _, line := range lines {
		times, err := cron.ParseTimes(strings.Join(strings.Fields(line)[:5], " "))
		check(w.t, err)
		if times.Next(at.Add(-time.Second), w.setting.newAgent(w.dir, time.Now).Policy.Location).Equal(at) {
			return true
		}
	}
	return false
}

func (w *world) moveTo(at time.Time) {
	for len(w.letters) > 0 && !w.letters[0].at.After(at) {
		_, err := w.mail.Append([]byte(w.letters[0].raw), w.letters[0].at)
		check(w.t, err)
		w.letters = w.letters[1:]
	}
	w.mu.Lock()
	w.now = at
	w.mu.Unlock()
}

// clock is that of the agents. The goroutine that makes acks reads it while a turn moves it.
func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// attempt is a turn. Cron goes on while it runs, and an ack falls due.
func (w *world) attempt(ctx context.Context, at turn.Attempt) (turn.Result, error) {
	other, ends := w.agent(), w.now.Add(w.setting.figure.Time)
	for w.now.Before(ends) {
		before := w.now
		w.toNextPollOrAck(other, ends)
		if s := w.state(other); s.Turn.Stop != "" || s.Turn.TurnID != at.TurnID {
			return turn.Result{Status: turn.Canceled, Reason: "stopped", Exit: turn.ExitStopped}, nil
		}
		if !w.now.After(before) {
			w.t.Fatal("the clock stands still")
		}
	}
	return turn.Result{
		Status: turn.Success, Text: "done", Exit: turn.ExitClean,
		Bill: turn.Bill{Model: "opus", CostUSD: w.setting.figure.Cost.USD()},
	}, nil
}

func (w *world) state(a *cycle.Agent) state.State {
	s, err := a.Store.Read()
	check(w.t, err)
	return s
}

// toNextPollOrAck moves the clock within a turn: to the next poll, to the time of a waiting ack,
// or to the end of the turn.
func (w *world) toNextPollOrAck(other *cycle.Agent, ends time.Time) {
	if ack := w.state(other).AckWaits.Until; ack.After(w.now) && ack.Before(ends) && ack.Before(w.now.Truncate(time.Minute).Add(time.Minute)) {
		w.moveTo(ack)
		for began := time.Now(); w.state(other).AckWaits.Until.Equal(ack) || len(w.state(other).Outbox) > 0; { // the runner makes it
			if time.Since(began) > 20*time.Second {
				w.t.Fatal("the ack is not made")
			}
			time.Sleep(time.Millisecond) // another goroutine makes it
		}
		return
	}
	next := w.now.Truncate(time.Minute).Add(time.Minute)
	if next.After(ends) || next.Equal(ends) {
		w.moveTo(ends)
		return
	}
	w.moveTo(next)
	if w.fires(next) {
		w.poll(other, true)
	}
}

// replayed plays the letters of a story in a replay, and returns what the machine recorded.
func replayed(t testing.TB, st setting, letters []letter, until time.Time) ([]string, replay.Summary) {
	var r record
	agent := st.newAgent(t.TempDir(), time.Now)
	agent.Step = func(s state.State, events []state.Event, p state.Policy, now time.Time) state.State {
		if now.Before(until) { // afterwards only the replay goes on
			return r.step(s, events, p, now)
		}
		return state.Step(s, events, p, now)
	}
	sum, err := replay.Run(t.Context(), options(t, agent, st, letters, until))
	check(t, err)
	return r.lines, sum
}

// options returns a replay of letters, which it writes to a Maildir.
func options(t testing.TB, a *cycle.Agent, st setting, letters []letter, until time.Time) replay.Options {
	t.Helper()
	box := filepath.Join(t.TempDir(), "cur")
	check(t, os.Mkdir(box, 0o700))
	for n, l := range letters {
		check(t, os.WriteFile(filepath.Join(box, fmt.Sprintf("%d.M%dP1.host:2,S", l.at.Unix(), n)), []byte(l.raw), 0o600))
	}
	mails, err := replay.Find(t.Context(), []string{filepath.Dir(box)}, 1<<20, until, func(name string, why error) error { return fmt.Errorf("%s: %w", name, why) })
	check(t, err)
	return replay.Options{
		Agent: a, From: midnight, To: until, Mails: mails, Listen: st.listen, Assumed: replay.Assumed{Normal: st.figure, Low: st.figure},
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// randomLetters returns the mails of two days: orders, controls, answers, copies, and mails that a
// gate sets aside or that are not for the agent. None comes before the first poll or at a minute.
func randomLetters(r *rand.Rand, n int) (all []letter) {
	for range n {
		at := midnight.Add(time.Hour + time.Duration(r.IntN(46*60))*time.Minute + time.Duration(1+r.IntN(58))*time.Second)
		if len(all) > 0 && r.IntN(2) == 0 { // most come in conversations
			at = all[len(all)-1].at.Add(time.Duration(1+r.IntN(9)) * time.Minute)
		}
		call := "@" + handle + " "
		switch r.IntN(15) {
		case 0, 13:
			all = append(all, write(at, operator, call+"now", []string{"STOP", "HALT", "STATUS"}[r.IntN(3)]))
			all = append(all, write(at.Add(11*time.Minute), operator, call+"now", "GO"))
		case 1:
			all = append(all, write(at, operator, call+"away", "I am away", "Auto-Submitted: auto-replied"+crlf))
		case 2:
			all = append(all, write(at, "mallory@example.net", call+"pay me", "now"))
		case 3:
			all = append(all, write(at, operator, "no call", "this is for nobody"))
		case 4:
			all = append(all, write(at, operator, call+"list", "news", "List-Id: <news.example.com>"+crlf))
		case 5:
			l := write(at, operator, call+"twice", "the same", fmt.Sprintf("Message-ID: <twice%d@example.com>", at.Unix())+crlf)
			again := letter{l.at.Add(3 * time.Minute), l.raw}
			if at.Minute()%2 == 0 { // a gate rejects the copy
				again.raw = "List-Id: <news.example.com>" + crlf + l.raw
			}
			all = append(all, l, again)
		case 6:
			all = append(all, write(at, operator+", mallory@example.net", call+"two", "two senders"))
		default:
			all = append(all, write(at, operator, call+"work", fmt.Sprintf("task %d", at.Unix())))
		}
	}
	slices.SortStableFunc(all, func(a, b letter) int { return a.at.Compare(b.at) })
	for i := 1; i < len(all); i++ { // each has a time of its own
		if !all[i].at.After(all[i-1].at) {
			all[i].at = all[i-1].at.Add(time.Second)
		}
	}
	return all
}

// A replay records what the real program records: the same phases, acks, turns, answers, mails that
// wait or are set aside, costs and tiers, at the same times.
func TestReplayIsTrue(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	check(t, err)
	eight, err := cron.ParseTimes("17 8 * * *")
	check(t, err)
	settings := map[string]setting{
		"plain":       {figure: replay.Figure{Time: 40 * time.Second, Cost: state.Dollar / 10}},
		"at once":     {},
		"long turns":  {figure: replay.Figure{Time: 7*time.Minute + 20*time.Second}},
		"ack later":   {figure: replay.Figure{Time: 3*time.Minute + 10*time.Second}, policy: func(p *state.Policy) { p.AckAfter = 50 * time.Second }},
		"collect":     {figure: replay.Figure{Time: 30 * time.Second}, policy: func(p *state.Policy) { p.Collect = 4 * time.Minute }},
		"few an hour": {figure: replay.Figure{Time: 30 * time.Second}, policy: func(p *state.Policy) { p.Rate = 2 }},
		"little money": {figure: replay.Figure{Time: 30 * time.Second, Cost: state.Dollar}, policy: func(p *state.Policy) {
			p.Budget = state.Budget{Day: 6 * state.Dollar, Low: 3 * state.Dollar, Critical: 2 * state.Dollar}
		}},
		"challenge": {require: trust.RequireChallenge, figure: replay.Figure{Time: 40 * time.Second}},
		"no turns":  {policy: func(p *state.Policy) { p.Turns = false }},
		"Berlin, every two hours": {figure: replay.Figure{Time: 40 * time.Second}, policy: func(p *state.Policy) {
			p.Location, p.IdleInterval, p.Ack = berlin, 2*time.Hour, false
		}},
		"a prompt": {figure: replay.Figure{Time: 90 * time.Second}, policy: func(p *state.Policy) {
			p.Location, p.Prompts = berlin, []state.PromptPolicy{{Name: "report", At: "17 8 * * *", CatchUp: time.Hour, Next: eight.Next}}
		}},
		"a listener": {listen: true, policy: func(p *state.Policy) { p.Collect = 45 * time.Second }},
	}
	for name, st := range settings {
		seeds := 1
		if name == "plain" || name == "long turns" {
			seeds = 3
		}
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				letters, until := randomLetters(rand.New(rand.NewPCG(uint64(seed), 34)), 30), midnight.Add(48*time.Hour)
				want := live(t, st, letters, until)
				got, sum := replayed(t, st, letters, until)
				aside, rejected := 0, 0
				for _, a := range sum.Aside {
					aside += a.Count
				}
				for _, l := range want {
					if strings.Contains(l, " "+string(state.LineGate)+" ") && !strings.Contains(l, " "+string(state.WordCopy)+" ") {
						rejected++
					}
				}
				if aside != rejected {
					t.Errorf("%d mails are set aside, want %d", aside, rejected)
				}
				parts := sum.Others + sum.Undecided + sum.Messages + sum.Controls + sum.Copies + aside
				if parts != len(letters) || sum.Mails != len(letters) {
					t.Errorf("%d mails have %d parts, want %d: %+v", sum.Mails, parts, len(letters), sum)
				}
				if diff := firstDifference(got, want); diff != "" {
					t.Errorf("%s", diff)
				}
				t.Logf("%d equal lines", len(got))
			})
		}
	}
}

// A poll of a replay takes as many mails as a poll of the program, and leaves the rest to the next one.
// A mail that a gate rejects takes no place of another. The lines of the gates are not compared: the
// program counts the rejected mails together once its quarantine is full.
func TestFloodIsTakenInParts(t *testing.T) {
	t.Parallel()
	call := "@" + handle + " work"
	for name, flood := range map[string]func(at time.Time) letter{
		"of orders": func(at time.Time) letter { return write(at, operator, call, "task") },
		"of automatic replies": func(at time.Time) letter {
			return write(at, operator, call, "away", "Auto-Submitted: auto-replied"+crlf)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var letters []letter
			for n := range 449 {
				letters = append(letters, flood(midnight.Add(time.Hour+time.Duration(n+1)*time.Second)))
			}
			letters = append(letters, write(midnight.Add(time.Hour+10*time.Minute), operator, call, "the last"))
			st, until := setting{policy: func(p *state.Policy) { p.Turns = false }}, midnight.Add(3*time.Hour)
			want := live(t, st, letters, until)
			got, sum := replayed(t, st, letters, until)
			if diff := firstDifference(withoutGates(got), withoutGates(want)); diff != "" {
				t.Errorf("%s", diff)
			}
			if sum.Mails != len(letters) || sum.Unanswered != sum.Messages {
				t.Errorf("%d mails, of which %d are messages and %d wait; want %d mails", sum.Mails, sum.Messages, sum.Unanswered, len(letters))
			}
		})
	}
}

// withoutGates returns the lines of a record without those of gates.
func withoutGates(lines []string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, " "+string(state.LineGate)+" ") })
}

// firstDifference shows where two records differ, or returns "".
func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("after %d equal lines, of %d and %d:\n%s\nthe replay: %s\nthe program: %s", i, len(got), len(want), strings.Join(want[max(0, i-6):i], "\n"), g, w)
		}
	}
	return ""
}
