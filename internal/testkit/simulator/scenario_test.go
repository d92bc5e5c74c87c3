package simulator_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sim "agentstateloop/internal/testkit/simulator"
)

type scenario struct {
	name string
	was  string // what was wrong, if the story found a bug
	must string // an event that must have happened, or the story proves nothing
	over string // what carries the mesh
	step []sim.Step
}

// The steps that most scenarios have, and the faults.

func poll(faults ...sim.Fault) sim.Step { return sim.Step{Do: sim.Poll, Faults: faults} }

func wait(d time.Duration, faults ...sim.Fault) sim.Step {
	return sim.Step{Do: sim.Wait, For: d, Faults: faults}
}

func tell(wish string, faults ...sim.Fault) sim.Step {
	return sim.Step{Do: sim.Tell, Wish: wish, Faults: faults}
}

func mail(wish string, inside ...sim.Fault) sim.Step {
	return sim.Step{Do: sim.Mail, Kind: "new", Wish: wish, Inside: inside}
}

func message(wish string) sim.Step { return sim.Step{Do: sim.Message, Kind: "message", Wish: wish} }

func crash(site string) sim.Fault     { return sim.Fault{Site: site, What: sim.Crash} }
func crashLate(site string) sim.Fault { return sim.Fault{Site: site, What: sim.CrashLate} }
func power(site string) sim.Fault     { return sim.Fault{Site: site, What: sim.Power} }
func fail(site string) sim.Fault      { return sim.Fault{Site: site, What: sim.Fail} }
func lost(site string) sim.Fault      { return sim.Fault{Site: site, What: sim.Lost} }

func meanwhile(site string, then sim.Step) sim.Fault {
	return sim.Fault{Site: site, What: sim.Meanwhile, Then: &then}
}

// nth returns a fault that strikes when its site was passed n times before.
func nth(n int, f sim.Fault) sim.Fault {
	f.At = n
	return f
}

