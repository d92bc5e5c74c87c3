package cycle_test

import (
	"strings"
	"testing"

	"agentstateloop/state"
)

// A search covers all months, best matches first, but nothing from before a reset.
func TestSearchHistory(t *testing.T) {
	t.Parallel()
	said := append([]string{"the red door", "a red door, and another red door"}, smallTalk(60)...)
	h, _ := newRecallFixture(t, said...)
	search := func(query string, n int) string {
		t.Helper()
		found, err := h.agent.SearchHistory(query, n)
		check(t, err)
		return found
	}
	both := search("RED doors door?", 5)
	wantWords(t, both, "the red door", "another red door", "you (success):\nok")
	if strings.Index(both, "another") > strings.Index(both, "the red door") {
		t.Errorf("the best is not the first:\n%s", both)
	}
	wantNoWords(t, search("red", 1), "the red door")
	wantWords(t, search("rain", 2), "rain") // in most of the exchanges, and asked for
	if n := strings.Count(search("rain", 1000), "rain"); n != 20 {
		t.Errorf("%d found, at most 20 are", n)
	}
	if found := search("elephant", 5); found != "" {
		t.Errorf("found %q", found)
	}
	if _, err := h.agent.SearchHistory("?!", 5); err == nil {
		t.Error("a search for no word")
	}
	check(t, h.agent.Reset(t.Context(), "", handle))
	if found := search("red", 5); found != "" {
		t.Errorf("found after a reset: %q", found)
	}
	if months := len(h.months()); months != 3 {
		t.Errorf("the history has %d months, the test wants 3", months)
	}
}

// months returns those of the history.
func (h *fixture) months() map[string]bool {
	h.t.Helper()
	months := map[string]bool{}
	for l, err := range h.agent.Store.History(state.LineTask) {
		check(h.t, err)
		months[l.At.Format("2006-01")] = true
	}
	return months
}
