package simulator_test

import (
	"testing"
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

// selfTurns are stories of an agent that wakes itself.
var selfTurns = []scenario{
	{
		name: "an agent wakes itself although every process dies",
		must: "the agent woke itself",
		step: []sim.Step{
			mail("remind", crash("fsync state.json.tmp")),
			poll(),
			tell("remind"), wait(8*time.Minute, crash("agent work")),
			wait(31*time.Minute, power("rename turns/*/deliverable")),
			wait(31*time.Minute, crashLate("smtp dot")),
		},
	},
	{
		name: "a message of its conversation takes the place of a sleep and a nudge ends it",
		must: "the agent woke itself",
		step: []sim.Step{
			mail("doze"), poll(),
			message("doze"), poll(),
			mail("doze"), poll(),
			{Do: sim.Nudge, Kind: "file"}, wait(31 * time.Minute),
		},
	},
	{
		name: "an agent goes on by itself only so far",
		must: "the agent used up its turns",
		step: []sim.Step{
			mail("remind"), mail("remind"), mail("remind"), message("remind"), poll(),
			wait(31 * time.Minute), wait(31*time.Minute, power("rename state.json")),
			wait(31 * time.Minute),
			{Do: sim.Damage, Kind: "delete-both"}, wait(31 * time.Minute),
		},
	},
	{
		name: "cron is not to wake it for what waits for a word",
		must: "what the agent planned waited for a word",
		step: []sim.Step{
			wait(4 * time.Minute),
			mail("remind-late"), mail("remind"), mail("remind"), mail("remind"), mail("remind"),
			poll(), wait(5 * time.Minute), wait(6 * time.Minute), wait(150 * time.Minute),
			wait(150 * time.Minute),
		},
	},
	{
		name: "nor for a peer's conversation that has used its half",
		must: "what the agent planned waited for a word",
		step: []sim.Step{
			wait(4 * time.Minute),
			message("remind-late"), message("remind"), message("remind"), poll(),
			wait(5 * time.Minute), wait(6 * time.Minute), wait(150 * time.Minute),
			wait(150 * time.Minute),
		},
	},
	{
		name: "nothing of its own begins under HALT or while the clock jumps",
		must: "the agent woke itself",
		step: []sim.Step{
			mail("remind-late"), poll(),
			{Do: sim.Halt}, {Do: sim.Clock, For: 26 * time.Hour}, poll(),
			{Do: sim.Clock, For: -26 * time.Hour}, poll(),
			{Do: sim.Go}, wait(6 * time.Hour),
		},
	},
}

// hookStories are stories of programs that hear of events, and of programs that have
// something to say. Hook 0 hears of some events, hook 1 of all.
var hookStories = []scenario{
	{
		name: "a mail is read and answered while a hook hangs",
		must: "a poll ran while a hook hung",
		step: []sim.Step{
			{Do: sim.Hook, Kind: "hang", N: 0}, {Do: sim.Hook, Kind: "fine", N: 1}, mail("answer"),
			poll(meanwhile("hook call", mail("answer"))),
			{Do: sim.Halt}, poll(),
			{Do: sim.Go}, wait(31 * time.Minute),
		},
	},
	{
		name: "each event reaches a hook although every process dies",
		must: "a hook took an event",
		step: []sim.Step{
			{Do: sim.Hook, Kind: "fine", N: 1}, mail("ask"),
			poll(nth(1, power("fsync outbox/hook.tmp"))),
			poll(nth(2, crash("hook call"))),
			poll(nth(1, power("hook answer"))),
			poll(crashLate("hook call")),
			{Do: sim.Halt}, tell("answer", nth(1, power("rename state.json"))),
			{Do: sim.Go}, {Do: sim.Hook, Kind: "lost", N: 1}, poll(),
		},
	},
	{
		name: "rows for a hook outlive the state",
		must: "the state was recovered",
		step: []sim.Step{
			{Do: sim.Hook, Kind: "fail", N: 1}, mail("answer"), poll(),
			{Do: sim.Damage, Kind: "delete-both"}, {Do: sim.Damage, Kind: "payload-remove", N: 1},
			wait(11 * time.Minute),
			{Do: sim.Hook, Kind: "slow", N: 1}, wait(31 * time.Minute),
		},
	},
	{
		name: "a hook that refuses or is gone leaves a line for each event",
		must: "an event for a hook was lost: undeliverable",
		step: []sim.Step{
			{Do: sim.Hook, Kind: "refuse", N: 1}, {Do: sim.Hook, Kind: "fail", N: 0},
			mail("answer"), poll(lost("hook call")),
			{Do: sim.Hook, Kind: "gone", N: 0}, {Do: sim.Nudge, Kind: "file"}, poll(),
			{Do: sim.Hook, Kind: "fine", N: 0}, wait(11 * time.Minute),
		},
	},
	{
		name: "what a program says is answered once although every process dies",
		must: "the answer to a program was mailed",
		step: []sim.Step{
			{Do: sim.Event, Kind: "file", Wish: "remember"}, poll(power("rename messages/*.txt")),
			poll(crash("write state.json.tmp")),
			poll(crash("remove nudges/*.message")),
			poll(crash("agent work")),
			{Do: sim.Event, Kind: "post", Wish: "remember", Faults: []sim.Fault{crash("done state.json")}},
			{Do: sim.Event, Kind: "post", Wish: "remind"}, poll(crashLate("smtp dot")),
			{Do: sim.Event, Kind: "mail", Wish: "search", Faults: []sim.Fault{power("rename turns/*/deliverable")}},
			{Do: sim.Damage, Kind: "delete-both"}, poll(),
			{Do: sim.Reset}, {Do: sim.Event, Kind: "post", Wish: "search"},
		},
	},
	{
		name: "a program that says too much waits for the hour, and its files for the end of HALT",
		must: "a message of a program was above the limit of the hour",
		step: []sim.Step{
			{Do: sim.Event, Kind: "file", Wish: "answer"},
			{Do: sim.Event, Kind: "file", Wish: "answer"},
			{Do: sim.Event, Kind: "file", Wish: "answer"}, {Do: sim.Halt},
			{Do: sim.Event, Kind: "post", Wish: "answer"},
			{Do: sim.Event, Kind: "post", Wish: "fail"}, {Do: sim.Go},
			{Do: sim.Event, Kind: "post", Wish: "answer"},
			{Do: sim.Event, Kind: "mail", Wish: "answer"},
			{Do: sim.Event, Kind: "file", Wish: "answer"}, mail("answer"), poll(),
		},
	},
}

// questions are stories of turns that ask their operator.
var questions = []scenario{
	{
		name: "an answer of the operator is handed to its turn once although every process dies",
		must: "an answer of the operator was handed over",
		step: []sim.Step{
			mail("query", power("rename outbox/question")),
			poll(crashLate("agent end")),
			poll(crashLate("smtp dot")),
			poll(),
			{Do: sim.Answer, Kind: "words"}, poll(power("rename messages/*.eml")),
			poll(crash("done state.json")),
			poll(crash("agent work")),
			{Do: sim.Answer, Kind: "words"}, poll(power("rename turns/*/deliverable")),
			poll(),
		},
	},
	{
		name: "other mail waits behind a question and what is late or forged does not answer",
		must: "the operator did not answer in time",
		step: []sim.Step{
			mail("query"), poll(),
			mail("answer"), {Do: sim.Answer, Kind: "forged"}, {Do: sim.Answer, Kind: "forward"},
			poll(), wait(46 * time.Minute),
			{Do: sim.Answer, Kind: "option"}, {Do: sim.Answer, Kind: "here"}, poll(),
			tell("query-both"), {Do: sim.Answer, Kind: "STOP"}, poll(),
			{Do: sim.Answer, Kind: "words"}, poll(),
		},
	},
	{
		name: "a turn of another agent asks and holds up nobody",
		must: "a question of another's turn ended because the operator wrote",
		step: []sim.Step{
			message("query"), poll(),
			mail("answer"), poll(),
			{Do: sim.Message, Kind: "ask", Wish: "query-two"}, poll(),
			{Do: sim.Answer, Kind: "unproved"},
			{Do: sim.Answer, Kind: "here", N: 1, Faults: []sim.Fault{crash("done state.json")}},
			poll(),
			{Do: sim.Damage, Kind: "delete-both"}, poll(),
			{Do: sim.Answer, Kind: "words"}, poll(),
		},
	},
}

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
			wait(8*time.Minute + 30*time.Second), // 9:06:30
			wait(time.Minute, fault), wait(5 * time.Minute), mail("answer"), wait(20 * time.Minute),
		}
		for what, n := range mustPlay(t, story, "").Counts.Sometimes {
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
	out := mustPlay(t, sim.Story{
		Prompts: []sim.ClockPrompt{{Name: "plain", At: "7,43 * * * *", CatchUp: time.Hour}},
		Steps:   []sim.Step{wait(time.Hour)},
	}, "")
	if n := out.Counts.Sometimes["a prompt had its time"]; n != 2 {
		t.Errorf("%d firings, want 2", n)
	}
}
