package config

import (
	"reflect"
	"testing"

	"agentstateloop/cycle"
)

// TestToolKindsByCause checks the permitted kinds of tools: by default those that change nothing. By
// default an event has the kinds of a peer, and the agent itself and the clock those of the
// operator.
func TestToolKindsByCause(t *testing.T) {
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
