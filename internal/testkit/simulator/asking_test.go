package simulator_test

import (
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

// questions are stories of turns that ask their operator.
var questions = []scenario{
	{
		name: "an answer of the operator is handed to its turn once although every process dies",
		must: "an answer of the operator was handed over",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "query", Inside: []sim.Fault{{Site: "rename outbox/question", What: sim.Power}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "agent end", What: sim.CrashLate}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "smtp dot", What: sim.CrashLate}}},
			{Do: sim.Poll},
			{Do: sim.Answer, Kind: "words"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "rename messages/*.eml", What: sim.Power}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "done state.json", What: sim.Crash}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "agent work", What: sim.Crash}}},
			{Do: sim.Answer, Kind: "words"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "rename turns/*/deliverable", What: sim.Power}}},
			{Do: sim.Poll},
		},
	},
	{
		name: "other mail waits behind a question and what is late or forged does not answer",
		must: "the operator did not answer in time",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "query"},
			{Do: sim.Poll},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Answer, Kind: "forged"},
			{Do: sim.Answer, Kind: "forward"},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 46 * time.Minute},
			{Do: sim.Answer, Kind: "option"},
			{Do: sim.Answer, Kind: "here"},
			{Do: sim.Poll},
			{Do: sim.Tell, Wish: "query-both"},
			{Do: sim.Answer, Kind: "STOP"},
			{Do: sim.Poll},
			{Do: sim.Answer, Kind: "words"},
			{Do: sim.Poll},
		},
	},
	{
		name: "a turn of another agent asks and holds up nobody",
		must: "a question of another's turn ended because the operator wrote",
		step: []sim.Step{
			{Do: sim.Message, Kind: "message", Wish: "query"},
			{Do: sim.Poll},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Message, Kind: "ask", Wish: "query-two"},
			{Do: sim.Poll},
			{Do: sim.Answer, Kind: "unproved"},
			{Do: sim.Answer, Kind: "here", N: 1, Faults: []sim.Fault{{Site: "done state.json", What: sim.Crash}}},
			{Do: sim.Poll},
			{Do: sim.Damage, Kind: "delete-both"},
			{Do: sim.Poll},
			{Do: sim.Answer, Kind: "words"},
			{Do: sim.Poll},
		},
	},
}
