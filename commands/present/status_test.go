package present

import (
	"testing"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
)

// TestStatusText checks the text of status for agents in different states.
func TestStatusText(t *testing.T) {
	now := time.Date(2026, time.January, 5, 12, 0, 0, 0, time.Local)
	in := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	text := func(s string) *string { return &s }
	epoch := uint64(3)
	one, cost, seconds := 1, 0.123, 63.6
	for _, test := range []struct {
		name, mode string
		status     view.Status
		want       string
	}{
		{"asleep", cycle.ModeCrontab, view.Status{
			Agent: "goulard3120", Phase: state.IDLE, PhaseSince: in(-26 * time.Hour), NextDue: in(30 * time.Minute),
			Turn:     view.StatusTurn{Status: state.HeadIdle},
			Schedule: view.StatusSchedule{Wanted: text("*/30 * * * *"), Installed: text("*/30 * * * *")},
		}, `
@goulard3120 is IDLE since 2026-01-04 10:00:00 (1d2h)
  next poll  12:30:00 (in 30m)
  schedule   */30 * * * *
  inbox      0 waiting, 0 deferred, 0 quarantined
`},
		{"everything wrong", cycle.ModeCrontab, view.Status{
			Agent: "goulard3120", Phase: state.ACTIVE, PhaseSince: in(-90 * time.Second), NextDue: in(-5 * time.Minute),
			Deadline: in(8*time.Minute + 30*time.Second), Halted: true, HaltedBy: []string{"here", "mesh"}, TwoMachines: &view.TwoMachines{Place: text("0123456789abcdef"), At: now.Add(-time.Hour)}, Offline: true, LastLook: in(-2 * time.Hour),
			Inbox: view.StatusInbox{Waiting: 2, Deferred: 4, Quarantined: 4, Deferrals: []view.StatusDeferral{
				{Reason: state.OverRate, Count: 3, Next: now.Add(time.Minute), Last: now.Add(time.Hour)},
				{Reason: "not logged in", Count: 1, Next: now.Add(time.Minute), Last: now.Add(time.Minute)},
			}},
			Outbox: view.StatusOutbox{Waiting: 3, Undeliverable: 1, Holds: []view.StatusHold{
				{Why: state.HoldDown, Text: "the mail server is unavailable", Count: 2, NextTry: in(time.Minute)}, {Why: state.HoldPoll, Text: "the next poll sends it", Count: 1},
			}},
			Lost: []view.StatusLost{
				{ID: "reply.t1", To: "op@example.com", At: now.Add(-time.Hour), Reason: "550"},
				{ID: "reply.t2", To: "op@example.com", At: now.Add(-time.Minute), Reason: "552 mailbox\x1b[2J full"},
			},
			Sending: &view.StatusSending{Since: now.Add(-time.Hour), Reason: "451 later\x1b[2J", NextTry: now.Add(time.Minute), Waiting: 1},
			Turn:    view.StatusTurn{Status: state.HeadRunning, ID: text("turn.1"), Epoch: &epoch, State: text("running_tool"), Tool: text("Bash\x1b[2J"), WaitingToolCount: &one},
			Credentials: map[string]view.StatusCredential{
				"smtp": {Failures: 1, Since: now.Add(-time.Minute)}, "imap": {Failures: 3, Since: now.Add(-time.Hour), Reason: "login: NO", KeymasterTold: true, OperatorTold: true},
				"mesh": {Failures: 2, Since: now.Add(-time.Minute), KeymasterTold: true},
			},
			Schedule: view.StatusSchedule{Wanted: text("*/1 * * * *"), Installed: text("*/30 * * * *"), Error: text("no crontab program")},
		}, `
@goulard3120 is ACTIVE since 11:58:30 (1m30s)
  HALTED     no turns, no mail, until ` + "`agentstateloop resume` and `agentstateloop mesh resume`" + `
  TWO MACHINES @goulard3120 also works elsewhere (place 0123456789abcdef), last at 11:00:00: each message may be answered twice, or by only one of the two. ` + state.TwoMachinesHint + `
  CREDENTIAL imap failed in 3 polls in a row since 11:00:00; you were informed (login: NO)
  CREDENTIAL mesh failed in 2 polls in a row since 11:59:00; the keymaster was informed
  CREDENTIAL smtp failed in 1 poll in a row since 11:59:00; NOBODY IS INFORMED YET
  OFFLINE    mail was last read at 10:00:00 (2h ago): ` + "`agentstateloop doctor`" + ` shows why
  OFFLINE    no mail can be sent since 11:00:00 (1 mail waiting): 451 later [2J; next try 12:01:00 (in 1m); see ` + "`agentstateloop outbox list`" + `
  LOST       1 message could not be delivered; see ` + "`agentstateloop outbox list`" + `
  LOST       2 mails returned undelivered, the last at 11:59:00: reply.t2 to op@example.com: 552 mailbox [2J full
  OVERDUE    the poll due at 11:55:00 (5m ago) did not run: is cron running?
  CRONTAB    cannot be set: no crontab program
  schedule   */30 * * * * is installed, but should be */1 * * * *
  timer      IDLE at 12:08:30 (in 8m30s) unless you write
  inbox      2 waiting, 4 deferred, 4 quarantined
  deferred   3 messages until 12:01:00, the last until 13:00:00: over the limit of mails an hour, [budget] mails_an_hour
  deferred   1 message until 12:01:00: not logged in
  outbox     2 waiting: the mail server is unavailable; next try 12:01:00 (in 1m)
  outbox     1 waiting: the next poll sends it
  turn       running, turn.1 epoch 3, running_tool Bash [2J, waits for 1 tool
`},
		{"a turn at work", cycle.ModeFixed, view.Status{
			Agent: "a", Phase: state.ACTIVE, NextDue: in(time.Minute),
			Turn: view.StatusTurn{
				Status: state.HeadRunning, ID: text("t1"), Epoch: &epoch, Since: in(-3 * time.Minute), State: text("running_tool"), Tool: text("Bash"),
				WaitingToolCount: &one, LastOutput: in(-20 * time.Second), KillAt: in(7 * time.Minute), KillFor: text("ran longer than 10m0s"), CostUSD: &cost,
			},
			SleepUntil: in(2 * time.Hour),
		}, `
@a is ACTIVE
  next poll  12:01:00 (in 1m)
  schedule   mode fixed: you maintain the crontab
  inbox      0 waiting, 0 deferred, 0 quarantined
  turn       running for 3m, t1 epoch 3, running_tool Bash, waits for 1 tool
  agent      last output 20s ago, will be ended in 7m because it ran longer than 10m0s, $0.12 so far
  rest       wants to rest until 14:00:00 (in 2h)
`},
		{"a turn that waits", cycle.ModeFixed, view.Status{
			Agent: "a", Phase: state.ACTIVE, NextDue: in(-time.Second), Deadline: in(-time.Minute), AckDue: in(-3 * time.Second),
			Turn: view.StatusTurn{
				Status: state.HeadSuspended, ID: text("t1"), Epoch: &epoch, Lifecycle: text("killed"), Reason: text("clean exit"),
				WaitingToolCount: &one, ResumeBy: in(9 * time.Minute),
			},
		}, `
@a is ACTIVE
  next poll  due now
  schedule   mode fixed: you maintain the crontab
  timer      IDLE after the turn, unless you write
  ack        the next poll sends it, unless the answer comes first
  inbox      0 waiting, 0 deferred, 0 quarantined
  turn       suspended, t1 epoch 3, waits for 1 answer until 12:09:00
`},
		{"after the last turn", cycle.ModeFixed, view.Status{
			Agent: "a", Phase: state.ACTIVE, NextDue: in(time.Minute), Asleep: true, Turn: view.StatusTurn{Status: state.HeadIdle},
		}, `
@a is ACTIVE
  next poll  12:01:00 (in 1m)
  schedule   mode fixed: you maintain the crontab
  inbox      0 waiting, 0 deferred, 0 quarantined
  turn       asleep
`},
		{"what was last", cycle.ModeFixed, view.Status{
			Agent: "a", Phase: state.ACTIVE, NextDue: in(time.Minute), Turn: view.StatusTurn{Status: state.HeadIdle},
			LastMail:   &view.StatusMail{At: *in(-5 * time.Minute), From: "op@example.com\x1b[2J", Subject: text("is the build\x1b]0;x\a green?")},
			LastAnswer: &view.StatusAnswer{At: *in(-4 * time.Minute), Outcome: state.Success, Took: &seconds, CostUSD: 0.02, Delivery: view.AnswerSent, Sent: in(-4 * time.Minute)},
			Questions: []view.StatusQuestion{
				{Kind: view.QuestionAsk, To: "bob", Asked: in(-time.Minute), Until: in(time.Hour), Text: text("which\x1b[2J commit?"), Sent: true},
				{Kind: view.QuestionReport, To: "tool deploy", Asked: in(-time.Minute), Until: in(time.Hour), Sent: true},
				{Kind: view.QuestionChallenge, To: "op@example.com", Asked: in(-time.Minute), Until: in(time.Hour), Text: text("did you write it?")},
			},
			Self:       view.StatusSelf{Wakeups: []view.Wakeup{{}, {Held: "the agent is halted"}}},
			NextWakeup: &view.Wakeup{Kind: state.KindReminder, At: *in(20 * time.Hour), Title: "look\x1b[2J at CI"},
		}, `
@a is ACTIVE
  last mail  11:55:00 (5m ago) from op@example.com [2J: is the build ]0;x green?
  answer     11:56:00 (4m ago): success after 1m4s, $0.02; sent at 11:56:00
  asked      @bob at 11:59:00, until 13:00:00 (in 1h): which [2J commit?
  waits for  a report from tool deploy since 11:59:00, until 13:00:00 (in 1h)
  asked      you, op@example.com at 11:59:00 (NOT SENT YET), until 13:00:00 (in 1h): did you write it?
  next poll  12:01:00 (in 1m)
  schedule   mode fixed: you maintain the crontab
  inbox      0 waiting, 0 deferred, 0 quarantined
  wakeup     2026-01-06 08:00:00 (in 20h): reminder: look [2J at CI; 1 more
  WAITS      the agent is halted
`},
		{"something else polls", cycle.ModeNone, view.Status{
			Agent: "a", Phase: state.IDLE, NextDue: in(-5 * time.Minute), Offline: true, Turn: view.StatusTurn{Status: state.HeadIdle},
		}, `
@a is IDLE
  OFFLINE    mail could not be read yet: ` + "`agentstateloop doctor`" + ` shows why
  OVERDUE    the poll due at 11:55:00 (5m ago) did not run: is the program that runs the polls still running?
  schedule   mode none: another program polls
  inbox      0 waiting, 0 deferred, 0 quarantined
`},
		{"no crontab of ours", cycle.ModeFixed, view.Status{
			Agent: "a", Phase: state.PREP, Turn: view.StatusTurn{Status: state.HeadIdle},
		}, `
@a is PREP
  next poll  never polled yet: run ` + "`agentstateloop poll`" + ` once
  schedule   mode fixed: you maintain the crontab
  inbox      0 waiting, 0 deferred, 0 quarantined
`},
	} {
		if got := "\n" + Status(new(terminal.Output), test.status, test.mode, false, now); got != test.want {
			t.Errorf("%s: got%s\nwant%s", test.name, got, test.want)
		}
	}
}