// scenarios are stories written by hand: the shortest ones that show a bug that was
// found, and ones that answer a newcomer's question. What a power cut loses depends
// on the seed, so each is played with several seeds.
var scenarios = []scenario{
	{
		name: "a mail is answered although every process dies",
		step: []sim.Step{
			mail("answer"), poll(crash("imap FETCH body")),
			poll(crash("append history")),
			poll(crash("agent work")),
			poll(nth(1, crashLate("smtp dot"))),
		},
	},
	{
		name: "an agent that lingers after its answer outlives its runner",
		must: "a runner died and left an agent that had answered",
		step: []sim.Step{
			tell("linger", crash("agent lingers")),
			mail("linger"), poll(crashLate("agent lingers")),
			tell("answer"),
		},
	},
	{
		name: "the folder of an accepted tell is durable",
		was:  "the deliverable was fsynced in folders whose names were not fsynced",
		step: []sim.Step{tell("answer"), tell("submit"), poll(power("fsync state.json.tmp"))},
	},
	{
		name: "the history has nothing that the state forgets",
		was:  "lines of a state whose rename was not durable were made durable, and its serial was used again",
		step: []sim.Step{
			tell("answer"), // makes the folders
			mail("answer"), tell("answer", fail("fsyncdir .")),
			poll(power("rename state.json")),
		},
	},
	{
		name: "the next process fsyncs the history lines of a process that died",
		was:  "they were read, assumed to be durable, and lost in a power cut",
		step: []sim.Step{
			{Do: sim.Transition, Kind: "PREP", Faults: []sim.Fault{nth(1, crash("fsync history"))}},
			{Do: sim.Transition, Kind: "ACTIVE", Faults: []sim.Fault{crash("fsync history")}},
			{Do: sim.Go}, wait(11*time.Minute, power("mesh GET mailbox")),
		},
	},
	{
		name: "a commit that is in the history only in part did not happen",
		was:  "a turn ended twice, or without its reply, if the state with the rest was deleted",
		step: []sim.Step{
			message("submit-die"), poll(nth(7, power("fsync history"))),
			{Do: sim.Damage, Kind: "delete"},
		},
	},
	{
		name: "what was submitted is reported with its fields, whatever dies, and what was only printed is partial",
		step: []sim.Step{
			{Do: sim.Message, Kind: "ask", Wish: "submit-die"}, poll(crash("rename outbox/reply")),
			poll(crashLate("mesh POST message")),
			{Do: sim.Message, Kind: "ask", Wish: "answer"}, poll(nth(5, power("fsync history"))),
			poll(),
		},
		must: "a report was partial",
	},
	{
		name: "an orphan that submits while its turn has another attempt is refused",
		step: []sim.Step{
			mail("answer"), poll(crash("agent work")),
			{Do: sim.Late, Kind: "submit", Faults: []sim.Fault{meanwhile("rename turns/*/submitted", poll(crash("agent work")))}},
		},
	},
	{
		name: "a process that outlives its attempt cannot submit to the suspended turn",
		was:  "the turn went on, and its answer was replaced by a deliverable that could not be read",
		step: []sim.Step{
			mail("ask"), poll(),
			{Do: sim.Late, Kind: "submit"},
		},
	},
	{
		name: "a nudge during a turn and a cycle is not lost",
		step: []sim.Step{
			mail("ask"),
			poll(meanwhile("smtp dot", sim.Step{Do: sim.Ring}), meanwhile("agent work", sim.Step{Do: sim.Ring})),
		},
	},
	{
		name: "a nudge during a cycle is seen before the process ends",
		step: []sim.Step{mail("answer"), poll(meanwhile("smtp dot", sim.Step{Do: sim.Ring}))},
	},
	{
		name: "a nudge that was seen is not lost before it is durable",
		step: []sim.Step{{Do: sim.Nudge, Kind: "file"}, poll(crash("write state.json.tmp"))},
	},
	{
		name: "an ack that may have arrived is not sent again, a reply is",
		step: []sim.Step{
			mail("answer"), poll(crashLate("smtp dot")),
			poll(crashLate("smtp dot")),
			wait(5 * time.Minute),
		},
	},
	{
		name: "an ack that may have arrived is not sent again after the state is lost",
		was:  "only the state recorded that the ack was about to be sent, not its copy or the history",
		must: "the state was recovered",
		step: []sim.Step{
			{Do: sim.Nudge, Kind: "file"}, poll(crashLate("smtp dot")),
			{Do: sim.Damage, Kind: "delete"}, {Do: sim.Turns}, poll(),
			{Do: sim.Transition, Kind: "IDLE", Faults: []sim.Fault{crashLate("smtp dot")}},
			{Do: sim.Damage, Kind: "delete-both"}, tell("answer"), poll(),
		},
	},
	{
		name: "the folder of a rejected mail is durable",
		was:  "a folder that a killed poll had created was assumed to be durable",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "auto", Wish: "answer"}, poll(crash("fsyncdir quarantine")),
			poll(power("mesh PUT registry")),
			poll(),
			tell("answer", power("agent work")),
		},
	},
	{
		name: "an item that a person releases is accepted once",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "auto", Wish: "answer"},
			{Do: sim.Message, Kind: "stranger", Wish: "answer"}, poll(),
			{Do: sim.Release, Kind: "release", Faults: []sim.Fault{crash("write state.json.tmp")}},
			{Do: sim.Release, Kind: "release", Faults: []sim.Fault{crash("done state.json")}},
			{Do: sim.Release, Kind: "release"}, {Do: sim.Release, Kind: "release"}, poll(),
		},
	},
	{
		name: "an item whose release was interrupted is still there",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "auto", Wish: "answer"}, poll(),
			{Do: sim.Release, Kind: "release", Faults: []sim.Fault{crash("write state.json.tmp")}},
		},
	},
	{
		name: "an outage is reported once, and relayed by a peer while mail fails",
		step: []sim.Step{
			{Do: sim.Outage, Kind: "password", N: 5}, poll(), poll(crashLate("mesh POST message")),
			poll(crashLate("mesh POST message")),
			poll(), poll(), poll(), poll(),
		},
	},
	{
		name: "a report that may have arrived is not sent by another channel as well",
		was:  "the operator got the same blocker from a peer and by mail",
		step: []sim.Step{
			{Do: sim.Outage, Kind: "imap-password", N: 7},
			{Do: sim.Outage, Kind: "smtp-password", N: 3}, poll(), poll(),
			poll(nth(1, crashLate("mesh POST message"))),
			poll(), poll(), poll(),
		},
	},
	{
		name: "a token releases one mail, once",
		must: "a token released a mail",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "unproved", Wish: "answer"}, poll(),
			{Do: sim.Reply, Kind: "guess"}, {Do: sim.Reply, Kind: "auto"}, poll(),
			{Do: sim.Reply, Kind: "yes"}, {Do: sim.Reply, Kind: "talk"},
			poll(crash("append history")),
			{Do: sim.Reply, Kind: "yes"}, poll(),
		},
	},
	{
		name: "a signed mail that was changed on the way waits until the operator is asked",
		must: "a mail that the operator had signed was changed",
		step: []sim.Step{
			mail("answer"), poll(),
			{Do: sim.Mail, Kind: "bent", Wish: "answer"},
			{Do: sim.Mail, Kind: "opened", Wish: "answer"},
			{Do: sim.Mail, Kind: "topped", Wish: "answer"},
			{Do: sim.Mail, Kind: "reply", Wish: "answer"}, poll(), poll(),
		},
	},
	{
		name: "a signed mail in doubt comes in by YES, once, and not without one",
		must: "a signed mail in doubt came in by YES",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "doubtful", Wish: "answer"},
			{Do: sim.Mail, Kind: "doubtful", Wish: "answer"}, // about which nobody says anything
			poll(crash("smtp dot")),
			poll(),
			{Do: sim.Reply, Kind: "guess"}, {Do: sim.Reply, Kind: "auto"}, poll(),
			{Do: sim.Reply, Kind: "yes"}, poll(crash("append history")),
			{Do: sim.Reply, Kind: "yes"}, poll(), wait(25 * time.Hour),
		},
	},
	{
		name: "an answer with the token proves only itself",
		must: "a token released a mail",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "unproved", Wish: "answer"},
			{Do: sim.Mail, Kind: "smuggled", Wish: "answer"}, poll(),
			{Do: sim.Reply, Kind: "talk"},
			poll(meanwhile("smtp dot", sim.Step{Do: sim.Reply, Kind: "yes"})),
			poll(),
		},
	},
	{
		name: "an agent without credit runs nothing until credit is added",
		must: "tier: dead",
		step: []sim.Step{
			mail("costly"), mail("costly"), mail("costly"), message("costly"), mail("costly"),
			poll(nth(1, crashLate("agent end"))),
			poll(), wait(11 * time.Minute),
			{Do: sim.TopUp, Faults: []sim.Fault{crash("done state.json")}},
			poll(),
		},
	},
	{
		name: "a turn that has used up its budget is not resumed",
		must: "a turn used up its budget",
		step: []sim.Step{
			{Do: sim.TopUp}, mail("costly-ask"), poll(),
			{Do: sim.Report, Kind: "answer"}, poll(),
		},
	},
	{
		name: "an attempt that has paid and dies is not repeated a third time",
		must: "a fallback was delivered",
		step: []sim.Step{
			{Do: sim.TopUp}, message("pay"), poll(crash("agent end")),
			poll(crash("agent end")),
			poll(),
		},
	},
	{
		name: "an agent that has used up the day's budget waits for the next day",
		must: "turns began again with the next day",
		step: []sim.Step{
			{Do: sim.TopUp}, {Do: sim.TopUp}, mail("costly"), mail("pay", crash("done state.json")),
			mail("costly"), mail("costly"), poll(), wait(30 * time.Minute),
		},
	},
	{
		name: "a day ends in the middle of a turn",
		must: "a day ended in the middle of a turn",
		step: []sim.Step{
			{Do: sim.TopUp}, {Do: sim.TopUp}, mail("costly"), mail("overnight"), mail("costly"),
			poll(nth(1, crashLate("agent end"))),
			poll(),
		},
	},
	{
		name: "a reset sets the memory aside and limits the search",
		must: "a reset set a memory aside",
		step: []sim.Step{
			mail("remember"), poll(),
			mail("search"), poll(),
			{Do: sim.Reset}, mail("search"), poll(),
			mail("search"), poll(),
			{Do: sim.Late, Kind: "remember"},
		},
	},
	{
		name: "the memory is the old one or the new one, whatever dies",
		must: "something was remembered",
		step: []sim.Step{
			mail("remember"), poll(),
			mail("remember", power("rename memory.md")),
			poll(), poll(),
			{Do: sim.Reset, Faults: []sim.Fault{power("write state.json.tmp")}},
			mail("answer"), poll(),
			{Do: sim.Reset, Faults: []sim.Fault{power("done state.json")}},
			mail("answer"), poll(),
		},
	},
	{
		name: "a turn that was running at a reset remembers nothing",
		must: "interleaved: reset",
		step: []sim.Step{
			mail("remember"), poll(meanwhile("agent work", sim.Step{Do: sim.Reset})),
			mail("answer"), poll(),
		},
	},
	{
		name: "a lasting outage is reported to the keymaster at once, and to the operator at the third poll",
		must: "an outage had to be reported to the operator",
		step: []sim.Step{
			{Do: sim.Outage, Kind: "imap-password", N: 3}, poll(), poll(), poll(), poll(),
			{Do: sim.Outage, Kind: "password", N: 3}, poll(), poll(), poll(), poll(),
			{Do: sim.Outage, Kind: "token", N: 3}, poll(), poll(), poll(),
		},
	},
	{
		name: "a message of an unproven peer is not relayed",
		step: []sim.Step{
			{Do: sim.Message, Kind: "whisper", Wish: "answer"},
			{Do: sim.Message, Kind: "relay", Wish: "answer"}, poll(),
		},
	},
	{
		name: "a row with a time is looked at in its minute, also in IDLE",
		must: "an alarm line fired",
		step: []sim.Step{
			wait(4*time.Minute + 20*time.Second),
			message("answer"), poll(fail("mesh POST message")),
			{Do: sim.Transition, Kind: "IDLE"}, poll(fail("mesh POST message")),
			poll(fail("mesh POST message")),
			wait(40 * time.Minute),
		},
	},
	{
		name: "an alarm line is set by whatever process creates the row, and races others",
		must: "an alarm line fired",
		step: []sim.Step{
			wait(4 * time.Minute),
			message("answer"),
			poll(meanwhile("agent work", sim.Step{Do: sim.Transition, Kind: "IDLE"}), fail("mesh POST message")),
			poll(lost("mesh POST message")),
			poll(fail("mesh POST message")),
			{Do: sim.Edit, Kind: "alter"}, poll(fail("mesh POST message")),
			wait(5*time.Minute, meanwhile("mesh GET mailbox", poll(fail("mesh POST message")))),
			{Do: sim.Edit, Kind: "double"}, wait(40 * time.Minute),
		},
	},
	{
		name: "a HALT during a cycle holds the turn until GO",
		must: "interleaved: halt",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "new", Wish: "answer"},
			{Do: sim.Poll, Faults: []sim.Fault{{Site: "smtp dot", What: sim.Meanwhile, Then: &sim.Step{Do: sim.Halt}}}},
			{Do: sim.Poll},
			{Do: sim.Go},
		},
	},
	{
		name: "people and programs act while a turn works",
		step: []sim.Step{
			{Do: sim.Mail, Kind: "auto", Wish: "answer"}, mail("ask"), poll(),
			mail("answer"), poll(meanwhile("agent work", sim.Step{Do: sim.Release, Kind: "release"})),
			mail("answer"), poll(meanwhile("agent work", sim.Step{Do: sim.Report, Kind: "answer"})),
			mail("answer"), poll(meanwhile("agent work", tell("answer"))),
			mail("answer"), poll(meanwhile("agent work", message("answer"))),
			mail("answer"), poll(meanwhile("agent work", sim.Step{Do: sim.Event, Kind: "file", Wish: "answer"})),
			mail("answer"), poll(meanwhile("agent work", sim.Step{Do: sim.Nudge, Kind: "file"})),
			mail("answer"), poll(meanwhile("agent work", sim.Step{Do: sim.Turns})),
			poll(),
		},
	},
	{
		name: "a state file that a person damages is repaired",
		step: []sim.Step{
			mail("answer"), poll(),
			{Do: sim.Damage, Kind: "cut"}, mail("answer"), poll(),
			{Do: sim.Damage, Kind: "empty"}, mail("answer"), poll(),
			{Do: sim.Damage, Kind: "delete-prev"}, mail("answer"), poll(),
			{Do: sim.Damage, Kind: "cut-both"}, mail("answer"), poll(),
		},
	},
	{
		name: "a crontab that was torn is restored",
		must: "a torn crontab was restored",
		step: []sim.Step{
			{Do: sim.Outage, Kind: "crontab-torn"}, mail("answer"), poll(), poll(),
		},
	},
	{
		name: "a nudge of another agent in IDLE is acknowledged",
		must: "a nudge of another agent was acknowledged",
		step: []sim.Step{
			poll(), {Do: sim.Nudge, Kind: "mesh"}, poll(),
		},
	},
	{
		name: "STOP reaches a running turn",
		must: "a running turn was stopped",
		step: []sim.Step{
			mail("answer"), poll(meanwhile("agent work", sim.Step{Do: sim.Stop})),
		},
	},
}

