package doctor

import (
	"fmt"
	"strings"
	"testing"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// TestUnconfirmedMessageFindings checks that doctor explains messages that another service drops.
func TestUnconfirmedMessageFindings(t *testing.T) {
	swallowed := fmt.Sprintf("mesh: send message: answered 200: %v", mesh.ErrNotTaken)
	for name, tt := range map[string]struct {
		row  state.Effect
		want bool
	}{
		"swallowed":        {state.Effect{Channel: state.ByMesh, Reason: swallowed}, true},
		"the mesh is down": {state.Effect{Channel: state.ByMesh, Reason: "connection refused"}, false},
		"a mail":           {state.Effect{Channel: state.ByMail, Reason: swallowed}, false},
	} {
		found := meshCheck{outbox: []state.Effect{tt.row, {}}}.unconfirmed()
		if (len(found) == 1) != tt.want || tt.want && (found[0].Level != Warn || !strings.Contains(found[0].Hint, "[mesh.keys_in]")) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
