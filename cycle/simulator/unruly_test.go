package simulator_test

import (
	"time"

	sim "agentstateloop/cycle/simulator"
)

// unrulyServers are scenarios in which the servers misbehave and the program does
// not (docs/design.md, "Promises").
var unrulyServers = []scenario{
	{
		name: "a mail that the server cannot hand out holds up no other and comes in at last",
		must: "a server could not hand out a mail: body no",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body no", For: 26 * time.Hour},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 5 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Wait, For: 5 * time.Minute},
			{Do: sim.Wait, For: 13 * time.Hour},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Wait, For: 13 * time.Hour},
			{Do: sim.Wait, For: 2 * time.Hour},
		},
	},
	{
		name: "a connection that breaks at one mail holds up no other",
		must: "a server could not hand out a mail: body break",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body break", For: 3 * time.Hour},
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "head break", For: 30 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Wait, For: 8 * time.Minute},
			{Do: sim.Wait, For: 4 * time.Hour},
		},
	},
	{
		name: "mails that an answer leaves out are not lost",
		must: "mails were missing in an answer that said OK",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Outage, Kind: "imap-sparse", N: 1},
			{Do: sim.Poll},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Outage, Kind: "imap-hollow", N: 4},
			{Do: sim.Poll},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Poll},
		},
	},
	{
		name: "a body that is answered empty or not at all is asked for again",
		must: "a server could not hand out a mail: body empty",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body empty", For: 2 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body nil", For: 10 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body bodiless", For: 10 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body omit", For: 40 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "head empty", For: 10 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "head omit", For: 10 * time.Minute},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 11 * time.Minute},
			{Do: sim.Wait, For: time.Hour},
		},
	},
	{
		name: "a mail that was deleted before it came in is passed",
		must: "a mail was deleted for good",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body no", For: 3 * time.Hour},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 5 * time.Minute},
			{Do: sim.Expunge},
			{Do: sim.Wait, For: 11 * time.Minute},
		},
	},
	{
		name: "mail that the cursor passed by mistake comes in with the next day",
		must: "the cursor passed a mail by mistake",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Mail, Kind: "unproved", Wish: "answer"},
			{Do: sim.Damage, Kind: "cursor"},
			{Do: sim.Poll},
		},
	},
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
		name: "a submission server that takes nothing for hours is told, and the answer goes out when it is back",
		must: "a submission server said 451",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Outage, Kind: "smtp-451", N: 7},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 20 * time.Minute},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 20 * time.Minute},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Outage, Kind: "smtp", N: 7},
			{Do: sim.Poll},
			{Do: sim.Wait, For: 20 * time.Minute},
			{Do: sim.Poll},
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
			{Do: sim.Outbox, Kind: "retry"},
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Outage, Kind: "smtp-554", N: 1},
			{Do: sim.Poll},
			{Do: sim.Outbox, Kind: "drop"},
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
