package cycle_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// threads is a salon in which each mail thread is a conversation of its own. The
// operator's words in one of them are not told in another.
type threads struct {
	*conversations
	newest map[string]sentMail // by thread: the newest answer of ours
	count  int                 // of answers to it
}

func newThreads(t *testing.T) *threads {
	t.Helper()
	th := &threads{conversations: newConversations(t), newest: map[string]sentMail{}, count: 1}
	th.agent.Policy.ByThread = true
	return th
}

// ask has a mail in a thread answered: the first begins the thread, and a further one
// answers our newest mail there.
func (th *threads) ask(thread, text string) attemptInput {
	th.t.Helper()
	l := letter{id: "<" + thread + "@example.com>", subject: "@" + handle + " " + thread, body: text}
	if newest, known := th.newest[thread]; known {
		l = replyTo(newest, text)
		th.count++
		l.id = fmt.Sprintf("<%s%d@example.com>", thread, th.count)
	}
	return th.answerMail(thread, l)
}

// answerMail has a mail answered, and returns what the agent was told.
func (th *threads) answerMail(thread string, l letter) attemptInput {
	th.t.Helper()
	th.last = attemptInput{}
	before := len(th.sentOf("reply"))
	th.receive(l)
	th.pollAfter(time.Minute)
	replies := th.sentOf("reply")
	if th.last.prompt == "" || len(replies) != before+1 {
		th.t.Fatalf("%s: %d answers", thread, len(replies)-before)
	}
	th.newest[thread] = replies[before]
	if head := replies[before].head; l.id != "" && head.InReplyTo != l.id {
		th.t.Errorf("%s: the answer is to %s, want %s", thread, head.InReplyTo, l.id)
	}
	return th.last
}

// wantOnlyWord fails unless an attempt was told this word of the three, and none of the others.
// A search finds all that the operator has said.
func (th *threads) wantOnlyWord(got attemptInput, word string) {
	th.t.Helper()
	got.searched = ""
	th.wantOnly(got, word)
}

// TestThreadsAreIsolated plays the events that can come between two mails of a thread. Each
// thread keeps its own session and history, and all share the memory.
func TestThreadsAreIsolated(t *testing.T) {
	t.Parallel()
	const bread, car = operatorsWord, peersWord
	for name, between := range some(map[string]func(*threads){
		"nothing":              func(*threads) {},
		"IDLE and back":        func(th *threads) { th.pollAfter(11 * time.Minute); th.wantPhase(state.IDLE) },
		"the session is full":  func(th *threads) { th.agent.Window = 1 },
		"no sessions":          func(th *threads) { th.agent.Turn.Runner = turn.Gemini },
		"a note in the memory": func(th *threads) { th.remember("we met in Oslo"); th.ask("third", "remember it"); th.play = nil },
		"compact by hand": func(th *threads) {
			_, err := th.agent.Compact(th.t.Context(), 0)
			check(th.t, err)
		},
		"the state is rebuilt from the history": func(th *threads) {
			check(th.t, os.Remove(th.agent.Store.Path("state.json")))
			check(th.t, os.Remove(th.agent.Store.Path("state.json.prev")))
		},
	}, 1) {
		t.Run(name, func(t *testing.T) {
			th := newThreads(t)
			th.ask("bread", "the code is "+bread)
			th.ask("car", "mine is "+car)
			between(th)
			got := th.ask("bread", "what do you know?")
			th.wantOnlyWord(got, bread)
			th.wantOnlyWord(th.ask("car", "what do you know?"), car)
			th.wantOnlyWord(th.ask("bread", "and now?"), bread)
			if name == "a note in the memory" && !strings.Contains(got.prompt, "we met in Oslo") {
				t.Errorf("the memory is not shared:\n%s", got.prompt)
			}
			if fresh := th.ask("fourth", "and you?"); strings.Contains(fresh.prompt, bread) || strings.Contains(fresh.prompt, car) || fresh.session != "" {
				t.Errorf("a new thread was told %s, session %q", fresh.prompt, fresh.session)
			}
		})
	}
}

