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
			{Do: sim.Message, Kind: "message", Wish: "answer"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "nats take answer", What: sim.Crash}}},
			{Do: sim.Wait, For: 2 * time.Minute, Faults: []sim.Fault{{Site: "append history", What: sim.Power}}},
			{Do: sim.Wait, For: 2 * time.Minute, Faults: []sim.Fault{{Site: "nats ack", What: sim.Crash}}},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "nats send", What: sim.CrashLate}}},
			{Do: sim.Wait, For: 2 * time.Minute, Faults: []sim.Fault{{Site: "nats send answer", What: sim.Crash}}},
			{Do: sim.Wait, For: 2 * time.Minute, Faults: []sim.Fault{{Site: "nats send answer", What: sim.Lost}}},
		},
	},
	{
		name: "what is not proven over NATS causes nothing", over: sim.OverNATS,
		must: "forged over NATS: report",
		step: []sim.Step{
			{Do: sim.Forge, Kind: "unsigned", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Forge, Kind: "relay", Wish: "answer"},
			{Do: sim.Forge, Kind: "nudge"},
			{Do: sim.Poll},
			{Do: sim.Mail, Kind: "new", Wish: "ask"},
			{Do: sim.Poll},
			{Do: sim.Forge, Kind: "report"},
			{Do: sim.Wait, For: 2 * time.Minute},
			{Do: sim.Report, Kind: "answer"},
		},
	},
	{
		name: "an id over NATS is nobody's before its sender has proved it", over: sim.OverNATS,
		must: "forged over NATS: twins",
		step: []sim.Step{
			{Do: sim.Forge, Kind: "usurped", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Forge, Kind: "twins", Wish: "answer"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "nats ack", What: sim.Fail}}},
			{Do: sim.Forge, Kind: "twins", Wish: "submit"},
			{Do: sim.Wait, For: 5 * time.Minute},
		},
	},
	{
		name: "a message over NATS that is replayed has no second turn, however late", over: sim.OverNATS,
		must: "an old message was replayed over NATS",
		step: []sim.Step{
			{Do: sim.Message, Kind: "message", Wish: "answer"},
			{Do: sim.Nudge, Kind: "mesh"},
			{Do: sim.Wait, For: 2 * time.Minute},
			{Do: sim.Forge, Kind: "replayed"},
			{Do: sim.Wait, For: 2 * time.Minute},
			{Do: sim.Wait, For: 15 * 24 * time.Hour},
			{Do: sim.Tell, Wish: "answer"}, // it forgets the keys of then
			{Do: sim.Forge, Kind: "replayed"},
			{Do: sim.Forge, Kind: "replayed", N: 1},
			{Do: sim.Poll},
		},
	},
	{
		name: "a flood over NATS comes in at its pace, and its answers leave at ours", over: sim.OverNATS,
		must: "messages of a peer waited for its pace",
		step: []sim.Step{
			{Do: sim.Forge, Kind: "flood"},
			{Do: sim.Forge, Kind: "flood", N: 1}, // of the other peer
			{Do: sim.Poll},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 70 * time.Second},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 70 * time.Second},
			{Do: sim.Poll},
		},
	},
	{
		name: "what is unknown over NATS is published again, and is the same to the bit", over: sim.OverNATS,
		must: "a message was published again over NATS",
		step: []sim.Step{
			{Do: sim.Message, Kind: "ask", Wish: "submit"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "nats send", What: sim.CrashLate}}},
			{Do: sim.Wait, For: 90 * time.Minute, Faults: []sim.Fault{{Site: "nats send", What: sim.Lost}, {Site: "nats send answer", What: sim.Twice}}},
		},
	},
	{
		name: "a mesh over NATS without a leader, and one that lags, lose nothing", over: sim.OverNATS,
		must: "messages of the mesh came later",
		step: []sim.Step{
			{Do: sim.Message, Kind: "message", Wish: "answer"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "nats take", What: sim.Fail}}},
			{Do: sim.Outage, Kind: "nats-late", N: 1},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "nats ack", What: sim.Fail}}},
			{Do: sim.Mail, Kind: "new", Wish: "send"},
			{Do: sim.Wait, For: 2 * time.Minute, Faults: []sim.Fault{{Site: "nats send", What: sim.Fail}}},
			{Do: sim.Wait, For: 5 * time.Minute},
		},
	},
	{
		name: "a mailbox over NATS is full for a while", over: sim.OverNATS,
		must: "our part of a mailbox was full",
		step: []sim.Step{
			{Do: sim.Outage, Kind: "box-full", N: 2},
			{Do: sim.Message, Kind: "message", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 5 * time.Minute},
		},
	},
	{
		name: "the HALT of the mesh over NATS is heard, late where a server lags", over: sim.OverNATS,
		must: "an answer about HALT was an old one",
		step: []sim.Step{
			{Do: sim.MeshHalt, Kind: "on"},
			{Do: sim.Message, Kind: "message", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.MeshHalt, Kind: "off"},
			{Do: sim.Outage, Kind: "halt-stale", N: 2},
			{Do: sim.Poll},
			{Do: sim.Poll},
			{Do: sim.MeshHalt, Kind: "on"},
			{Do: sim.Poll},
		},
	},
	{
		name: "the HALT of the mesh over NATS stays while the mesh is away", over: sim.OverNATS,
		must: "the mesh over NATS was halted",
		step: []sim.Step{
			{Do: sim.MeshHalt, Kind: "on"},
			{Do: sim.Message, Kind: "message", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Outage, Kind: "nats", N: 1},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 2 * time.Minute},
		},
	},
	{
		name: "a key that the engine refuses is an outage of the mesh", over: sim.OverNATS,
		must: "an outage had to be reported to the operator",
		step: []sim.Step{
			{Do: sim.Wait, For: 2 * time.Hour},
			{Do: sim.Outage, Kind: "token", N: 8},
			{Do: sim.Message, Kind: "message", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Poll},
			{Do: sim.Poll},
			{Do: sim.Poll},
		},
	},
}
