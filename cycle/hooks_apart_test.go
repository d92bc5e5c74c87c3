package cycle_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle/hook"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
)

// A hook that fails sets its own times, and with them the alarm line. An event of that
// would cause the next call of the hook that fails, for ever.
func TestFailingHookCausesNoEvent(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.addHooks(func(string, int) int { return 500 }, hook.Hook{Name: "x", On: []string{"*"}, Timeout: time.Minute})
	h.agent.Policy.Notices = false
	h.halt()
	h.resume()
	h.poll()
	waiting := len(h.state().HookCalls)
	if waiting == 0 || h.alarm() == "" {
		t.Fatalf("%d events wait, and the alarm line is %q", waiting, h.alarm())
	}
	for range 20 {
		h.clock.advance(10 * time.Minute)
		h.ifDue()
	}
	var events []string
	for _, row := range h.state().HookCalls {
		events = append(events, row.Announces.Event)
	}
	if h.state().HookCalls[0].Attempts < 5 || len(events) != waiting {
		t.Errorf("%d events waited, and after %d tries these do: %v", waiting, h.state().HookCalls[0].Attempts, events)
	}
}

// A hook is called for new events while the process that calls the hooks waits for another hook.
func TestBusyHookDelaysNoOtherHook(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	goOn := make(chan struct{})
	got := h.addHooks(func(path string, _ int) int {
		if path == "/slow" {
			<-goOn
		}
		return 204
	}, hook.Hook{Name: "slow", On: []string{"halt", "go"}, Timeout: time.Minute}, hook.Hook{Name: "quick", On: []string{"halt"}, Timeout: time.Minute})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release) // before the server is closed
	toggle := func() {
		h.halt()
		h.resume()
	}
	toggle()
	called := make(chan error, 1)
	go func() { called <- h.agent.CallHooks(t.Context()) }()
	until(t, "the first calls", func() bool { return len(got("/slow")) == 1 && len(got("/quick")) == 1 })
	toggle()
	until(t, "the second call of the quick hook", func() bool { return len(got("/quick")) == 2 })
	if n := len(got("/slow")); n != 1 {
		t.Errorf("%d calls of the slow hook, which has not answered the first", n)
	}
	release()
	check(t, <-called)
	if n := len(got("/slow")); n != 4 || len(h.state().HookCalls) != 0 {
		t.Errorf("%d calls of the slow hook, and %d wait", n, len(h.state().HookCalls))
	}
}

// The words with which the memory was reset are for the agent alone.
func TestResetEventHasNoNote(t *testing.T) {
	h := newAwakeFixture(t)
	got := h.addHooks(func(string, int) int { return 204 }, hook.Hook{Name: "x", On: []string{"reset"}, Timeout: time.Minute})
	h.agent.Hooks[0].Body = nil
	follower, err := h.agent.View().EventsFromNow()
	check(t, err)
	check(t, h.agent.Reset(t.Context(), "the plan is off", "you"))
	check(t, h.agent.CallHooks(t.Context()))
	if calls := got("/x"); len(calls) != 1 || strings.Contains(calls[0], "plan") {
		t.Errorf("the hook got %q", calls)
	}
	found, err := follower.Next()
	check(t, err)
	i := slices.IndexFunc(found, func(e view.LiveEvent) bool { return e.Event == "reset" })
	if i < 0 || found[i].Data.(state.Details).Reason != "" {
		t.Errorf("%+v", found)
	}
}
