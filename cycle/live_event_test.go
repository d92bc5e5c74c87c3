package cycle_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle/view"
)

// eventNames returns the names of events.
func eventNames(events []view.LiveEvent) string {
	var all []string
	for _, e := range events {
		all = append(all, e.Event)
	}
	return strings.Join(all, " ")
}

// sorted returns the names of events in the order of their letters.
func sorted(events []view.LiveEvent) string {
	all := strings.Fields(eventNames(events))
	slices.Sort(all)
	return strings.Join(all, " ")
}

// A follower gets each step while the agent works and each event once, and can resume after the
// id of any of them.
func TestFollowEvents(t *testing.T) {
	h := newRestingFixture(t)
	h.clock.advance(time.Since(h.clock.Now()) + time.Hour) // commits are later than the steps before them
	follower, err := h.agent.View().EventsFromNow()
	check(t, err)
	h.receive(letter{id: "<one@example.com>"})
	polled := h.pollUntilAnswer()
	all, err := follower.Next()
	check(t, err)
	if got := eventNames(all); !strings.Contains(got, "step.session state.thinking step.done state.idle") || !strings.Contains(got, "turn.started") || !strings.Contains(got, "phase.PREP") {
		t.Errorf("while it lingers: %s", got)
	}
	h.write("go", "")
	<-polled
	more, err := follower.Next()
	check(t, err)
	if got := eventNames(more); !strings.Contains(got, "state.killed") || !strings.Contains(got, "turn.exited") {
		t.Errorf("at its end: %s", got)
	}
	all = append(all, more...)
	if again, err := follower.Next(); len(again) > 0 || err != nil {
		t.Errorf("again: %s, %v", eventNames(again), err)
	}
	seen := map[string]bool{}
	for i, e := range all {
		if seen[e.ID] {
			t.Errorf("%s: the id %s is not its own", e.Event, e.ID)
		}
		seen[e.ID] = true
		at, err := view.ParseCursor(e.ID)
		check(t, err)
		if at.String() != e.ID {
			t.Errorf("%s became %s", e.ID, at)
		}
		rest, err := h.agent.View().Events(at).Next()
		check(t, err)
		if sorted(rest) != sorted(all[i+1:]) {
			t.Errorf("after %s (%s):\n%s\nwant\n%s", e.ID, e.Event, eventNames(rest), eventNames(all[i+1:]))
		}
	}
	last, err := h.agent.View().LastEvents(1)
	check(t, err)
	if found, err := last.Next(); err != nil || len(found) != 1 || found[0].Event != "turn.exited" {
		t.Errorf("the last: %+v, %v", found, err)
	}
}

// A follower that begins while an agent works gets its steps from there on.
func TestFollowEventsOfRunningAgent(t *testing.T) {
	h := newRestingFixture(t)
	onTime := func() { h.clock.advance(time.Since(h.clock.Now())) } // as the steps are
	onTime()
	h.receive(letter{id: "<one@example.com>"})
	polled := h.pollUntilAnswer()
	now, err := h.agent.View().EventsFromNow()
	check(t, err)
	onTime()
	check(t, h.agent.Store.Ring("ann", "look"))
	h.pollBeside()
	found, err := now.Next()
	check(t, err)
	if !strings.Contains(eventNames(found), "nudge") {
		t.Fatalf("from now on: %s", eventNames(found))
	}
	for _, e := range found {
		at, err := view.ParseCursor(e.ID)
		check(t, err)
		again, err := h.agent.View().Events(at).Next()
		check(t, err)
		if got := eventNames(again); strings.Contains(got, "step.") || strings.Contains(got, "state.") {
			t.Errorf("after %s come steps that were before it: %s", e.ID, got)
		}
	}
	last, err := h.agent.View().LastEvents(1)
	check(t, err)
	if found, err := last.Next(); len(found) != 1 || err != nil || strings.HasPrefix(found[0].Event, "st") {
		t.Errorf("the last event: %s, %v", eventNames(found), err)
	}
	serial, err := view.ParseCursor(strconv.FormatUint(h.state().Serial, 10))
	check(t, err)
	since := h.agent.View().Events(serial)
	if found, err := since.Next(); len(found) > 0 || err != nil {
		t.Errorf("after the newest commit: %s, %v", eventNames(found), err)
	}
	h.write("go", "")
	<-polled
	for name, follower := range map[string]*view.Events{"from now": now, "the last": last, "a serial": since} {
		found, err := follower.Next()
		check(t, err)
		if got := eventNames(found); !strings.Contains(got, "step.done") || !strings.Contains(got, "state.killed") || strings.Contains(got, "step.session") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A follower continues if the state was removed or replaced by an older copy.
func TestFollowEventsOfNewState(t *testing.T) {
	h := newAwakeFixture(t)
	toggle := func() {
		h.halt()
		h.resume()
	}
	toggle()
	follower, err := h.agent.View().EventsFromNow()
	check(t, err)
	toggle()
	if found, err := follower.Next(); eventNames(found) != "halt go" || err != nil {
		t.Fatalf("%s, %v", eventNames(found), err)
	}
	check(t, os.RemoveAll(h.agent.Store.Dir))
	h.halt()
	if found, err := follower.Next(); eventNames(found) != "halt" || err != nil {
		t.Errorf("after the state was removed: %s, %v", eventNames(found), err)
	}
	h.resume()
	if found, err := follower.Next(); eventNames(found) != "go" || err != nil {
		t.Errorf("and later: %s, %v", eventNames(found), err)
	}
}

// Follow ends with its context, and with its caller's error.
func TestFollowEnds(t *testing.T) {
	h := newAwakeFixture(t)
	follower, err := h.agent.View().EventsFromNow()
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	check(t, follower.Follow(ctx, func([]view.LiveEvent) error { return nil }))
	wrong := errors.New("broken pipe")
	if err := follower.Follow(t.Context(), func([]view.LiveEvent) error { return wrong }); err != wrong {
		t.Error(err)
	}
}

// Invalid ids of events are errors.
func TestParseCursor(t *testing.T) {
	for _, text := range []string{"", "x", "-1", "1.", "1.x", "1.2/", "1.2/t", "1.2/../3.4", "1.2/t/3", "1.2/t/3.x", "1.2/t/x.3", "1.2/T/3.4", "1.2/t/3.4/5", "99999999999999999999"} {
		if c, err := view.ParseCursor(text); err == nil {
			t.Errorf("%q: %+v", text, c)
		}
	}
}
