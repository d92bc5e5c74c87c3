package react_test

import (
	"slices"
	"testing"

	"agentstateloop/turn/react"
)

// A permission must name a tool that exists.
func TestAllow(t *testing.T) {
	r, _ := folders(t)
	all := files(t, r)
	got, err := react.Allow(all, []string{"list", "read_file"})
	if err != nil || len(got) != 2 || got[0].Name != "read_file" {
		t.Errorf("Allow = %v, %v", got, err)
	}
	if _, err := react.Allow(all, []string{"reed_file"}); err == nil {
		t.Error("a misspelt tool was allowed")
	}
	peer := react.DefaultTools(false, all)
	for _, name := range []string{"write_file", "exec", "remember", "search_history"} {
		if slices.Contains(peer, name) {
			t.Errorf("a peer may %s", name)
		}
	}
	if slices.Contains(react.DefaultTools(true, all), "exec") {
		t.Error("exec is on by default")
	}
}
