package state_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// busyStep is a step that has nearly everything to do at once. want are its history lines, by told.
type busyStep struct {
	name   string
	before state.State
	events []state.Event
	policy state.Policy
	want   []string
}

// busySteps returns steps at nine.
func busySteps() []busyStep {
	p := statetest.Policy()
	p.AckAfter, p.Rate, p.Login, p.Copies = time.Minute, 1, "agent:claude", true
	p.Budget = state.Budget{HasCredit: true, Credit: state.Dollar, Low: 2 * state.Dollar, Critical: state.Dollar / 10}
	p.Hooks = []state.HookPolicy{{Name: "ops", On: []string{"tier"}}}
	relay := state.Effect{ID: "relay.0", Kind: state.Relay, Channel: state.ByMesh, To: "dorlange3120", Credential: "smtp", Created: nine}

	suspended := agentInTurn("")
	suspended.Phase, suspended.PhaseSince = state.PREP, nine
	suspended.Turn.Status = state.HeadSuspended
	suspended.Turn.Waiting = []state.Wait{
		{ID: "wait.late", To: "deploy", Outside: true, Asked: nine.Add(-time.Hour), By: nine, Span: time.Hour},
		{ID: "wait.open", To: "deploy", Outside: true, Asked: nine, By: nine.Add(time.Hour), Span: time.Hour},
	}
	suspended.Expected = []state.Expected{{Wait: state.Wait{ID: "wait.over", To: "deploy", Outside: true, By: nine}}}
	deferred := func(m state.Message, reason string) state.Message {
		m.Status, m.Reason, m.NextRetryAt = state.Deferred, reason, nine
		return m
	}
	self := state.Message{Key: "self:1", Source: state.Self, Kind: state.KindReminder, Operator: true}
	suspended.Inbox = append(suspended.Inbox, cliMessage(1, 1), deferred(mailOf("m2"), state.OverRate), deferred(self, state.KindReminder))
	suspended.Accepted, suspended.Streak = []time.Time{nine}, state.SelfStreak{Turns: 3}
	suspended.AckWaits = state.WaitingAck{Until: nine}
	suspended.Challenges = []state.OpenChallenge{{ID: "challenge.1", Key: "m0", Until: nine}}
	suspended.Credentials = map[string]state.Credential{"agent:codex": {Failures: 1}, "imap": {Failures: 3}}
	suspended.Cursor = state.Cursor{Mailbox: "box", Validity: 7, Owed: []uint32{5}, Failures: map[uint32]state.Failure{5: {Tries: 9, Told: state.ToldLater}}}
	suspended.SendingFails = state.SendingFailure{Since: nine}
	suspended.Lost = []state.Returned{{ID: "reply.lost", To: "op@example.com", At: nine}}
	suspended.Undelivered = agentWithUndelivered(100).Undelivered
	suspended.Outbox = []state.Effect{
		relay,
		{ID: "reply.old", Kind: state.Reply, Channel: state.ByMail, To: "op@example.com", Created: nine, Waited: 5 * 24 * time.Hour, Attempts: 1},
		{ID: "notice.0", Kind: state.Notice, Channel: state.ByMail, To: "op@example.com", Created: nine, Tells: []string{"reply.t0"}},
	}
	suspended.HookCalls = []state.Effect{{ID: "hook.0", To: "gone"}}
	suspended.Unfiled = []state.Unfiled{{ID: "reply.copy", Sent: nine.Add(-24 * time.Hour), Attempts: 1}}

	long := agentInTurn("")
	long.Turn.Since = nine.Add(-2 * time.Minute)
	long.Outbox, long.AckWaits = []state.Effect{relay}, state.WaitingAck{Until: nine}

	// An older version gave all open questions one deadline. The clock was set back since.
	old := agentInTurn("")
	old.Turn.Status, old.Turn.ResumeBy, old.Turn.Patience = state.HeadSuspended, nine.Add(3*time.Hour), time.Hour
	old.Turn.Waiting = []state.Wait{{ID: "ask.1", To: "dorlange3120", Asked: nine.Add(2 * time.Hour)}}

	spent := state.Spent{Spending: state.Spending{ID: "s1", Cost: state.Dollar * 95 / 100}}
	return []busyStep{
		{"a suspended turn", suspended, []state.Event{spent, state.Polled{}}, p, []string{
			"credit opened",
			"tier low_compute",
			"credential recovered agent:codex",
			"challenge expired challenge.1",
			"spend",
			"edge report wait.late", "edge join wait.late",
			"edge expected wait.open", "edge report wait.open", "edge join wait.open",
			"edge lapsed wait.over",
			"delivery undeliverable reply.old", "effect queued relay",
			"undelivered forgotten reply.t0",
			"delivery not filed reply.copy",
			"delivery withdrawn notice.0",
			"sending nothing waits",
			"effect queued alarm", "credential blocker imap", "effect queued notice",
			"effect queued relay", "bounce told",
			"effect queued notice",
			"sleep held", "effect queued notice",
			"delivery withdrawn relay.0", "effect queued notice",
			"effect queued ack",
			"tier critical",
			"number",
			"delivery withdrawn hook.0",
			"effect queued hook", "effect queued hook",
		}},
		{"a long turn", long, []state.Event{spent}, p, []string{
			"credit opened",
			"tier low_compute",
			"spend",
			"delivery withdrawn relay.0", "effect queued notice",
			"effect queued working",
			"ack not needed",
			"tier critical",
			"effect queued hook", "effect queued hook",
		}},
		{"an older version", old, nil, statetest.Policy(), nil},
	}
}

