package simulator_test

import (
	"time"

	sim "agentstateloop/cycle/simulator"
)

// unrulyServers are scenarios in which the servers misbehave and the program does
// not (docs/design.md, "Promises").
var unrulyServers = []scenario{
	{
		name: "mail above the rate is told once and answered in the end",
		must: "a mail was above the limit of the hour",
		step: []sim.Step{
			{Do: sim.Rate, N: 2},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Mail, Kind: "unproved", Wish: "answer"},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Reply, Kind: "yes"},
			{Do: sim.Release, Kind: "release"},
			{Do: sim.Wait, For: 30 * time.Minute},
			{Do: sim.Wait, For: time.Hour},
		},
	},
	{
		name: "an answer that is refused for good is told",
		must: "a mail was refused for good for what it says",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Outage, Kind: "smtp-554", N: 1},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 5 * time.Minute},
		},
	},
	{
		name: "mails that come back are believed only if they are ours",
		must: "a mail came back: real",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Return, Kind: "invented"},
			{Do: sim.Return, Kind: "altered", N: 1},
			{Do: sim.Return, Kind: "other", N: 1},
			{Do: sim.Poll},
			{Do: sim.Return, Kind: "real", N: 1},
			{Do: sim.Return, Kind: "header"},
			{Do: sim.Poll},
		},
	},
}
