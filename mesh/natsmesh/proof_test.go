package natsmesh

import (
	"testing"

	"agentstateloop/fleet"
)

// TestWhoMayLiftHalt checks that everybody may halt the mesh, and that only the signature of a known
// key lifts HALT.
func TestWhoMayLiftHalt(t *testing.T) {
	key := "UAVMM2SXAGPPDJXI3OBYXE6K5CZ5B4GZ6ZV4S6GIMYVXVHPR3UM4OSEZ"
	k := keyring{handle: "bob", own: key, keys: map[string]string{"alice": key}}
	for _, c := range []struct {
		what             string
		set              fleet.Halt
		halted, unproven bool
	}{
		{"never set", fleet.Halt{Unset: true}, false, false},
		{"HALT of somebody", fleet.Halt{Halted: true, By: "mallory"}, true, false},
		{"GO of somebody", fleet.Halt{By: "mallory"}, false, true},
		{"GO in the name of a peer, not signed", fleet.Halt{By: "alice"}, false, true},
		{"GO in our own name, not signed", fleet.Halt{By: "bob"}, false, true},
	} {
		if halted, unproven := k.halted(c.set); halted != c.halted || unproven != c.unproven {
			t.Errorf("%s: halted %t, unproven %t; want %t, %t", c.what, halted, unproven, c.halted, c.unproven)
		}
	}
}
