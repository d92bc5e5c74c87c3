package cycle_test

import (
	"context"
	"errors"
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

// A tool suspends a turn, and a listed peer reports. Another report, an unknown id and
// one that is late change nothing.
func TestPeerReportsOnTool(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mesh.Peers = append(h.agent.Mesh.Peers, second)
	var id string
	var prompts []string
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		prompts = append(prompts, string(at.Prompt))
		var err error
		if len(prompts) == 1 {
			id, err = h.agent.AwaitReport(ctx, in, cycle.Awaiting{What: "tool deploy", Text: "main", Peers: []string{second}, Patience: time.Hour})
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "deployed"}, err
	}
	h.sayByMail("deploy main")
	if head := h.state().Turn; head.Status != state.HeadSuspended || id == "" {
		t.Fatalf("turn: %+v", head)
	}
	// What nothing proves does not count, nor what comes from another peer.
	for _, from := range []*mesh.Client{h.peer, {URL: h.blueprint.Mesh, Handle: second}} {
		_, err := from.Send(t.Context(), mesh.Message{To: handle, Kind: mesh.KindReport, Correlation: id, Text: "it burns"})
		if err == nil {
			h.pollAfter(time.Second)
		}
	}
	if len(prompts) != 1 {
		t.Fatalf("another report counted: %q", prompts)
	}
	_, err := (&conversations{fixture: h}).provenPeer().Send(t.Context(), mesh.Message{To: handle, Kind: mesh.KindReport, Correlation: id, Text: "it runs", Status: state.Success})
	check(t, err)
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success)
	if len(prompts) != 2 || !strings.Contains(prompts[1], "You started tool deploy ("+id+"): main\nStatus: success") || !strings.Contains(prompts[1], "it runs") {
		t.Errorf("prompts: %q", prompts)
	}
	if taken, err := h.agent.TakeReport(t.Context(), id, cycle.LocalReport{Text: "again"}); taken || err != nil {
		t.Errorf("a second report: %v, %v", taken, err)
	}
	if _, err := h.agent.TakeReport(t.Context(), "wait.0", cycle.LocalReport{}); !errors.Is(err, cycle.ErrUnknownReport) {
		t.Errorf("an unknown id: %v", err)
	}
}

// A report after its deadline is refused. Only the agent that was asked can answer a question.
func TestLateReportIsRefused(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	var id, asked string
	n := 0
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		var err error
		if n++; n == 1 {
			id, err = h.agent.Suspend(ctx, in, "deploying", time.Minute)
			asked, _ = h.agent.Ask(ctx, in, cycle.Question{To: peer, Text: "which commit?", Patience: 2 * time.Minute})
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, err
	}
	h.sayByMail("deploy main")
	if _, err := h.agent.TakeReport(t.Context(), asked, cycle.LocalReport{}); !errors.Is(err, cycle.ErrNotTheirs) {
		t.Errorf("a report on a question: %v", err)
	}
	h.pollAfter(time.Minute)
	if taken, err := h.agent.TakeReport(t.Context(), id, cycle.LocalReport{Text: "late"}); taken || !errors.Is(err, cycle.ErrLateReport) {
		t.Errorf("a late report: %v, %v", taken, err)
	}
	if files, _ := filepath.Glob(filepath.Join(h.agent.Store.Path("messages"), "*report*")); len(files) != 0 {
		t.Errorf("it is kept: %v", files)
	}
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success)
}

// A report on an id that is not outside work of a turn is unknown: a question that another agent
// has answered, or a message that came in.
func TestReportOnUnknownWork(t *testing.T) {
	h := newAwakeFixture(t)
	var asked string
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		var err error
		if asked == "" {
			asked, err = h.agent.Ask(ctx, cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, cycle.Question{To: peer, Text: "which commit?", Patience: time.Hour})
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, err
	}
	h.sayByMail("deploy main")
	_, err := h.peer.Send(t.Context(), mesh.Message{To: handle, Kind: mesh.KindReport, Correlation: asked, Text: "4f2a"})
	check(t, err)
	h.pollAfter(time.Second)
	h.wantTasks(state.Success)
	_, err = h.peer.Send(t.Context(), mesh.Message{ID: "m1", To: handle, Text: "hello"})
	check(t, err)
	h.pollAfter(time.Minute)
	for _, id := range []string{asked, "m1", ""} {
		if taken, err := h.agent.TakeReport(t.Context(), id, cycle.LocalReport{Text: "mine"}); taken || !errors.Is(err, cycle.ErrUnknownReport) {
			t.Errorf("a report on %q: %v, %v", id, taken, err)
		}
	}
}

