package config

import (
	"reflect"
	"testing"

	"agentstateloop/cycle"
)

// What is not said is what changes nothing; of a program it is as of a peer, and of the
// agent itself and of the clock as of the operator.
func TestKindsByCause(t *testing.T) {
	reading := []string{"read", "search", "think"}
	for text, want := range map[string]cycle.Kinds{
		"": {Operator: reading, Peer: reading, Event: reading, Task: reading, Self: reading},
		"[turn.acp]\noperator = [\"execute\"]\npeer = []\n": {
			Operator: []string{"execute"}, Peer: []string{}, Event: []string{}, Task: []string{"execute"}, Self: []string{"execute"},
		},
		"[turn.acp]\nself = []\nevent = [\"edit\"]\ntask = [\"fetch\"]\n": {
			Operator: reading, Peer: reading, Event: []string{"edit"}, Task: []string{"fetch"}, Self: []string{},
		},
	} {
		c, err := newTestLoader().Parse("/a/agent.toml", "[agent]\nhandle = \"a\"\n[turn]\nrunner = \"acp\"\ncommand = [\"x\"]\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.wireKinds(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
