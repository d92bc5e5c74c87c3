package simulator_test

import (
	"strings"
	"testing"
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

// TestFiringsAreStruckEverywhere strikes the poll of a prompt's time at each of its points,
// kills among them, and lets another poll happen at some. Each time has one turn at most,
// and none is lost. Without all that is real every fifth is tried, so each fault has its turn.
func TestFiringsAreStruckEverywhere(t *testing.T) {
	whats := []sim.What{sim.Crash, sim.Power, sim.CrashLate, sim.Fail, sim.Lost, sim.Meanwhile}
	counts := map[string]int{}
	for at := 0; at < 30; at += int(part(1, 5)) {
		story := sim.Story{Prompts: []sim.ClockPrompt{
			{Name: "plain", At: "7 * * * *", CatchUp: time.Hour},
			{Name: "asking", At: "7,27 * * * *", CatchUp: time.Hour, Asks: true},
		}}
		fault := sim.Fault{Lane: sim.Main, At: at, What: whats[at%len(whats)]}
		if at%3 == 0 { // what chance meets too rarely
			fault.Site, fault.At = []string{"prompt ask", "rename messages/*.txt", "rename state.json", "append history"}[at/3%4], at/12%2
		}
		if fault.What == sim.Meanwhile {
			fault.Then = &sim.Step{Do: sim.Poll}
		}
		story.Steps = []sim.Step{
			{Do: sim.Wait, For: 8*time.Minute + 30*time.Second}, // 9:06:30
			{Do: sim.Wait, For: time.Minute, Faults: []sim.Fault{fault}},
			{Do: sim.Wait, For: 5 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Wait, For: 20 * time.Minute},
		}
		out := play(t, story)
		if out.Broken != nil {
			t.Fatalf("%v: %v\n%s", fault, out.Broken, strings.Join(out.Log, "\n"))
		}
		for what, n := range out.Counts.Sometimes {
			counts[what] += n
		}
	}
	for _, what := range []string{"a prompt had its time", "a prompt was skipped", "a poll made what was due by the clock"} {
		if counts[what] == 0 {
			t.Errorf("this did not happen: %s", what)
		}
	}
}

// TestCronWakesForAPrompt lets time pass in IDLE. The alarm line fires for each prompt.
func TestCronWakesForAPrompt(t *testing.T) {
	out := play(t, sim.Story{
		Prompts: []sim.ClockPrompt{{Name: "plain", At: "7,43 * * * *", CatchUp: time.Hour}},
		Steps:   []sim.Step{{Do: sim.Wait, For: time.Hour}},
	})
	if out.Broken != nil {
		t.Fatalf("%v\n%s", out.Broken, strings.Join(out.Log, "\n"))
	}
	if n := out.Counts.Sometimes["a prompt had its time"]; n != 2 {
		t.Errorf("%d firings, want 2", n)
	}
}
