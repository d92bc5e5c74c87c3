package cycle_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
	"agentstateloop/turn/relay"
)

// A planned turn has the rights of its conversation: those of self in the operator's, and a
// peer's never more than the peer's. It does not see the other conversation, and only the
// operator gets its answer.
func TestRightsOfPlannedTurns(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Rights = cycle.Rights{Operator: []string{"--may", "all"}, Peer: []string{"--may", "talk"}, Self: []string{"--may", "look"}}
	h.agent.Policy.Ack = false
	h.playScript("echo \"$*\" >>argv\ngrep -q 'You woke yourself' prompt || us remind 20m 'look again'\necho done\n")
	h.receive(letter{id: "<one@example.com>", body: "the secret of the operator"})
	h.poll()
	h.post(mesh.Message{ID: "q1", Text: "the wish of the peer"})
	h.pollAfter(time.Minute)
	rows, err := h.agent.Wakeups(cycle.Inside{})
	check(t, err)
	if len(rows) != 2 {
		t.Fatalf("planned: %+v", rows)
	}
	h.clock.advance(25 * time.Minute)
	sent, posted := len(h.sentOf("reply")), len(h.reports())
	h.poll()
	if got := h.workFile("argv"); got != "--may all\n--may talk\n--may look\n--may talk" {
		t.Errorf("rights:\n%s", got)
	}
	if got := h.prompt(); strings.Contains(got, "the secret of the operator") || !strings.Contains(got, "the wish of the peer") {
		t.Errorf("the prompt of what was planned for the peer:\n%s", got)
	}
	if sent, posted := len(h.sentOf("reply"))-sent, len(h.reports())-posted; sent != 1 || posted != 0 {
		t.Errorf("%d mails, %d reports; only the operator gets an answer", sent, posted)
	}
}

// The answer of a turn that the agent planned is mailed in the operator's newest conversation. An
// answer without news succeeds without a mail.
func TestWakeupReply(t *testing.T) {
	for name, c := range map[string]struct {
		plays, mail string
		status      state.Outcome
	}{
		"words":                {"echo 'the build is green'", "the build is green", state.Success},
		"nothing":              {"echo NOTHING", "", state.Success},
		"in any case":          {"echo ' Nothing. '", "", state.Success},
		"not a word":           {"true", "", state.Success},
		"a word about nothing": {"echo 'Nothing new.'", "Nothing new.", state.Success},
		"a failure":            {"echo half; exit 3", "Inference failed. ", state.Failed},
		"files alone":          {`echo x >"$AGENTSTATELOOP_OUTPUT/x"`, "the agent wrote files but no answer", state.Partial},
		"submitted":            {"us submit nothing", "", state.Success},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newAwakeFixture(t)
			h.agent.Policy.Ack = false
			h.receive(letter{id: "<one@example.com>", subject: "@" + handle + " the build"})
			h.poll()
			h.playScript(c.plays + "\n")
			h.remind("10m", "look at the build")
			h.clock.advance(11 * time.Minute)
			before := len(h.sentOf("reply"))
			h.poll()
			mails := h.sentOf("reply")[before:]
			switch {
			case c.mail == "" && len(mails) > 0, c.mail != "" && len(mails) != 1:
				t.Errorf("mails: %+v", mails)
			case c.mail != "" && !strings.Contains(mails[0].text, c.mail):
				t.Errorf("the mail says %q", mails[0].text)
			}
			tasks := h.lines(state.LineTask)
			if last := tasks[len(tasks)-1]; last.Outcome != c.status {
				t.Errorf("it ended as %s: %s", last.Outcome, last.Reason)
			}
			if s := h.state(); s.Phase == state.PREP || len(s.Inbox) > 0 {
				t.Errorf("%s, inbox %+v", s.Phase, s.Inbox)
			}
		})
	}
}

