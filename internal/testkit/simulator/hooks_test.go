package simulator_test

import (
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

// hookStories are stories of programs that hear of events, and of programs that have
// something to say. Hook 0 hears of some events, hook 1 of all.
var hookStories = []scenario{
	{
		name: "a mail is read and answered while a hook hangs",
		must: "a poll ran while a hook hung",
		step: []sim.Step{
			{Do: sim.Hook, Kind: "hang", N: 0},
			{Do: sim.Hook, Kind: "fine", N: 1},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "hook call", What: sim.Meanwhile, Then: &sim.Step{Do: sim.Mail, Kind: "new", Wish: "answer"}}}},
			{Do: sim.Halt},
			{Do: sim.Poll},
			{Do: sim.Go},
			{Do: sim.Wait, For: 31 * time.Minute},
		},
	},
	{
		name: "each event reaches a hook although every process dies",
		must: "a hook took an event",
		step: []sim.Step{
			{Do: sim.Hook, Kind: "fine", N: 1},
			{Do: sim.Mail, Kind: "new", Wish: "ask"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "fsync outbox/hook.tmp", At: 1, What: sim.Power}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "hook call", At: 2, What: sim.Crash}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "hook answer", At: 1, What: sim.Power}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "hook call", What: sim.CrashLate}}},
			{Do: sim.Halt},
			{Do: sim.Tell, Wish: "answer", Faults: []sim.Fault{{Site: "rename state.json", At: 1, What: sim.Power}}},
			{Do: sim.Go},
			{Do: sim.Hook, Kind: "lost", N: 1},
			{Do: sim.Poll},
		},
	},
	{
		name: "rows for a hook outlive the state",
		must: "the state was recovered",
		step: []sim.Step{
			{Do: sim.Hook, Kind: "fail", N: 1},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Damage, Kind: "delete-both"},
			{Do: sim.Damage, Kind: "payload-remove", N: 1},
			{Do: sim.Wait, For: 11 * time.Minute},
			{Do: sim.Hook, Kind: "slow", N: 1},
			{Do: sim.Wait, For: 31 * time.Minute},
		},
	},
	{
		name: "a hook that refuses or is gone leaves a line for each event",
		must: "an event for a hook was lost: undeliverable",
		step: []sim.Step{
			{Do: sim.Hook, Kind: "refuse", N: 1},
			{Do: sim.Hook, Kind: "fail", N: 0},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "hook call", What: sim.Lost}}},
			{Do: sim.Hook, Kind: "gone", N: 0},
			{Do: sim.Nudge, Kind: "file"},
			{Do: sim.Poll},
			{Do: sim.Hook, Kind: "fine", N: 0},
			{Do: sim.Wait, For: 11 * time.Minute},
		},
	},
	{
		name: "what a program says is answered once although every process dies",
		must: "the answer to a program was mailed",
		step: []sim.Step{
			{Do: sim.Event, Kind: "file", Wish: "remember"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "rename messages/*.txt", What: sim.Power}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "write state.json.tmp", What: sim.Crash}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "remove nudges/*.message", What: sim.Crash}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "agent work", What: sim.Crash}}},
			{Do: sim.Event, Kind: "post", Wish: "remember", Faults: []sim.Fault{{Site: "done state.json", What: sim.Crash}}},
			{Do: sim.Event, Kind: "post", Wish: "remind"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "smtp dot", What: sim.CrashLate}}},
			{Do: sim.Event, Kind: "mail", Wish: "search", Faults: []sim.Fault{{Site: "rename turns/*/deliverable", What: sim.Power}}},
			{Do: sim.Damage, Kind: "delete-both"},
			{Do: sim.Poll},
			{Do: sim.Reset},
			{Do: sim.Event, Kind: "post", Wish: "search"},
		},
	},
	{
		name: "a program that says too much waits for the hour, and its files for the end of HALT",
		must: "a message of a program was above the limit of the hour",
		step: []sim.Step{
			{Do: sim.Event, Kind: "file", Wish: "answer"},
			{Do: sim.Event, Kind: "file", Wish: "answer"},
			{Do: sim.Event, Kind: "file", Wish: "answer"},
			{Do: sim.Halt},
			{Do: sim.Event, Kind: "post", Wish: "answer"},
			{Do: sim.Event, Kind: "post", Wish: "fail"},
			{Do: sim.Go},
			{Do: sim.Event, Kind: "post", Wish: "answer"},
			{Do: sim.Event, Kind: "mail", Wish: "answer"},
			{Do: sim.Event, Kind: "file", Wish: "answer"},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
		},
	},
}
