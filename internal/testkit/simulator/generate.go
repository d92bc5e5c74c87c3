package simulator

import (
	"math/rand/v2"
	"time"
)

// Make returns the story of a seed, with the given number of steps. The same seed
// and number always make the same story.
func Make(seed int64, steps int) Story { return MakeOver(CarrierOf(seed), seed, steps) }

// MakeOver is Make with a carrier for the mesh: OverNATS, or "" for HTTP.
func MakeOver(carrier string, seed int64, steps int) Story {
	g := newGenerator(seed, 0)
	s := Story{Seed: seed}
	for range steps {
		s.Steps = append(s.Steps, g.step())
	}
	s.AckAfter = ackAfter(seed)
	s.ByThread, s.Copies = seed%3 == 0, seed%2 == 0
	s.Prompts = clockPrompts(seed)
	s.Steps = asking(seed, s.Steps)
	withOutages(seed, &s)
	if s.Carrier = carrier; carrier == OverNATS {
		s.Steps = overNATS(seed, s.Steps)
	}
	return s
}

// ackAfter returns how long acks wait in the story of a seed.
func ackAfter(seed int64) time.Duration {
	return pickWeighted(newGenerator(seed, 2), weighted[time.Duration]{{4, 0}, {1, 10 * time.Second}, {1, 45 * time.Second}, {1, 90 * time.Second}, {1, 4 * time.Minute}})
}

type generator struct{ *rand.Rand }

// newGenerator returns the random numbers of a seed for one part of its story. Each part has its
// own, so that the other parts stay the same when one is changed.
func newGenerator(seed int64, part uint64) generator {
	return generator{rand.New(rand.NewPCG(uint64(seed), part))}
}

// weighted is a list of things with the weight of each.
type weighted[T any] []struct {
	weight int
	thing  T
}

func pickWeighted[T any](g generator, list weighted[T]) T {
	sum := 0
	for _, e := range list {
		sum += e.weight
	}
	n := g.IntN(sum)
	for _, e := range list {
		if n -= e.weight; n < 0 {
			return e.thing
		}
	}
	panic("unreachable")
}