// `submit --finish` ends the turn and its agent at once, even if the turn waits for reports.
func TestSubmitEndsTheTurn(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		if _, err := h.agent.Suspend(ctx, in, "", time.Hour); err != nil {
			return turn.Result{}, err
		}
		check(t, h.agent.Submit(ctx, in, cycle.Submission{Text: "that is all", Finish: true}))
		if _, err := h.agent.Suspend(ctx, in, "", time.Hour); !errors.Is(err, cycle.ErrSubmitted) {
			t.Errorf("it waits after its answer: %v", err)
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), turn.ErrStopped) {
			t.Errorf("the agent was ended: %v", context.Cause(ctx))
		}
		return turn.Result{Status: turn.Canceled, Reason: "stopped"}, nil
	}
	h.sayByMail("quick")
	h.wantTasks(state.Success)
	h.wantReplies("that is all")
}

// The prompt counts the other waiting messages, as the built-in loop does.
func TestPromptCountsOtherMessages(t *testing.T) {
	h := newAwakeFixture(t)
	var prompts []string
	h.agent.RunTurn = func(_ context.Context, at turn.Attempt) (turn.Result, error) {
		prompts = append(prompts, string(at.Prompt))
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	for _, text := range []string{"one", "two"} {
		h.queue(text)
	}
	_, err := h.peer.Send(t.Context(), mesh.Message{To: handle, Text: "three"})
	check(t, err)
	h.pollAfter(time.Minute)
	if len(prompts) != 3 || !strings.Contains(prompts[0], "Note: 2 more messages (1 from your operator) wait") ||
		!strings.Contains(prompts[1], "Note: 1 more message (0 from your operator) waits") || strings.Contains(prompts[2], "more message") {
		t.Errorf("prompts: %q", prompts)
	}
}

// A tool can end its turn although a question is open.
func TestFinishEndsWaitingTurn(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		_, err := h.agent.Ask(ctx, in, cycle.Question{To: peer, Text: "which commit?", Patience: time.Hour})
		check(t, err)
		check(t, h.agent.Finish(ctx, in))
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "all done"}, nil
	}
	h.sayByMail("try the rest")
	h.wantTasks(state.Success)
	if head := h.state().Turn; head.Status != state.HeadIdle {
		t.Errorf("turn: %+v", head)
	}
}

// deployment is an agent that starts something, ends its turn, and has its report later.
type deployment struct {
	id      string // of the wait
	prompts []string
}

// startDeployment lets the first turn start something and end, and the next ones answer.
func (h *fixture) startDeployment() *deployment {
	d := new(deployment)
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		d.prompts = append(d.prompts, string(at.Prompt))
		r := turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "it runs: 4711"}
		if len(d.prompts) > 1 {
			return r, os.WriteFile(filepath.Join(at.Dir, "output", "log.txt"), []byte("built"), 0o600)
		}
		var err error
		d.id, err = h.agent.AwaitReport(ctx, in, cycle.Awaiting{What: "tool deploy", Text: "main", Patience: time.Hour})
		check(h.t, err)
		return r, h.agent.Submit(ctx, in, cycle.Submission{Text: "it is under way", Finish: true})
	}
	return d
}

// A report on work that a turn of `tell` started may come after the turn. Nobody waits at the
// terminal then, so the operator is mailed the answer.
func TestLateReportOfTellIsMailed(t *testing.T) {
	h := newAwakeFixture(t)
	d := h.startDeployment()
	h.queue("deploy main")
	h.pollAfter(time.Minute)
	if mails := h.sentOf("reply"); len(mails) != 0 {
		t.Fatalf("tell was mailed: %+v", mails)
	}
	taken, err := h.agent.TakeReport(t.Context(), d.id, cycle.LocalReport{Text: "ok"})
	if !taken || err != nil {
		t.Fatalf("report: %v, %v", taken, err)
	}
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success, state.Success)
	mails := h.sentOf("reply")
	if len(mails) != 1 || mails[0].text != "it runs: 4711" || !strings.Contains(mails[0].raw, "@"+handle+": tool deploy reported") {
		t.Fatalf("mails: %+v", mails)
	}
	wantWords(t, d.prompts[1], "Your answer is mailed to your operator.")
}

// A report may come when the turn of its mail is over and the mail is damaged: the mail is
// fetched again, and the report gets its turn.
func TestLateReportOfDamagedMail(t *testing.T) {
	h := newAwakeFixture(t)
	d := h.startDeployment()
	h.sayByMail("deploy main")
	taken, err := h.agent.TakeReport(t.Context(), d.id, cycle.LocalReport{Text: "ok"})
	if !taken || err != nil {
		t.Fatalf("report: %v, %v", taken, err)
	}
	check(t, flipLast(h.agent.Store.Path(h.state().Inbox[0].Payload)))
	h.pollAfter(time.Minute)
	h.pollAfter(time.Minute)
	h.wantTasks(state.Success, state.Success)
	if len(d.prompts) != 2 || !strings.Contains(d.prompts[1], "deploy main") {
		t.Errorf("prompts: %q", d.prompts)
	}
	if mended := h.reasonsOf(state.LineDamage, "mended"); len(mended) != 1 {
		t.Errorf("mended: %q", mended)
	}
}