// A retried wakeup counts as one of the streak, and its prompt says that it was started again.
func TestRetryOfWakeup(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.remind("10m", "look at the build")
	h.clock.advance(11 * time.Minute)
	if s := h.step(state.Claimed{}); s.Turn.Status != state.HeadDispatched {
		t.Fatalf("%+v", s.Turn)
	}
	h.poll() // the watchdog finds no runner
	if got := h.state().Streak; got.Turns != 1 {
		t.Errorf("%+v", got)
	}
	wantWords(t, h.prompt(), "You were restarted for this wakeup (a reminder that your operator set for you).")
}

// A reminder survives a reset, and its turn does not see the earlier conversation.
func TestReminderSurvivesReset(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript("grep -q 'You woke yourself' prompt || { us remind 20m 'look again'; us sleep 10m 'look'; }\necho 'the secret plan'\n")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	check(t, h.agent.Reset(t.Context(), "", "op"))
	if rows := h.state().Planned(); len(rows) != 1 || rows[0].Kind != state.KindReminder {
		t.Fatalf("%+v", rows)
	}
	h.clock.advance(25 * time.Minute)
	h.poll()
	got := h.prompt()
	if !strings.Contains(got, "a reminder that you set") || !strings.Contains(got, "look again") || strings.Contains(got, "the secret plan") {
		t.Errorf("the prompt:\n%s", got)
	}
}