// TestReplyThread sends mails of every form that may belong to a thread.
func TestReplyThread(t *testing.T) {
	t.Parallel()
	const word = operatorsWord
	for name, c := range map[string]struct {
		in   func(first, ours sentMail) letter
		same bool
	}{
		"an answer": {func(_, ours sentMail) letter { return replyTo(ours, "and?") }, true},
		"an answer under another subject": {func(_, ours sentMail) letter {
			l := replyTo(ours, "and?")
			l.subject = "@" + handle + " something else"
			return l
		}, true},
		"an answer whose chain begins elsewhere": {func(_, ours sentMail) letter {
			l := replyTo(ours, "and?")
			l.fields = "In-Reply-To: " + ours.head.MessageID + "\r\nReferences: <other@example.com> " + ours.head.MessageID + "\r\n"
			return l
		}, true},
		"an answer of a program that cuts the chain": {func(_, ours sentMail) letter {
			l := replyTo(ours, "and?")
			l.fields = "In-Reply-To: " + ours.head.MessageID + "\r\n"
			return l
		}, true},
		"an answer to the operator's own mail": {func(first, _ sentMail) letter {
			return letter{fields: "In-Reply-To: <first@example.com>\r\nReferences: <first@example.com>\r\n", body: "and?"}
		}, true},
		"the same subject": {func(first, _ sentMail) letter { return letter{subject: "@" + handle + " first", body: "and?"} }, false},
		"a chain of others": {func(first, _ sentMail) letter {
			return letter{fields: "References: <other@example.com>\r\n", body: "and?"}
		}, false},
		"an id of ours with another thread, without a good MAC": {func(_, ours sentMail) letter {
			id := strings.Replace(ours.head.MessageID, "+", "+x", 1)
			return letter{fields: "In-Reply-To: " + id + "\r\nReferences: " + id + "\r\n", body: "and?"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newThreads(t)
			th.ask("first", "the code is "+word)
			l := c.in(sentMail{}, th.newest["first"])
			l.id = "<later@example.com>"
			if l.subject == "" {
				l.subject = "@" + handle + " later"
			}
			got := th.answerMail("later", l)
			if told := strings.Contains(got.prompt, word) || got.session != ""; told != c.same {
				t.Errorf("it is told the thread: %v, want %v", told, c.same)
			}
		})
	}
}

// TestMailsWithoutIDAreSeparateThreads checks that two mails that have no Message-ID are two threads.
func TestMailsWithoutIDAreSeparateThreads(t *testing.T) {
	t.Parallel()
	th := newThreads(t)
	th.answerMail("first", letter{body: "the code is " + operatorsWord})
	if got := th.answerMail("second", letter{body: "what do you know?"}); strings.Contains(got.prompt, operatorsWord) || got.session != "" {
		t.Errorf("the second is told:\n%s", got.prompt)
	}
}

// TestTellAndMeshAreInNoThread checks that messages outside of mail belong to no thread, and that
// collected mails of different threads are not mixed.
func TestTellAndMeshAreInNoThread(t *testing.T) {
	t.Parallel()
	th := newThreads(t)
	th.ask("bread", "the code is "+operatorsWord)
	tell := func(text string) attemptInput {
		th.last = attemptInput{}
		th.queue(text)
		th.pollAfter(time.Minute)
		return th.last
	}
	th.wantOnlyWord(tell("mine is "+peersWord), peersWord)
	th.wantOnlyWord(tell("what do you know?"), peersWord)
	th.wantOnly(th.conversations.ask(second, "what do you know?"))
	th.wantOnlyWord(th.ask("bread", "what do you know?"), operatorsWord)

	th.agent.Policy.Collect = 30 * time.Second
	th.receive(letter{id: "<a@example.com>", subject: "@" + handle + " a", body: "one"})
	th.receive(letter{id: "<b@example.com>", subject: "@" + handle + " b", body: "two"})
	th.receive(letter{id: "<c@example.com>", subject: "@" + handle + " a", fields: "References: <a@example.com>\r\n", body: "three"})
	before := len(th.sentOf("reply"))
	th.poll()
	th.pollAfter(time.Minute)
	if got := len(th.sentOf("reply")) - before; got != 2 {
		t.Errorf("%d answers, want one for each thread", got)
	}
}

// TestReminderIsAnsweredInItsThread checks that the answer of a planned turn goes into the thread
// in which it was planned, even after other mail, and begins a thread if it was planned
// elsewhere.
func TestReminderIsAnsweredInItsThread(t *testing.T) {
	t.Parallel()
	for _, byThread := range []bool{false, true} {
		th := newThreads(t)
		th.agent.Policy.ByThread = byThread
		th.agent.Policy.SelfTurns = 10
		plan := func(kind string) {
			th.play = func(ctx context.Context, at turn.Attempt) {
				in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
				if kind == "sleep" {
					check(t, th.agent.Sleep(ctx, in, 9*time.Minute, "look at the oven"))
					return
				}
				_, err := th.agent.Remind(ctx, in, "20m", "look at the oven")
				check(t, err)
			}
		}
		wakes := func(d time.Duration) sentMail {
			t.Helper()
			before := len(th.sentOf("reply"))
			th.play = nil
			th.pollAfter(d)
			replies := th.sentOf("reply")
			if len(replies) != before+1 {
				t.Fatalf("%d answers", len(replies)-before)
			}
			return replies[before]
		}
		plan("reminder")
		th.ask("bread", "the code is "+operatorsWord)
		th.play = nil
		th.ask("car", "mine is "+peersWord)
		got := wakes(20 * time.Minute)
		if got.head.InReplyTo != "<bread@example.com>" || got.head.Subject != "Re: @"+handle+" bread" {
			t.Errorf("by thread %v: the answer is to %s, subject %q", byThread, got.head.InReplyTo, got.head.Subject)
		}
		if byThread {
			th.wantOnlyWord(th.last, operatorsWord)
		}
		// What it plans then stays there, too.
		th.newest["bread"] = got
		plan("sleep")
		th.ask("bread", "and now?")
		if got := wakes(10 * time.Minute); got.head.InReplyTo != "<bread2@example.com>" {
			t.Errorf("by thread %v: after a sleep:\n%s", byThread, got.raw)
		}
		// At the terminal, and in a turn of `tell`, it begins a thread.
		th.remind("20m", "water the plants")
		if got := wakes(21 * time.Minute); got.head.InReplyTo != "" || got.head.Subject != "@"+handle+": water the plants" {
			t.Errorf("by thread %v: by hand: %+v", byThread, got.head)
		}
		plan("reminder")
		th.queue("remind me")
		th.pollAfter(time.Minute)
		if got := wakes(21 * time.Minute); got.head.InReplyTo != "" || got.head.Subject != "@"+handle+": look at the oven" {
			t.Errorf("by thread %v: after tell: %+v", byThread, got.head)
		}
		// A message of another agent has no thread of the operator's.
		plan("reminder")
		_, err := th.provenPeer().Send(t.Context(), mesh.Message{To: handle, Text: "remind me"})
		check(t, err)
		th.pollAfter(time.Minute)
		th.play = nil
		before := len(th.sentOf("reply"))
		th.pollAfter(21 * time.Minute)
		if n := len(th.sentOf("reply")) - before; n != 0 {
			t.Errorf("by thread %v: %d mails about what a peer's turn planned", byThread, n)
		}
	}
}

// TestClockPromptHasOwnConversation checks that the firings of a prompt share a conversation,
// which the operator's answers continue.
func TestClockPromptHasOwnConversation(t *testing.T) {
	t.Parallel()
	h := newClockFixture(t, func(h *fixture, c *cycle.ClockPrompt) {
		h.agent.Policy.ByThread = true
		h.playScript("echo 'the answer is green'\n")
	})
	h.receive(letter{id: "<bread@example.com>", body: "the code is " + operatorsWord})
	h.poll()
	h.clock.advance(time.Hour)
	h.poll()
	replies := h.sentOf("reply")
	last := replies[len(replies)-1]
	if strings.Contains(h.prompt(), operatorsWord) || !strings.Contains(h.prompt(), "the answer is") {
		t.Errorf("the second firing is told:\n%s", h.prompt())
	}
	h.receive(replyTo(last, "why?"))
	h.pollAfter(time.Minute)
	if got := h.prompt(); strings.Contains(got, operatorsWord) || strings.Count(got, "Read the CI.") < 2 {
		t.Errorf("the answer to it is told:\n%s", got)
	}
}
