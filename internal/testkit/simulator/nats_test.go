package simulator_test

import (
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

// natsStories are stories of the mesh over NATS.
var natsStories = []scenario{
	{
		name: "a message over NATS is reported although every process dies", over: sim.OverNATS,
		must: "a message was published again over NATS",
		step: []sim.Step{
			message("answer"), poll(crash("nats take answer")),
			wait(2*time.Minute, power("append history")),
			wait(2*time.Minute, crash("nats ack")),
			poll(crashLate("nats send")),
			wait(2*time.Minute, crash("nats send answer")),
			wait(2*time.Minute, lost("nats send answer")),
		},
	},
	{
		name: "what is not proven over NATS causes nothing", over: sim.OverNATS,
		must: "forged over NATS: report",
		step: []sim.Step{
			{Do: sim.Forge, Kind: "unsigned", Wish: "answer"}, poll(),
			{Do: sim.Forge, Kind: "relay", Wish: "answer"}, {Do: sim.Forge, Kind: "nudge"}, poll(),
			mail("ask"), poll(),
			{Do: sim.Forge, Kind: "report"}, wait(2 * time.Minute),
			{Do: sim.Report, Kind: "answer"},
		},
	},
	{
		name: "an id over NATS is nobody's before its sender has proved it", over: sim.OverNATS,
		must: "forged over NATS: twins",
		step: []sim.Step{
			{Do: sim.Forge, Kind: "usurped", Wish: "answer"}, poll(),
			{Do: sim.Forge, Kind: "twins", Wish: "answer"}, poll(fail("nats ack")),
			{Do: sim.Forge, Kind: "twins", Wish: "submit"}, wait(5 * time.Minute),
		},
	},
	{
		name: "a message over NATS that is replayed has no second turn, however late", over: sim.OverNATS,
		must: "an old message was replayed over NATS",
		step: []sim.Step{
			message("answer"), {Do: sim.Nudge, Kind: "mesh"}, wait(2 * time.Minute),
			{Do: sim.Forge, Kind: "replayed"}, wait(2 * time.Minute), wait(15 * 24 * time.Hour),
			tell("answer"), // it forgets the keys of then
			{Do: sim.Forge, Kind: "replayed"}, {Do: sim.Forge, Kind: "replayed", N: 1}, poll(),
		},
	},
	{
		name: "a flood over NATS comes in at its pace, and its answers leave at ours", over: sim.OverNATS,
		must: "messages of a peer waited for its pace",
		step: []sim.Step{
			{Do: sim.Forge, Kind: "flood"}, {Do: sim.Forge, Kind: "flood", N: 1}, // of the other peer
			poll(), poll(), wait(70 * time.Second), poll(), wait(70 * time.Second), poll(),
		},
	},
	{
		name: "what is unknown over NATS is published again, and is the same to the bit", over: sim.OverNATS,
		must: "a message was published again over NATS",
		step: []sim.Step{
			{Do: sim.Message, Kind: "ask", Wish: "submit"}, poll(crashLate("nats send")),
			wait(90*time.Minute, lost("nats send"), sim.Fault{Site: "nats send answer", What: sim.Twice}),
		},
	},
	{
		name: "a mesh over NATS without a leader, and one that lags, lose nothing", over: sim.OverNATS,
		must: "messages of the mesh came later",
		step: []sim.Step{
			message("answer"), poll(fail("nats take")),
			{Do: sim.Outage, Kind: "nats-late", N: 1}, poll(fail("nats ack")),
			mail("send"), wait(2*time.Minute, fail("nats send")),
			wait(5 * time.Minute),
		},
	},
	{
		name: "a mailbox over NATS is full for a while", over: sim.OverNATS,
		must: "our part of a mailbox was full",
		step: []sim.Step{
			{Do: sim.Outage, Kind: "box-full", N: 2}, message("answer"), poll(), poll(),
			wait(5 * time.Minute),
		},
	},
	{
		name: "the HALT of the mesh over NATS is heard, late where a server lags", over: sim.OverNATS,
		must: "an answer about HALT was an old one",
		step: []sim.Step{
			{Do: sim.MeshHalt, Kind: "on"}, message("answer"), poll(),
			{Do: sim.MeshHalt, Kind: "off"}, {Do: sim.Outage, Kind: "halt-stale", N: 2}, poll(),
			poll(),
			{Do: sim.MeshHalt, Kind: "on"}, poll(),
		},
	},
	{
		name: "the HALT of the mesh over NATS stays while the mesh is away", over: sim.OverNATS,
		must: "the mesh over NATS was halted",
		step: []sim.Step{
			{Do: sim.MeshHalt, Kind: "on"}, message("answer"), poll(),
			{Do: sim.Outage, Kind: "nats", N: 1}, poll(), wait(2 * time.Minute),
		},
	},
	{
		name: "a key that the engine refuses is an outage of the mesh", over: sim.OverNATS,
		must: "an outage had to be reported to the operator",
		step: []sim.Step{
			wait(2 * time.Hour),
			{Do: sim.Outage, Kind: "token", N: 8}, message("answer"), poll(), poll(), poll(),
			poll(),
		},
	},
}
