package cycle_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// newCollectingFixture is a fixture whose agent waits until a sender was silent.
func newCollectingFixture(t *testing.T, answer func(turn.Attempt) string) *fixture {
	t.Helper()
	h := newAwakeFixture(t)
	h.agent.Policy.Collect = 20 * time.Second
	h.agent.RunTurn = func(_ context.Context, at turn.Attempt) (turn.Result, error) {
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: answer(at)}, nil
	}
	return h
}

// Several mails get one reply, in the thread of the newest. It references the others, so that a
// mail program shows it with each of them.
func TestCollectedMailsGetOneReply(t *testing.T) {
	var prompts []string
	h := newCollectingFixture(t, func(at turn.Attempt) string {
		prompts = append(prompts, string(at.Prompt))
		return "yes to both"
	})
	h.receive(letter{id: "<one@example.com>", body: "is it green?"})
	h.pollAfter(time.Second)
	h.receive(letter{id: "<two@example.com>", fields: "References: <zero@example.com>\r\n", body: "and is it fast?"})
	h.pollAfter(10 * time.Second)
	h.pollAfter(21 * time.Second)
	h.wantTasks(state.Success)
	replies := h.sentOf("reply")
	if len(replies) != 1 || replies[0].text != "yes to both" {
		t.Fatalf("replies: %+v", replies)
	}
	head, _, _ := strings.Cut(strings.ReplaceAll(replies[0].raw, "\r\n ", " "), "\r\n\r\n")
	wantWords(t, head, "In-Reply-To: <two@example.com>", "<zero@example.com>", "<one@example.com>")
	if len(prompts) != 1 || !strings.Contains(prompts[0], "is it green?") || !strings.Contains(prompts[0], "and is it fast?") {
		t.Errorf("prompts: %q", prompts)
	}
}

// Each collected mail is whole in the context box, with its own attachments. A control between
// two of them is answered and not collected.
func TestCollectedMailsKeepAttachments(t *testing.T) {
	found := map[string]string{}
	h := newCollectingFixture(t, func(at turn.Attempt) string {
		box := filepath.Join(at.Dir, "context")
		check(t, filepath.WalkDir(box, func(path string, e os.DirEntry, err error) error {
			if err == nil && strings.Contains(path, "attachment") && !e.IsDir() {
				var data []byte
				data, err = os.ReadFile(path)
				name, _ := filepath.Rel(box, path)
				found[name] = strings.TrimSpace(string(data))
			}
			return err
		}))
		return "done"
	})
	attach := func(id, text string) {
		h.receive(letter{
			id: id, fields: "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n",
			body: "--b\r\nContent-Type: text/plain\r\n\r\nsee the file\r\n--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=\"a.txt\"\r\n\r\n" + text + "\r\n--b--\r\n",
		})
	}
	attach("<one@example.com>", "of the first")
	h.receive(letter{id: "<status@example.com>", body: "STATUS"})
	attach("<two@example.com>", "of the second")
	h.pollAfter(time.Second)
	if n := len(h.state().Inbox); n != 2 {
		t.Fatalf("%d messages wait", n)
	}
	h.pollAfter(21 * time.Second)
	if task := h.wantTasks(state.Success)[0]; len(task.Collected) != 1 {
		t.Errorf("shared: %+v", task.Collected)
	}
	want := map[string]string{"attachments/a.txt": "of the second", "earlier/1/attachments/a.txt": "of the first"}
	if !maps.Equal(found, want) {
		t.Errorf("found %q", found)
	}
}

// A message that is damaged before its turn is not collected. It is fetched again and gets its
// own turn.
func TestDamagedMessageIsNotCollected(t *testing.T) {
	var answered []string
	h := newCollectingFixture(t, func(at turn.Attempt) string {
		_, asked, _ := strings.Cut(string(at.Prompt), "\n<message ")
		for _, word := range []string{"first", "second", "third"} {
			if strings.Contains(asked, word) {
				answered = append(answered, word)
			}
		}
		answered = append(answered, ".")
		return "done"
	})
	for _, word := range []string{"first", "second", "third"} {
		h.receive(letter{id: "<" + word + "@example.com>", body: word})
	}
	h.pollAfter(time.Second)
	inbox := h.state().Inbox
	if len(inbox) != 3 {
		t.Fatalf("inbox: %+v", inbox)
	}
	check(t, os.WriteFile(h.agent.Store.Path(inbox[1].Payload), []byte("else"), 0o600))
	h.pollAfter(21 * time.Second)
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success, state.Success)
	if got := strings.Join(answered, " "); got != "first third . second ." {
		t.Errorf("answered: %s", got)
	}
}

