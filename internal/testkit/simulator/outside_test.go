package simulator_test

import (
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

// outside are stories of turns that start something which reports later.
var outside = []scenario{
	{
		name: "a report is handed to its turn once although every process dies",
		must: "an attempt began again while something was under way",
		step: []sim.Step{
			mail("deploy"), poll(crashLate("agent end")),
			poll(crash("agent start")),
			poll(),
			{Do: sim.Outside, Kind: "local", Faults: []sim.Fault{power("fsync state.json.tmp")}},
			{Do: sim.Outside, Kind: "local", Faults: []sim.Fault{crash("done state.json")}},
			{Do: sim.Outside, Kind: "local"}, poll(crash("agent work")),
			{Do: sim.Outside, Kind: "local"}, poll(power("rename turns/*/deliverable")),
			poll(),
			{Do: sim.Outside, Kind: "local"},
		},
	},
	{
		name: "a report comes before its attempt ended",
		must: "a report came before its attempt ended",
		step: []sim.Step{
			tell("deploy-early"), mail("deploy-early", crash("done state.json")),
			poll(crash("agent end")),
			poll(),
		},
	},
	{
		name: "a report through the mesh counts from a peer that may",
		must: "a report was handed over",
		step: []sim.Step{
			mail("deploy"), poll(),
			{Do: sim.Outside, Kind: "other"}, poll(),
			{Do: sim.Outside, Kind: "unknown"}, {Do: sim.Outside, Kind: "mesh"},
			{Do: sim.Outside, Kind: "mesh"}, poll(crash("mesh DELETE mailbox")),
			poll(),
			mail("deploy-wait"), poll(),
			{Do: sim.Outside, Kind: "mesh"}, poll(),
		},
	},
	{
		name: "each wait has its own deadline and what is late changes nothing",
		must: "a report was late",
		step: []sim.Step{
			mail("deploy-two"), poll(), wait(25 * time.Minute),
			{Do: sim.Outside, Kind: "local"}, {Do: sim.Outside, Kind: "local", N: 1}, poll(),
			{Do: sim.Message, Kind: "ask", Wish: "deploy"}, poll(), wait(30 * time.Minute),
			wait(30 * time.Minute),
			{Do: sim.Outside, Kind: "local"},
		},
	},
	{
		name: "the operator writes meanwhile and the report has a turn of its own",
		must: "a late report had a turn of its own",
		step: []sim.Step{
			mail("deploy"), poll(),
			mail("answer"), poll(), poll(),
			{Do: sim.Outside, Kind: "local", Faults: []sim.Fault{power("rename state.json")}},
			{Do: sim.Outside, Kind: "local"}, {Do: sim.Damage, Kind: "delete-both"},
			poll(crashLate("agent end")),
			poll(),
			tell("deploy-end"), {Do: sim.Outside, Kind: "local"}, poll(crashLate("smtp dot")),
		},
	},
	{
		name: "what was started is not forgotten under HALT or by a reap or while the clock jumps",
		must: "a report was taken",
		step: []sim.Step{
			tell("deploy-two", crash("agent end")),
			{Do: sim.Halt}, {Do: sim.Outside, Kind: "local"}, poll(),
			{Do: sim.Damage, Kind: "delete"}, {Do: sim.Go}, poll(),
			{Do: sim.Clock, For: 26 * time.Hour}, poll(),
			{Do: sim.Outside, Kind: "local", N: 1}, {Do: sim.Clock, For: -26 * time.Hour}, poll(),
		},
	},
	{
		name: "a tool that fails is not waited for and a turn that was stopped hears nothing more",
		step: []sim.Step{
			tell("deploy-fail"), {Do: sim.Outside, Kind: "local"}, tell("deploy"), {Do: sim.Stop},
			{Do: sim.Outside, Kind: "local"}, poll(),
			message("deploy-die"), poll(),
			{Do: sim.Outside, Kind: "local"}, poll(),
			tell("deploy-over"), {Do: sim.Late, Kind: "suspend", N: 1},
		},
	},
}

// bursts are stories of senders that write in a row, with [turn] collect.
var bursts = []scenario{
	{
		name: "what a sender writes in a row has one turn although every process dies",
		must: "messages of one sender shared a turn",
		step: []sim.Step{
			{Do: sim.Collect, For: 40 * time.Second},
			{Do: sim.Burst, Kind: "mail", Wish: "answer", N: 1}, poll(crash("append history")),
			wait(time.Minute, crash("agent start")),
			mail("answer"), wait(time.Minute, power("rename turns/*/deliverable")),
			{Do: sim.Damage, Kind: "delete-both"}, wait(3*time.Minute, crashLate("smtp dot")),
		},
	},
	{
		name: "questions and forms stand alone and senders do not mix",
		must: "a message waited for what its sender still writes",
		step: []sim.Step{
			{Do: sim.Collect, For: 2 * time.Minute},
			{Do: sim.Burst, Kind: "mixed", Wish: "answer", N: 2}, poll(),
			{Do: sim.Burst, Kind: "message", Wish: "submit", N: 5}, poll(),
			{Do: sim.Burst, Kind: "message", Wish: "answer", N: 2}, wait(8 * time.Minute),
		},
	},
	{
		name: "a sender who never stops is waited for three times as long at most",
		must: "messages of one sender shared a turn",
		step: []sim.Step{
			{Do: sim.Collect, For: 2 * time.Minute}, tell("answer"), wait(time.Minute),
			tell("answer"), wait(time.Minute),
			tell("answer"), wait(time.Minute),
			tell("answer"), wait(time.Minute),
			tell("answer"), wait(time.Minute),
			tell("answer"), wait(2 * time.Minute),
		},
	},
	{
		name: "collected messages are suspended together and one of them is damaged",
		must: "messages of one sender shared a turn",
		step: []sim.Step{
			{Do: sim.Collect, For: 40 * time.Second},
			{Do: sim.Burst, Kind: "mail", Wish: "deploy", N: 1}, poll(),
			{Do: sim.Damage, Kind: "payload-zero"}, wait(2 * time.Minute),
			{Do: sim.Damage, Kind: "payload-flip", N: 1}, {Do: sim.Outside, Kind: "local"},
			poll(crash("agent end")),
			poll(),
			{Do: sim.Burst, Kind: "mail", Wish: "deploy", N: 1}, {Do: sim.Collect, For: 0}, poll(),
			{Do: sim.Clock, For: -26 * time.Hour}, poll(),
		},
	},
}
