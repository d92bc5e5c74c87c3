package commands

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// scriptHappens commits what `restore` and `move` commit, and a sign of another machine.
func scriptHappens(ts *testscript.TestScript, args []string) {
	now, err := clockOf(ts.Getenv("TEST_NOW"))
	ts.Check(err)
	var e state.Event
	switch {
	case args[0] == "restored" && len(args) == 2:
		e = state.Restored{Made: now().Add(-time.Hour), From: args[1], Seed: store.NewID()}
	case args[0] == "moved" && len(args) == 3:
		e = state.Moved{To: args[1], Archive: args[2]}
	case args[0] == "stays" && len(args) == 1:
		e = state.Unmoved{}
	case args[0] == "elsewhere" && len(args) == 2:
		e = state.ElsewhereSeen{Host: args[1], At: now()}
	default:
		ts.Fatalf("happens %v?", args)
	}
	st := store.Store{Dir: ts.MkAbs("state"), Agent: "goulard3120"}
	_, err = st.Commit(context.Background(), now(), func(s state.State, _ store.Recovery) (state.State, error) {
		s.Elsewhere.Since = now().Add(-time.Hour)
		return state.Step(s, []state.Event{e}, state.Policy{HasMail: true, Notices: true, Operator: "operator@example.com", Location: time.UTC}, now()), nil
	})
	ts.Check(err)
}