func pickOne[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

// chance reports true once in n times.
func (g generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g generator) step() Step {
	do := pickWeighted(g, weighted[Deed]{
		{34, Wait}, {6, Poll}, {3, Turns}, {5, Tell}, {4, Ring}, {1, Halt}, {2, Go}, {2, Stop}, {2, Transition}, {4, Release}, {3, TopUp}, {2, Reset},
		{4, Reply}, {20, Mail}, {9, Message}, {4, Nudge}, {3, Event}, {6, Report}, {2, Late},
		{1, Clock}, {2, Read}, {1, Renumber}, {2, Edit}, {3, Damage}, {7, Outage}, {2, Hook}, {1, MeshHalt},
		{1, Expunge}, {1, Rate}, {2, Outbox}, {2, Junk}, {2, Return},
		{5, Outside}, {1, Collect}, {2, Burst},
	})
	s := g.detail(Step{Do: do, N: g.IntN(100)})
	switch do {
	case Wait, Poll, Turns, Tell, Ring, Halt, Go, Stop, Transition, TopUp, Reset, Release, Outbox, Late, Event, Outside:
		s.Faults = g.faults(2)
	}
	if s.Wish != "" && g.chance(4) {
		s.Inside = g.faults(1)
	}
	return s
}

// detail fills in the fields that the deed of a step needs.
func (g generator) detail(s Step) Step {
	switch s.Do {
	case Wait:
		s.For = pickWeighted(g, weighted[time.Duration]{
			{6, time.Minute}, {3, 2 * time.Minute}, {2, 5 * time.Minute}, {2, 11 * time.Minute}, {4, 30 * time.Minute},
			{1, time.Hour}, {1, 6 * time.Hour},
		}) + time.Duration(g.IntN(60))*time.Second
	case Tell:
		s.Wish = pickOne(g, wishes...)
	case Transition:
		s.Kind = pickOne(g, "IDLE", "PREP", "ACTIVE")
	case Release:
		s.Kind = pickOne(g, "release", "release", "release", "drop")
	case Outbox:
		s.Kind = pickOne(g, "retry", "retry", "drop")
	case Mail:
		s.Kind = pickWeighted(g, weighted[string]{
			{16, "new"}, {3, "shout"}, {5, "reply"}, {3, "twice"}, {2, "html"}, {1, "broken"}, {2, "other"}, {1, "nobody"},
			{4, "unproved"}, {1, "smuggled"}, {1, "mimic"}, {2, "bent"}, {1, "opened"}, {3, "doubtful"}, {1, "topped"}, {1, "forged"}, {1, "display"}, {1, "twofrom"}, {1, "auto"}, {1, "cron"}, {1, "wide"}, {1, "WIDE"}, {1, "list"}, {1, "bounce"}, {1, "echo"},
			{2, "STOP"}, {1, "HALT"}, {2, "GO"}, {1, "STATUS"},
		})
		s.Wish = pickOne(g, wishes...)
		if g.chance(6) {
			s.Ill = pickOne(g, "head ", "body ") + pickOne(g, ills...)
			s.For = pickOne(g, 90*time.Second, 4*time.Minute, 20*time.Minute, 3*time.Hour, 26*time.Hour, 60*time.Hour)
		}
	case Reply:
		s.Kind = pickWeighted(g, weighted[string]{{4, "yes"}, {3, "talk"}, {1, "guess"}, {1, "auto"}, {1, "forward"}})
	case Message:
		s.Kind = pickWeighted(g, weighted[string]{
			{6, "message"}, {4, "ask"}, {1, "form"}, {2, "again"}, {2, "loop"}, {2, "stranger"}, {1, "notice"}, {2, "relay"}, {1, "whisper"}, {1, "self"},
		})
		s.Wish = pickOne(g, wishes...)
	case Nudge:
		s.Kind = pickOne(g, "file", "mesh", "sister", "stranger", "file", "mesh", "self", "stranger")
	case Event:
		s.Kind = pickOne(g, "file", "file", "post", "mail")
		s.Wish = pickOne(g, wishes...)
	case Hook:
		s.Kind = pickOne(g, hookModes...)
	case Report:
		s.Kind = pickWeighted(g, weighted[string]{{6, "answer"}, {2, "twice"}, {1, "unknown"}, {1, "stranger"}})
	case Late:
		s.Kind = pickOne(g, "submit", "ask", "send", "remember", "suspend")
	case Outside:
		s.Kind = pickWeighted(g, weighted[string]{{8, "local"}, {3, "mesh"}, {1, "other"}, {1, "unknown"}})
	case Collect:
		s.For = pickOne(g, 0, 40*time.Second, 2*time.Minute, 5*time.Minute)
	case Burst:
		s.Kind = pickOne(g, "mail", "mail", "tell", "message", "mixed")
		s.Wish = pickOne(g, wishes...)
	case Clock:
		s.For = pickOne(g, time.Hour, -time.Hour, 26*time.Hour, -26*time.Hour, 7*time.Minute, -7*time.Minute)
	case Edit:
		s.Kind = pickOne(g, sortedKeys(edits)...)
	case Damage:
		s.Kind = pickWeighted(g, weighted[string]{
			{1, "delete"}, {1, "delete-both"}, {1, "delete-prev"}, {1, "cut"}, {1, "cut-both"}, {1, "empty"}, {3, "cursor"},
			{2, "payload-zero"}, {2, "payload-cut"}, {2, "payload-flip"}, {1, "payload-empty"}, {2, "payload-remove"},
		})
	case Outage:
		s.Kind = pickOne(g, "imap", "smtp", "http", "password", "imap-password", "smtp-password", "token", "token", "crontab-deaf", "crontab-mute", "crontab-torn", "crontab-fine", "crontab-fine",
			"imap-hollow", "imap-sparse", "imap-blank", "imap-stale", "smtp-451", "smtp-451", "smtp-550", "smtp-554")
		s.N = g.IntN(8)
	case Rate:
		s.N = 1 + g.IntN(5)
	case Junk:
		s.Kind = pickOne(g, sortedKeys(junk)...)
	case Return:
		s.Kind = pickOne(g, returned...)
	case MeshHalt:
		s.Kind = pickOne(g, "on", "off", "off")
	}
	return s
}

// faults returns the faults that strike one process; half of the processes have no fault.
func (g generator) faults(deep int) []Fault {
	var list []Fault
	for g.chance(2) {
		list = append(list, g.fault(deep))
	}
	return list
}

// sites are the points around which most can go wrong.
var sites = []string{
	"agent start", "agent work", "agent work", "agent work", "agent end", "agent end", "smtp dot", "smtp dot", "smtp RCPT",
	"mesh POST message", "mesh POST message", "mesh DELETE mailbox", "imap STORE", "imap STORE", "imap FETCH body", "append history", "fsync history",
	"rename state.json", "link state.json.prev", "fsyncdir .", "done state.json", "fsync turns/*/deliverable.tmp",
	"rename turns/*/submitted", "rename outbox/reply", "rename outbox/ack", "rename outbox/ask", "remove nudges/*",
	"remove nudges/*.json", "remove nudges/*.message", "hook call", "hook call", "hook answer", "rename messages/*.eml", "rename messages/*.json", "rename messages/*.txt", "rename nudges/*.json",
	"rename state.json.corrupt", "rename memory.md", "rename memory.md.prev",
}

// others are points that chance alone reaches too rarely.
var others = []string{
	"write outbox/reply.tmp", "fsync outbox/reply.tmp", "write outbox/ask.tmp", "write outbox/ack.tmp", "write outbox/quiet.tmp",
	"write outbox/answer.tmp", "write outbox/notice.tmp", "write outbox/alarm.tmp", "write outbox/challenge.tmp", "rename outbox/quiet",
	"rename outbox/answer", "rename outbox/notice", "rename outbox/alarm", "rename outbox/relay", "rename outbox/relayed",
	"rename outbox/challenge", "write outbox/hook.tmp", "rename outbox/hook", "rename outbox/send", "remove outbox/*", "write turns/*/deliverable.tmp", "rename turns/*/deliverable",
	"write turns/*/submitted.tmp", "fsync turns/*/submitted.tmp", "fsyncdir turns", "fsyncdir turns/*", "fsyncdir turns/*/output",
	"write messages/*.eml.tmp", "write messages/*.json.tmp", "fsync messages/*.json.tmp", "fsyncdir messages", "fsyncdir outbox",
	"fsyncdir nudges", "write nudges/*.json.tmp", "fsyncdir quarantine", "fsyncdir quarantine/*", "write quarantine/*.eml.tmp",
	"rename quarantine/*.eml", "fsync quarantine/*.json.tmp", "rename quarantine/*.json", "remove quarantine/*", "smtp EHLO",
	"smtp AUTH", "smtp MAIL", "smtp DATA", "mesh PUT registry", "mesh GET registry", "imap SEARCH", "imap FETCH headers",
}

func (g generator) fault(deep int) Fault {
	f := Fault{Lane: pickWeighted(g, weighted[Lane]{{6, Main}, {2, ByMail}, {1, ByMesh}})}
	switch f.Lane { // most polls are short, some are long
	case Main:
		f.At = g.IntN(pickWeighted(g, weighted[int]{{4, 9}, {4, 25}, {3, 100}}))
	case ByMail:
		f.At = g.IntN(pickWeighted(g, weighted[int]{{3, 3}, {2, 9}}))
	case ByMesh:
		f.At = g.IntN(pickWeighted(g, weighted[int]{{2, 1}, {2, 5}}))
	}
	if list := pickOne(g, nil, nil, sites, sites, others); list != nil {
		f.Site, f.At = pickOne(g, list...), g.IntN(pickWeighted(g, weighted[int]{{3, 1}, {2, 3}, {1, 8}}))
	}
	f.What = pickWeighted(g, weighted[What]{
		{24, Crash}, {8, CrashLate}, {10, Power}, {10, Fail}, {10, Lost}, {4, Half}, {1, Stall}, {3, Cut}, {3, Twice}, {4, ReadOnly}, {20, Meanwhile},
	})
	if f.What == Meanwhile {
		if deep == 0 {
			f.What = Crash
			return f
		}
		then := g.meanwhile(deep - 1)
		f.Then = &then
		switch {
		case then.Do == Ring && !g.chance(4): // while an answer is being sent: no further poll follows by itself
			f.Site, f.At = "smtp dot", g.IntN(3)
		case then.Do == Stop && g.chance(2):
			f.Site, f.At = "agent work", g.IntN(2)
		}
	}
	return f
}

// meanwhile returns a step that can happen while a process is working.
func (g generator) meanwhile(deep int) Step {
	do := pickWeighted(g, weighted[Deed]{
		{6, Poll}, {3, Turns}, {3, Tell}, {10, Ring}, {1, Halt}, {2, Go}, {3, Stop}, {2, Transition}, {2, Release}, {1, Reset},
		{5, Mail}, {1, Reply}, {3, Message}, {3, Nudge}, {2, Event}, {2, Report}, {1, Read}, {1, MeshHalt},
		{2, Outside}, {1, Burst},
	})
	s := g.detail(Step{Do: do, N: g.IntN(100)})
	switch do {
	case Poll, Turns, Tell, Ring, Stop, Reset, Release, Event, Outside:
		s.Faults = g.faults(deep)
	}
	return s
}