// A turn for several messages is suspended and resumes with all of them.
func TestSuspendedTurnKeepsCollectedMessages(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Policy.Collect = 20 * time.Second
	var id string
	var prompts []string
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		var err error
		if prompts = append(prompts, string(at.Prompt)); len(prompts) == 1 {
			id, err = h.agent.Suspend(ctx, cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, "", time.Hour)
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, err
	}
	for _, text := range []string{"the first half", "and the second"} {
		h.queue(text)
	}
	h.pollAfter(time.Second)
	h.pollAfter(21 * time.Second)
	if head := h.state().Turn; head.Status != state.HeadSuspended || len(head.With) != 1 {
		t.Fatalf("turn: %+v", head)
	}
	_, err := h.agent.TakeReport(t.Context(), id, cycle.LocalReport{Text: "it runs"})
	check(t, err)
	h.pollAfter(time.Second)
	task := h.wantTasks(state.Success)[0]
	if a, ok := task.Announcement(handle); !ok || len(a.Data.With) != 1 || a.Data.With[0] != task.Collected[0].Key {
		t.Errorf("the event of the turn does not name the other message: %+v", a)
	}
	if len(task.Collected) != 1 || len(h.state().Inbox) != 0 {
		t.Errorf("the turn ended %+v; inbox: %+v", task.Collected, h.state().Inbox)
	}
	if len(prompts) != 2 || !strings.Contains(prompts[1], "the first half") || !strings.Contains(prompts[1], "and the second") || !strings.Contains(prompts[1], "it runs") {
		t.Errorf("prompts: %q", prompts)
	}
}

// A message that asks for result fields gets its own answer.
func TestMessageWithResultFieldsIsNotCollected(t *testing.T) {
	h := newCollectingFixture(t, func(turn.Attempt) string { return "done" })
	for _, m := range []mesh.Message{
		{Text: "one"}, {Text: "two", ResultFields: mesh.ResultFields{{Name: "commit"}}}, {Text: "three"},
	} {
		m.To = handle
		_, err := h.peer.Send(t.Context(), m)
		check(t, err)
	}
	h.pollAfter(time.Second)
	h.wantTasks(state.Success)
	h.pollAfter(21 * time.Second)
	if tasks := h.wantTasks(state.Success, state.Success); len(tasks[0].Collected) != 0 || len(tasks[1].Collected) != 1 {
		t.Errorf("tasks: %+v", tasks)
	}
}

// `prompt` shows the next message as its turn will get it.
func TestPromptShowsCollectedMessages(t *testing.T) {
	h := newCollectingFixture(t, func(turn.Attempt) string { return "done" })
	shows := func(when string) {
		t.Helper()
		view, err := h.agent.Prompt("")
		check(t, err)
		var shown string
		for _, l := range view.Layers {
			if l.Name == "message" {
				shown = l.Text
			}
		}
		for _, text := range []string{"Give one answer to all of these 2 messages", "the first half", "and the second"} {
			if !strings.Contains(shown, text) {
				t.Errorf("%s: the prompt lacks %q:\n%s", when, text, shown)
			}
		}
	}
	for _, text := range []string{"the first half", "and the second"} {
		h.queue(text)
	}
	shows("while they wait")
	h.agent.RunTurn = func(context.Context, turn.Attempt) (turn.Result, error) {
		shows("while their turn runs")
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	h.pollAfter(21 * time.Second)
	h.wantTasks(state.Success)
}

// `inbox next` hands out all messages that the sender has written so far.
func TestPullTakesCollectedMessages(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Turn, h.agent.Policy.Turns, h.agent.Policy.Collect = nil, false, 20*time.Second
	for _, text := range []string{"the first half", "and the second"} {
		h.queue(text)
	}
	h.pollAfter(time.Second)
	next, err := h.agent.Next(t.Context())
	check(t, err)
	if next.Text != "and the second" || len(next.Earlier) != 1 || next.Earlier[0].Text != "the first half" {
		t.Fatalf("next: %+v", next)
	}
	check(t, h.agent.Done(t.Context(), cycle.Inside{TurnID: next.TurnID, Epoch: next.Epoch}, "both"))
	h.wantTasks(state.Success)
	if inbox := h.state().Inbox; len(inbox) != 0 {
		t.Errorf("inbox: %+v", inbox)
	}
}

// A poll that lingers stays for the end of the silence.
func TestCollectionEndsWhilePollLingers(t *testing.T) {
	t.Parallel()
	h := newCollectingFixture(t, func(turn.Attempt) string { return "done" })
	h.agent.Policy.Collect = 2 * time.Second
	h.queue("one")
	h.pollAfter(time.Second)
	h.wantPollReason("before the sender was silent", "")
	time.AfterFunc(50*time.Millisecond, func() { h.clock.advance(time.Second) })
	_, err := h.agent.PollLingering(t.Context(), cycle.PollOptions{}, 20*time.Second)
	check(t, err)
	h.wantTasks(state.Success)
}

// The first of several messages ends the sleep; the prompt of their turn gives the reason for the
// planned wakeup.
func TestCollectedMessagesEndSleep(t *testing.T) {
	var prompts []string
	h := newCollectingFixture(t, nil)
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		if prompts = append(prompts, string(at.Prompt)); len(prompts) == 1 {
			check(t, h.agent.Sleep(ctx, cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, 2*time.Hour, "see the build"))
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Second)
	h.pollAfter(21 * time.Second)
	h.receive(letter{id: "<two@example.com>", body: "is it green?"})
	h.pollAfter(time.Second)
	h.receive(letter{id: "<three@example.com>", body: "and is it fast?"})
	h.pollAfter(10 * time.Second)
	h.pollAfter(21 * time.Second)
	if len(prompts) != 2 || !strings.Contains(prompts[1], "You would have woken for this: see the build") {
		t.Errorf("prompts: %q", prompts)
	}
}