// No more wakeups wait than may, and those of a peer's turns take half of the room.
func TestWakeupLimits(t *testing.T) {
	h := newAwakeFixture(t)
	for n := range state.MaxSelfRows {
		h.remind("10m", fmt.Sprint(n))
	}
	if _, err := h.agent.RemindByHand(t.Context(), "op", "10m", "one more"); err == nil || !strings.Contains(err.Error(), "50 wakeups") {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := h.agent.RemindByHand(t.Context(), "op", "10m", strings.Repeat("x", 4097)); err == nil || !strings.Contains(err.Error(), "4097 bytes") {
		t.Errorf("too long: %v", err)
	}
	files, err := os.ReadDir(h.agent.Store.Path(store.MessagesDir))
	check(t, err)
	if len(files) != state.MaxSelfRows {
		t.Errorf("%d files for %d rows", len(files), state.MaxSelfRows)
	}
}

// A sandboxed agent can plan turns through its runner with the same limits as its commands.
func TestRelayPlansTurns(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.RunTurn = func(_ context.Context, at turn.Attempt) (turn.Result, error) {
		in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		for name, r := range map[string]relay.Request{
			"nonsense": {Verb: relay.Remind, When: "soon", Text: "x"},
			"the past": {Verb: relay.Remind, When: "2026-01-01 08:00", Text: "x"},
			"too far":  {Verb: relay.Remind, When: "400d", Text: "x"},
			"no words": {Verb: relay.Remind, When: "10m", Text: " \n"},
			"too long": {Verb: relay.Sleep, For: 25 * time.Hour, Text: "x"},
			"too much": {Verb: relay.Remind, When: "10m", Text: strings.Repeat("x", 5<<10)},
		} {
			if _, err := h.agent.Relay(t.Context(), in, r); err == nil {
				t.Errorf("%s: it was done", name)
			}
		}
		stale := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch + 1}
		if _, err := h.agent.Relay(t.Context(), stale, relay.Request{Verb: relay.Remind, When: "10m", Text: "x"}); !errors.Is(err, cycle.ErrStale) {
			t.Errorf("of another attempt: %v", err)
		}
		for _, r := range []relay.Request{{Verb: relay.Sleep, For: time.Hour, Text: "see the build"}, {Verb: relay.Remind, When: "3d", Text: "report"}} {
			_, err := h.agent.Relay(t.Context(), in, r)
			check(t, err)
		}
		text, err := h.agent.Relay(t.Context(), in, relay.Request{Verb: relay.Wakeups})
		if err != nil || !strings.Contains(text, `"title":"see the build"`) || !strings.Contains(text, `"kind":"reminder"`) {
			t.Errorf("%s, %v", text, err)
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	h.sayByMail("hello")
	if rows := h.state().Planned(); len(rows) != 2 || rows[0].Kind != state.KindSleep {
		t.Errorf("%+v", rows)
	}
}

// An agent that pulls its messages gets its planned turns when they are due.
func TestPullWakeup(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Turn, h.agent.Policy.Turns = nil, false
	h.remind("10m", "look at the build")
	if _, err := h.agent.Next(t.Context()); err == nil {
		t.Error("it was handed out before its time")
	}
	h.clock.advance(10 * time.Minute)
	next, err := h.agent.Next(t.Context())
	check(t, err)
	if next.Source != state.Self || next.Text != "look at the build" {
		t.Errorf("%+v", next)
	}
	check(t, h.agent.Done(t.Context(), cycle.Inside{TurnID: next.TurnID, Epoch: next.Epoch}, "nothing"))
	if mails := h.sentOf("reply"); len(mails) > 0 {
		t.Errorf("mails: %+v", mails)
	}
}

// The rest after an answer does not end a sleep with a reason, which another turn has planned.
func TestRestKeepsSleep(t *testing.T) {
	for _, wakes := range []bool{false, true} {
		h := newAwakeFixture(t)
		turns := 0
		h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
			in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
			if turns++; turns == 1 {
				check(t, h.agent.Sleep(ctx, in, 2*time.Hour, "see the build"))
			} else {
				check(t, h.agent.Rest(ctx, in, time.Minute, wakes))
			}
			return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
		}
		h.receive(letter{id: "<one@example.com>"})
		h.receive(letter{id: "<two@example.com>"}) // waits while the first has its turn
		h.poll()
		if rows := h.state().Planned(); turns != 2 || len(rows) != 1 || rows[0].Title != "see the build" {
			t.Errorf("[api] rest %v: after %d turns there is planned %+v", wakes, turns, rows)
		}
		if until := h.state().SleepUntil; until.Before(h.clock.Now().Add(time.Hour)) {
			t.Errorf("[api] rest %v: the agent sleeps until %v", wakes, until)
		}
	}
}

// A sleep that a nudge ends before its time is not told to have taken its time.
func TestSleepEndsEarly(t *testing.T) {
	h := newAwakeFixture(t)
	h.playScript("grep -q 'You woke yourself' prompt || us sleep 2h 'see the build'\necho done\n")
	h.sayByMail("hello")
	check(t, h.agent.Ring("ci", "the build is green"))
	h.pollAfter(time.Minute)
	if got := h.prompt(); !strings.Contains(got, "You woke yourself: your sleep ended early.") || !strings.Contains(got, "nudge from ci: the build is green") {
		t.Errorf("the prompt:\n%s", got)
	}
}

// The answer to STATUS lists planned turns and the reason why they wait. They do not count as
// messages.
func TestStatusMailShowsWakeups(t *testing.T) {
	h := newAwakeFixture(t)
	for _, when := range []string{"40d", "10m"} {
		h.remind(when, "look after "+when)
	}
	h.halt()
	h.receive(letter{id: "<status@example.com>", body: "STATUS"})
	h.pollAfter(12 * time.Minute)
	answers := h.sentOf("answer")
	if len(answers) != 1 {
		t.Fatalf("answers: %+v", answers)
	}
	wantWords(t, answers[0].text,
		"inbox: 0 waiting\n",
		"reminder: 2026-01-05T09:10:00Z, look after 10m (waits: the agent is halted)\nreminder: 2026-02-14T09:00:00Z, look after 40d\n",
	)
}

// The prompt of an agent in another zone than UTC has the local time, as remind reads it.
func TestPromptHasLocalTime(t *testing.T) {
	h := newAwakeFixture(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	check(t, err)
	h.agent.Policy.Location = berlin
	h.sayByMail("hello")
	if got := h.prompt(); !strings.Contains(got, "It is 2026-01-05 09:01 UTC, 2026-01-05 10:01 local time.") {
		t.Errorf("the prompt:\n%s", got)
	}
}
