package simulator_test

import (
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

// unrulyServers are scenarios in which the servers misbehave and the program does
// not (docs/design.md, "Promises").
var unrulyServers = []scenario{
	{
		name: "a mail that the server cannot hand out holds up no other and comes in at last",
		must: "a server could not hand out a mail: body no",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body no", For: 26 * time.Hour},
			mail("answer"), poll(), wait(5 * time.Minute),
			mail("answer"), wait(5 * time.Minute), wait(13 * time.Hour),
			mail("answer"), wait(13 * time.Hour), wait(2 * time.Hour),
		},
	},
	{
		name: "a connection that breaks at one mail holds up no other",
		must: "a server could not hand out a mail: body break",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body break", For: 3 * time.Hour},
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "head break", For: 30 * time.Minute},
			mail("answer"), wait(8 * time.Minute),
			mail("answer"), wait(8 * time.Minute), wait(4 * time.Hour),
		},
	},
	{
		name: "mails that an answer leaves out are not lost",
		must: "mails were missing in an answer that said OK",
		step: []sim.Step{
			mail("answer"), mail("answer"), {Do: sim.Outage, Kind: "imap-sparse", N: 1}, poll(),
			mail("answer"), {Do: sim.Outage, Kind: "imap-hollow", N: 4}, poll(),
			mail("answer"), poll(), poll(),
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
			poll(), wait(11 * time.Minute), wait(time.Hour),
		},
	},
	{
		name: "a mail that was deleted before it came in is passed",
		must: "a mail was deleted for good",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer", Ill: "body no", For: 3 * time.Hour},
			mail("answer"), poll(), wait(5 * time.Minute),
			{Do: sim.Expunge}, wait(11 * time.Minute),
		},
	},
	{
		name: "mail that the cursor passed by mistake comes in with the next day",
		must: "the cursor passed a mail by mistake",
		step: []sim.Step{
			mail("answer"), poll(),
			mail("answer"), {Do: sim.Mail, Kind: "unproved", Wish: "answer"},
			{Do: sim.Damage, Kind: "cursor"}, poll(),
		},
	},
	{
		name: "mail above the rate is told once and answered in the end",
		must: "a mail was above the limit of the hour",
		step: []sim.Step{
			{Do: sim.Rate, N: 2}, mail("answer"), mail("answer"), poll(),
			mail("answer"), {Do: sim.Mail, Kind: "unproved", Wish: "answer"}, mail("answer"),
			poll(),
			{Do: sim.Reply, Kind: "yes"}, {Do: sim.Release, Kind: "release"},
			wait(30 * time.Minute), wait(time.Hour),
		},
	},
	{
		name: "a submission server that takes nothing for hours is told, and the answer goes out when it is back",
		must: "a submission server said 451",
		step: []sim.Step{
			mail("answer"), {Do: sim.Outage, Kind: "smtp-451", N: 7}, poll(),
			wait(20 * time.Minute), poll(), wait(20 * time.Minute),
			mail("answer"), {Do: sim.Outage, Kind: "smtp", N: 7}, poll(), wait(20 * time.Minute),
			poll(),
		},
	},
	{
		name: "an answer that is refused for good is told",
		must: "a mail was refused for good for what it says",
		step: []sim.Step{
			mail("answer"), {Do: sim.Outage, Kind: "smtp-554", N: 1}, poll(), wait(5 * time.Minute),
			{Do: sim.Outbox, Kind: "retry"}, mail("answer"),
			{Do: sim.Outage, Kind: "smtp-554", N: 1}, poll(),
			{Do: sim.Outbox, Kind: "drop"}, mail("answer"),
			{Do: sim.Outage, Kind: "smtp-554", N: 1}, poll(),
			mail("answer"), wait(5 * time.Minute),
		},
	},
	{
		name: "mails that come back are believed only if they are ours",
		must: "a mail came back: real",
		step: []sim.Step{
			mail("answer"), poll(),
			{Do: sim.Return, Kind: "invented"}, {Do: sim.Return, Kind: "altered", N: 1},
			{Do: sim.Return, Kind: "other", N: 1}, poll(),
			{Do: sim.Return, Kind: "real", N: 1}, {Do: sim.Return, Kind: "header"}, poll(),
		},
	},
	{
		name: "messages that cannot be decoded hold up no others",
		must: "a message that cannot be decoded was on the mesh",
		step: []sim.Step{
			message("answer"), {Do: sim.Junk, Kind: "text"}, {Do: sim.Junk, Kind: "object", N: 1},
			{Do: sim.Message, Kind: "ask", Wish: "answer"}, {Do: sim.Junk, Kind: "hops", N: 2},
			{Do: sim.Junk, Kind: "time"}, poll(),
			message("answer"), {Do: sim.Junk, Kind: "null"}, {Do: sim.Junk, Kind: "list"},
			{Do: sim.Junk, Kind: "number"}, poll(),
		},
	},
	{
		name: "payloads that are damaged are not sent and not run",
		step: []sim.Step{
			mail("answer"), {Do: sim.Outage, Kind: "smtp-451", N: 1}, poll(crash("agent start")),
			{Do: sim.Damage, Kind: "payload-zero"}, {Do: sim.Damage, Kind: "payload-flip", N: 1},
			poll(),
			message("answer"), {Do: sim.Outage, Kind: "http", N: 1}, poll(),
			{Do: sim.Damage, Kind: "payload-cut"}, {Do: sim.Damage, Kind: "payload-remove", N: 1},
			poll(),
		},
	},
}
