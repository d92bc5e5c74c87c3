package present

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
)

// TestWaitingText checks the reason and the hint for a person who waits for an answer.
func TestWaitingText(t *testing.T) {
	now := time.Date(2026, time.January, 5, 9, 30, 0, 0, time.Local)
	at := now.Add(-5 * time.Minute)
	later := now.Add(10 * time.Minute)
	for _, test := range []struct {
		w    view.Waiting
		want string
		hint string // its beginning; "" for no hint
	}{
		{view.Waiting{Why: view.WaitNoRunner, Never: true}, `runner is "none": it must be taken from the inbox`, "`agentstateloop inbox next`"},
		{view.Waiting{Why: view.WaitHalted, Never: true, By: []string{"here", "mesh"}}, "the agent is HALTED, and answers after resume", "lift it with `agentstateloop resume` and `agentstateloop mesh resume`"},
		{view.Waiting{Why: view.WaitMoney, Never: true, Reason: "the credit is used up"}, "the agent is out of money: the credit is used up", "`agentstateloop credit USD`"},
		{view.Waiting{Why: view.WaitCooldown, Until: later}, "too many turns failed in a row; the agent answers after 09:40", "`agentstateloop doctor`"},
		{view.Waiting{Why: view.WaitBlocked, Reason: "turn.lock is a folder"}, "no turn can run: turn.lock is a folder", "`agentstateloop doctor`"},
		{view.Waiting{Why: view.WaitCredential, Who: "agent:claude", Since: at, Reason: "401\nsee \x1b[31mhere"}, "the agent's login agent:claude has been refused since 09:25", "`agentstateloop doctor`"},
		{view.Waiting{Why: view.WaitWorking, Who: "me", Since: at}, "the agent has been working on it since 09:25", ""},
		{view.Waiting{Why: view.WaitSuspended, Who: "boreas3120", Until: later}, "its turn waits for a report from boreas3120, until 09:40", ""},
		{view.Waiting{Why: view.WaitTurn, Who: "you@example.com", Source: state.Mail, Since: at}, "the agent has been working on a mail from you@example.com since 09:25", ""},
		{view.Waiting{Why: view.WaitTurn, Source: state.Self, Since: at}, "the agent has been working on a plan of its own since 09:25", ""},
		{view.Waiting{Why: view.WaitReports, Who: "boreas3120"}, "the previous turn waits for a report from boreas3120", ""},
		{view.Waiting{Why: view.WaitLingering}, "the agent of the previous turn has answered, but its process has not ended", ""},
		{view.Waiting{Why: view.WaitBehind, Who: "boreas3120", Source: state.Mesh, Count: 1}, "1 message comes first: a message from boreas3120 is next", ""},
		{view.Waiting{Why: view.WaitBehind, Who: "you@example.com", Source: state.Mail, Count: 3}, "3 messages come first: a mail from you@example.com is next", ""},
		{view.Waiting{Why: view.WaitDeferred, Until: later, Reason: state.CollectReason}, "it waits until 09:40", ""},
		{view.Waiting{Why: view.WaitSource, Who: "imap", Since: at, Reason: "535"}, "the poll reads mail first, and the login imap has been refused since 09:25", ""},
		{view.Waiting{Why: view.WaitSource, Since: at}, "the poll reads mail first, and mail was last read at 09:25", ""},
		{view.Waiting{Why: view.WaitSource}, "the poll reads mail first, and mail could not be read yet", ""},
		{view.Waiting{Why: view.WaitPoll, Until: later}, "no poll has picked it up yet; the next regular one is at 09:40", "is cron running?"},
		{view.Waiting{Why: view.WaitPoll, Until: at, Never: true}, "no poll picks it up; the last one was due at 09:25", "is cron running?"},
		{view.Waiting{Why: view.WaitOutbox, Count: 2, Reason: "no mail can be sent", Until: later}, "2 messages in the outbox: no mail can be sent; next try 09:40", ""},
	} {
		got, hint := Waiting(test.w, now), WaitingHint(test.w, cycle.ModeCrontab)
		if !strings.HasPrefix(got, test.want) || strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("%s: %q, want %q", test.w.Why, got, test.want)
		}
		if !strings.HasPrefix(hint, test.hint) || test.hint == "" && hint != "" {
			t.Errorf("%s: hint %q, want %q", test.w.Why, hint, test.hint)
		}
	}
}
