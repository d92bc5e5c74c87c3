package simulator_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	sim "agentstateloop/internal/testkit/simulator"
)

// mustHappen are the events that the run of CI must reach by chance: each happens 20 times or more
// in 300 stories. A simulator that does not reach them proves nothing about them. Scenarios reach
// those that are rarer, see rare.
var mustHappen = []string{
	"a deliverable was submitted",
	"a sent mail was filed",
	"a withheld mail had a time for the alarm line",
	"the operator was asked about a signed mail in doubt",
	"a report had fields",
	"a report was partial",
	"a question was asked",
	"the operator was asked",
	"the operator did not answer in time",
	"a turn was suspended",
	"a turn was resumed",
	"a turn was reaped",
	"a turn was given back",
	"a turn used up its budget",
	"turns began again with the next day",
	"something was remembered",
	"the agent planned a turn",
	"the agent woke itself",
	"a turn waits for something outside",
	"a report came before its attempt ended",
	"a report was taken",
	"a report was handed over",
	"a message waited for what its sender still writes",
	"messages of one sender shared a turn",
	"an outage had to be reported to the keymaster",
	"the end of an outage had to be reported to the keymaster",
	"a turn ended: canceled",
	"a turn ended: failed",
	"a turn ended: partial",
	"a turn ended: success",
	"a turn ended: timeout",
	"an agent lingered after its answer",
	"a stale agent was refused",
	"a mail that the operator had signed was changed",
	"an item of the quarantine was released",
	"an ack waited",
	"an ack was sent because the answer took longer",
	"an ack was not needed: its answer is ready",
	"an ack was sent during a turn by the process that ran it",
	"a hook was to hear of something",
	"a hook took an event",
	"a hook was called: slow",
	"a hook was called: lost",
	"a poll ran while a hook hung",
	"an event for a hook was lost: undeliverable",
	"the answer to a program was mailed",
	"tier: critical",
	"tier: dead",
	"tier: normal",
	"the state was recovered",
	"a power cut lost something",
	"the engine had no leader",
	"our part of a mailbox was full",
	"messages of the mesh came later",
	"the mesh over NATS was halted",
	"messages of a peer waited for its pace",
	"messages left as fast as they may",
	"the end of a turn was an event on NATS",
	"forged over NATS: unsigned",
	"forged over NATS: relay",
	"forged over NATS: usurped",
	"forged over NATS: twins",
	"forged over NATS: replayed",
	"forged over NATS: nudge",
	"forged over NATS: report",
	"forged over NATS: flood",
}

// passedOften is how often a point may be passed before a process must have died
// there. With fresh seeds, a fourth of that was once passed without a death.
const passedOften = 20_000

// sometimes logs the counts, and with -for checks that the rare events happened.
func sometimes(t *testing.T, counts sim.Counts) {
	logCounts(t, counts)
	if *during == 0 {
		return
	}
	for _, what := range mustHappen {
		if counts.Sometimes[what] == 0 {
			t.Errorf("in %v this never happened: %s", *during, what)
		}
	}
	deaths := func(site string) int {
		return counts.Sometimes["crash at "+site] + counts.Sometimes["crash-late at "+site] + counts.Sometimes["power at "+site]
	}
	for site, passed := range counts.Points {
		if passed >= passedOften && deaths(site) == 0 {
			t.Errorf("%d times passed, and no process died at %q", passed, site)
		}
	}
}

func logCounts(t *testing.T, counts sim.Counts) {
	var report []string
	for _, what := range slices.Sorted(maps.Keys(counts.Sometimes)) {
		report = append(report, fmt.Sprintf("%8d  %s", counts.Sometimes[what], what))
	}
	for _, site := range slices.Sorted(maps.Keys(counts.Points)) {
		report = append(report, fmt.Sprintf("%8d times passed: %s", counts.Points[site], site))
	}
	t.Log("\n" + strings.Join(report, "\n"))
}

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
					mustPlay(t, sim.Story{Seed: seed, Carrier: carrier, Steps: []sim.Step{
						{Do: sim.Hook, Kind: "fine", N: 1},
						mail("ask"), message("answer"), poll(die), poll(die),
						{Do: sim.Report, Kind: "answer"}, poll(die),
					}}, fmt.Sprintf("%s at %s", die.What, site))
				}
			})
		}
	}
}