// mustPlay plays a story that must break no promise, and in which an event must happen, unless it is
// "".
func mustPlay(t *testing.T, s sim.Story, event string) sim.Outcome {
	t.Helper()
	out := play(t, s)
	if out.Broken != nil {
		t.Fatalf("seed %d: %v\n%s", s.Seed, out.Broken, strings.Join(out.Log, "\n"))
	}
	if event != "" && out.Counts.Sometimes[event] == 0 {
		t.Errorf("seed %d: this did not happen: %s\n%s", s.Seed, event, strings.Join(out.Log, "\n"))
	}
	return out
}

// rare are the events that chance reaches too seldom, which the scenarios must reach together.
var rare = []string{
	"a day ended in the middle of a turn",
	"a day's budget was used up",
	"a late report had a turn of its own",
	"a message was published again over NATS",
	"a nudge of another agent was acknowledged",
	"a report came twice",
	"a report was late",
	"a runner died and left an agent",
	"a search found what was answered",
	"a token released a mail",
	"a torn crontab was restored",
	"an answer of the operator was handed over",
	"an effect was sent twice",
	"an outage had to be reported to the operator",
	"damaged: cut",
	"damaged: cut-both",
	"damaged: delete",
	"damaged: delete-both",
	"damaged: delete-prev",
	"damaged: empty",
	"interleaved: event",
	"interleaved: mail",
	"interleaved: message",
	"interleaved: nudge",
	"interleaved: poll",
	"interleaved: release",
	"interleaved: report",
	"interleaved: ring",
	"interleaved: stop",
	"interleaved: tell",
	"interleaved: transition",
	"interleaved: turns",
	"the end of an outage had to be reported to the operator",
}

