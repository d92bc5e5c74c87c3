package commands

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// TestAgentsOfManyHosts checks that status --all names the hosts of each agent, and says
// of which of them nothing was seen lately, also on a narrow terminal.
func TestAgentsOfManyHosts(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	h := household{others: []mesh.Presence{
		{Handle: "boreas", Phase: state.IDLE, Asleep: true, SeenAt: ago(time.Minute), Hosts: []mesh.HostSeen{{Host: "alpha", SeenAt: ago(time.Minute)}}},
		{Handle: "dorlange3120", Phase: state.ACTIVE, Tier: state.TierCritical, SeenAt: ago(time.Second), Hosts: []mesh.HostSeen{
			{Host: "alpha", SeenAt: ago(time.Second)}, {Host: "beta", SeenAt: ago(2 * time.Minute)}, {Host: "gamma", SeenAt: ago(2 * time.Hour), Away: true}}},
		{Handle: "gone", Phase: state.ACTIVE, Asleep: true, SeenAt: ago(3 * time.Hour), Away: true, Hosts: []mesh.HostSeen{{Host: "beta", SeenAt: ago(3 * time.Hour), Away: true}}},
		{Handle: "http", Phase: state.PREP, SeenAt: ago(time.Minute)},
	}}
	for columns, want := range map[int]string{
		0: `
@boreas        IDLE    seen 08:59:00       via the mesh on alpha, asleep
@dorlange3120  ACTIVE  seen 08:59:59       via the mesh on alpha and beta, critical, gamma last seen 07:00:00
@gone          AWAY    last seen 06:00:00  via the mesh on beta
@http          PREP    seen 08:59:00       via the mesh
`,
		80: `
@boreas        IDLE    seen 08:59:00       via the mesh on alpha, asleep
@dorlange3120  ACTIVE  seen 08:59:59       via the mesh on alpha and beta,
                                           critical, gamma last seen 07:00:00
@gone          AWAY    last seen 06:00:00  via the mesh on beta
@http          PREP    seen 08:59:00       via the mesh
`,
	} {
		var out bytes.Buffer
		k := statusCmd{out: &terminal.Output{Stdout: &out, Columns: func() int { return columns }}, now: func() time.Time { return now }}
		if err := k.printHousehold(h); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + out.String(); got != want {
			t.Errorf("%d columns:%s\nwant%s", columns, got, want)
		}
	}
	data, err := json.Marshal(presencesOf(h.others))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"away":true,"hosts":[{"host":"beta",`, `"handle":"http","callsign":"","phase":"PREP","asleep":false,"tier":"",`, `"away":false,"hosts":[]}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("lacks %s\n%s", want, data)
		}
	}
}

// TestAMeshThatIsDownIsNamedOnce checks that two agents of a mesh that does not answer cause
// one error.
func TestAMeshThatIsDownIsNamedOnce(t *testing.T) {
	agent := func(handle string) *cycle.Agent {
		return &cycle.Agent{Handle: handle, Mesh: &cycle.Mesh{Carrier: &mesh.Client{URL: "http://127.0.0.1:1", Handle: handle}, Handle: handle}}
	}
	_, err := others(t.Context(), []*cycle.Agent{agent("alpha"), agent("beta")})
	if err == nil || strings.Count(err.Error(), "mesh: ") != 1 {
		t.Errorf("the error is %v", err)
	}
}
