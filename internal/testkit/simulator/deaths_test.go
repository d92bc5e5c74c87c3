package simulator_test

import (
	"fmt"
	"strings"
	"testing"

	sim "agentstateloop/internal/testkit/simulator"
)

// effects are the points before each effect and before its record, by the carrier of
// the mesh. A process must die in each gap between two of them. Fresh seeds reach
// most of them, and none for sure.
var effects = map[string][]string{
	"": {
		"done state.json", "write state.json.tmp", "append history", "imap STORE", "mesh DELETE mailbox", "mesh POST message",
		"mesh PUT registry", "smtp dot", "agent start", "agent work", "agent end", "hook call", "hook answer",
	},
	sim.OverNATS: {
		"nats take", "nats take answer", "nats ack", "nats ack answer", "nats send", "nats send answer", "nats register", "nats announce",
	},
}

// deaths are the ways in which a process dies at a point.
var deaths = []sim.What{sim.Crash, sim.CrashLate, sim.Power}

// The story has every effect: a mail and a message whose turns answer and ask, and a
// hook that hears of all of it.
func TestAProcessDiesAtEachEffect(t *testing.T) {
	for carrier, sites := range effects {
		for _, site := range sites {
			t.Run(strings.ReplaceAll(site, " ", "-"), func(t *testing.T) {
				t.Parallel()
				for seed := range *lives {
					die := sim.Fault{Site: site, What: deaths[int(seed)%len(deaths)]}
					out := play(t, sim.Story{Seed: seed, Carrier: carrier, Steps: []sim.Step{
						{Do: sim.Hook, Kind: "fine", N: 1},
						{Do: sim.Mail, Kind: "new", Wish: "ask"},
						{Do: sim.Message, Kind: "message", Wish: "answer"},
						{Do: sim.Poll, Faults: []sim.Fault{die}},
						{Do: sim.Poll, Faults: []sim.Fault{die}},
						{Do: sim.Report, Kind: "answer"},
						{Do: sim.Poll, Faults: []sim.Fault{die}},
					}})
					if out.Broken != nil {
						t.Fatalf("seed %d: %v\n%s", seed, out.Broken, strings.Join(out.Log, "\n"))
					}
					if died := fmt.Sprintf("%s at %s", die.What, site); out.Counts.Sometimes[died] == 0 {
						t.Errorf("seed %d: this did not happen: %s\n%s", seed, died, strings.Join(out.Log, "\n"))
					}
				}
			})
		}
	}
}