func TestScenarios(t *testing.T) {
	var mu sync.Mutex
	var counts sim.Counts
	played := 0
	all := slices.Concat(scenarios, selfTurns, hookStories, unrulyServers, outside, questions, bursts, natsStories)
	t.Cleanup(func() {
		if played < len(all) {
			return // -run chose some of them, or one failed
		}
		for _, event := range rare {
			if counts.Sometimes[event] == 0 {
				t.Errorf("in no scenario this happened: %s", event)
			}
		}
	})
	for _, s := range all {
		t.Run(strings.ReplaceAll(s.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := range *lives {
				out := mustPlay(t, sim.Story{Seed: seed, Steps: s.step, Carrier: s.over}, s.must)
				mu.Lock()
				counts.Add(out.Counts)
				mu.Unlock()
			}
			mu.Lock()
			played++
			mu.Unlock()
		})
	}
}

// regressions are seeds that once found a bug, with the bug. They are still played
// although a change of the generator may have changed their stories.
var regressions = map[int64]string{
	4:     "an attempt's folder was not durable",
	507:   "a turn ended twice: the line with its end was torn, and the state deleted",
	10538: "a serial was used twice: the rename was not durable, but the history was",
	12013: "history lines that a dead process left were assumed to be durable, and lost",
	12311: "the same with a transition",
	60206: "a submit to a suspended turn was accepted, and its answer was lost",
	20342: "two detached polls counted as one (a bug of the simulator)",

	7000563: "the history had a turn of the new day before the tier in which it was dispatched",
	7001740: "the same with another budget",
	7009965: "setting the clock back changed the begin of an outage (a bug of the simulator)",
	8100114: "a reset came between the dispatch of a turn and its agent (a bug of the checker)",

	777075: "a nudge was fsynced in nudges/, whose own name was not fsynced",

	266:      "a mail was not tried again in its minute, because the clock was set back",
	494:      "an answer to two mails could not be delivered, and counted for one (a bug of the checker)",
	99000284: "what the agent had planned was to wait for a word, and not for cron (a bug of the checker)",
	97003311: "a reminder that was set after a reset was told what its turn had said earlier",
	97000339: "a late report of a damaged message was told as a message of which nothing was done",
}

// All of them are played where all that is real is required, else every fourth.
func TestRegressions(t *testing.T) {
	for i, seed := range slices.Sorted(maps.Keys(regressions)) {
		if i%int(part(1, 4)) != 0 {
			continue
		}
		was := regressions[seed]
		story := sim.MakeOver("", seed, 30)
		story.AckAfter, story.Prompts = 0, nil // as it was
		out := play(t, story)
		if out.Broken != nil {
			t.Errorf("seed %d: %v (once: %s)\n%s", seed, out.Broken, was, strings.Join(out.Log, "\n"))
		}
	}
}