// TestOrderOfStep checks in which order one Step does all that it may have to do at once,
// by its history lines: the cause of a line comes before it, and the mails to the
// operator leave in this order.
func TestOrderOfStep(t *testing.T) {
	for _, c := range busySteps() {
		t.Run(c.name, func(t *testing.T) {
			after := state.Step(c.before, c.events, c.policy, nine)
			if got := lineSummaries(after.Lines); !slices.Equal(got, c.want) {
				t.Errorf("the lines are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// lineSummaries returns each line in words: its kind, what it records, and of what.
func lineSummaries(lines []state.Line) (all []string) {
	for _, l := range lines {
		words := []string{string(l.Kind), string(l.What)}
		switch l.Kind {
		case state.LineEffect:
			words = append(words, string(l.Effect.Kind))
		case state.LineEdge:
			words = append(words, l.Request)
		case state.LineCredential:
			words = append(words, l.From)
		default:
			words = append(words, l.ID)
		}
		all = append(all, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
	}
	return all
}

// TestFreeRulesCommute checks that the order of the rules of a group does not matter where After
// leaves it open: in all stories, in busy steps, and in random lives.
func TestFreeRulesCommute(t *testing.T) {
	steps := statetest.CheckOrders(t, func(step state.StepFunc) {
		playBusySteps(step)
		playStories(t, step)
		for n := range 100 {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			script := many(200, func(int) byte { return byte(random.Uint32()) })
			life := randomLife(t, script)
			life.unchecked = step
			life.live()
		}
	})
	if steps < 3000 {
		t.Errorf("only %d steps", steps)
	}
}

// TestEveryAfterIsNeeded checks that the table says only as much as it must: a rule that runs before
// one that it names changes the result of some step, and no rule is named whose place follows from
// the others.
func TestEveryAfterIsNeeded(t *testing.T) {
	var steps []statetest.Recorded
	statetest.Observe(func(step state.StepFunc) {
		playBusySteps(step)
		playStories(t, step)
	}, func(r statetest.Recorded) { steps = append(steps, r) })

	var groups [][]state.Rule
	steps[0].In(t, func(rules []state.Rule) []state.Rule {
		groups = append(groups, rules)
		return rules
	})
	for _, group := range groups {
		for i, r := range group {
			for _, name := range r.After {
				if !slices.ContainsFunc(group[:i], func(earlier state.Rule) bool { return earlier.Name == name }) {
					t.Errorf("%s comes after %s, which does not stand before it in the table", r.Name, name)
				}
				if reversed := reverse(group, r.Name, name); reversed == nil {
					t.Errorf("that %s comes after %s follows from the other rules", r.Name, name)
				} else if !slices.ContainsFunc(steps, func(step statetest.Recorded) bool { return changes(t, step, group, reversed) }) {
					t.Errorf("no step shows that %s must come after %s", r.Name, name)
				}
			}
		}
	}
}

// reverse returns the rules of a group in an order in which the rule late comes before the rule
// early, though the rest of After holds. It returns nil if they leave none.
func reverse(group []state.Rule, late, early string) []state.Rule {
	group = slices.Clone(group)
	for i := range group {
		switch r := &group[i]; r.Name {
		case late:
			r.After = slices.DeleteFunc(slices.Clone(r.After), func(name string) bool { return name == early })
		case early:
			r.After = append(slices.Clone(r.After), late)
		}
	}
	return statetest.Shuffle(rand.New(rand.NewPCG(1, 1)), group)
}

// changes reports whether a step has another result, or panics, if the rules of a group are in this
// order.
func changes(t *testing.T, step statetest.Recorded, group, order []state.Rule) (changed bool) {
	defer func() { changed = changed || recover() != nil }()
	return step.In(t, nil) != step.In(t, func(rules []state.Rule) []state.Rule {
		if rules[0].Name == group[0].Name {
			return order
		}
		return rules
	})
}

func playBusySteps(step state.StepFunc) {
	for _, c := range busySteps() {
		step(c.before, c.events, c.policy, nine)
	}
}

// TestExpiredHookCallsMakeRoom checks that rows that are given up make room for the announcements
// of the same step.
func TestExpiredHookCallsMakeRoom(t *testing.T) {
	s := agent()
	s.HookCalls = many(200, func(i int) state.Effect { return state.Effect{ID: fmt.Sprint("hook.", i), To: "ops"} })
	s.HookCalls[0].Waited, s.HookCalls[0].Attempts = 24*time.Hour, 1
	s = stepWithHook(s, state.MemoryReset{})
	want := []string{"reset", "delivery undeliverable hook.0", "effect queued notice", "effect queued hook"}
	if got := lineSummaries(s.Lines); !slices.Equal(got, want) {
		t.Errorf("the lines are %q, want %q", got, want)
	}
}
