package simulator_test

import (
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

// selfTurns are stories of an agent that wakes itself.
var selfTurns = []scenario{
	{
		name: "an agent wakes itself although every process dies",
		must: "the agent woke itself",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "remind", Inside: []sim.Fault{{Site: "fsync state.json.tmp", What: sim.Crash}}},
			{Do: sim.Poll},
			{Do: sim.Tell, Wish: "remind"},
			{Do: sim.Wait, For: 8 * time.Minute, Faults: []sim.Fault{{Site: "agent work", What: sim.Crash}}},
			{Do: sim.Wait, For: 31 * time.Minute, Faults: []sim.Fault{{Site: "rename turns/*/deliverable", What: sim.Power}}},
			{Do: sim.Wait, For: 31 * time.Minute, Faults: []sim.Fault{{Site: "smtp dot", What: sim.CrashLate}}},
		},
	},
	{
		name: "a message of its conversation takes the place of a sleep and a nudge ends it",
		must: "the agent woke itself",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "doze"},
			{Do: sim.Poll},
			{Do: sim.Message, Kind: "message", Wish: "doze"},
			{Do: sim.Poll},
			{Do: sim.Mail, Kind: "new", Wish: "doze"},
			{Do: sim.Poll},
			{Do: sim.Nudge, Kind: "file"},
			{Do: sim.Wait, For: 31 * time.Minute},
		},
	},
	{
		name: "an agent goes on by itself only so far",
		must: "the agent used up its turns",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "remind"},
			{Do: sim.Mail, Kind: "new", Wish: "remind"},
			{Do: sim.Mail, Kind: "new", Wish: "remind"},
			{Do: sim.Message, Kind: "message", Wish: "remind"},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 31 * time.Minute},
			{Do: sim.Wait, For: 31 * time.Minute, Faults: []sim.Fault{{Site: "rename state.json", What: sim.Power}}},
			{Do: sim.Wait, For: 31 * time.Minute},
			{Do: sim.Damage, Kind: "delete-both"},
			{Do: sim.Wait, For: 31 * time.Minute},
		},
	},
	{
		name: "cron is not to wake it for what waits for a word",
		must: "what the agent planned waited for a word",
		step: []sim.Step{
			{Do: sim.Wait, For: 4 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "remind-late"},
			{Do: sim.Mail, Kind: "new", Wish: "remind"},
			{Do: sim.Mail, Kind: "new", Wish: "remind"},
			{Do: sim.Mail, Kind: "new", Wish: "remind"},
			{Do: sim.Mail, Kind: "new", Wish: "remind"},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 5 * time.Minute},
			{Do: sim.Wait, For: 6 * time.Minute},
			{Do: sim.Wait, For: 150 * time.Minute},
			{Do: sim.Wait, For: 150 * time.Minute},
		},
	},
	{
		name: "nor for a peer's conversation that has used its half",
		must: "what the agent planned waited for a word",
		step: []sim.Step{
			{Do: sim.Wait, For: 4 * time.Minute},
			{Do: sim.Message, Kind: "message", Wish: "remind-late"},
			{Do: sim.Message, Kind: "message", Wish: "remind"},
			{Do: sim.Message, Kind: "message", Wish: "remind"},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 5 * time.Minute},
			{Do: sim.Wait, For: 6 * time.Minute},
			{Do: sim.Wait, For: 150 * time.Minute},
			{Do: sim.Wait, For: 150 * time.Minute},
		},
	},
	{
		name: "nothing of its own begins under HALT or while the clock jumps",
		must: "the agent woke itself",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "remind-late"},
			{Do: sim.Poll},
			{Do: sim.Halt},
			{Do: sim.Clock, For: 26 * time.Hour},
			{Do: sim.Poll},
			{Do: sim.Clock, For: -26 * time.Hour},
			{Do: sim.Poll},
			{Do: sim.Go},
			{Do: sim.Wait, For: 6 * time.Hour},
		},
	},
}
