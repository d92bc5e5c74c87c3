package commands

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// told is the sentence that the history prints for a line. It quotes the first words of a
// message, if there is one. The zero told hides the line.
type told struct {
	text   string
	quote  *state.Message
	within bool // the quote is part of the sentence, without a colon in front
	after  string
}

// sentenceOf returns a sentence without a quote, on one line.
func sentenceOf(parts ...string) told { return told{text: plain.Line(strings.Join(parts, ""))} }

// tell makes the sentence for a line. nil hides the line: another line describes it, or only a
// reader of every line needs it.
type tell func(b *book, l state.Line) told

// anyWhat is the entry of a kind whose lines record foreign words, or share one sentence for
// every record.
const anyWhat = "*"

// tellings maps each kind of line and its record to a tell. TestEachLineIsDecided fails if one
// is missing. The map is built on first use.
var tellings = sync.OnceValue(func() map[state.LineKind]map[string]tell {
	return map[state.LineKind]map[string]tell{
		state.LineMessage:    {"": (*book).message, "retried": (*book).retried, "report": nil},
		state.LineDuplicate:  {"": nil},
		state.LineGate:       {"": (*book).quarantined, "to be asked about": (*book).quarantined, "signed, in doubt": (*book).quarantined, "not kept": (*book).notKept, "a copy": nil},
		state.LineQuarantine: {"released": (*book).leftQuarantine, "dropped": (*book).leftQuarantine},
		state.LineChallenge:  {"made": (*book).challenged, "answered": say("you answered whether a mail was yours"), "expired": (*book).unanswered, "spoiled": nil},
		state.LineNudge:      {"": (*book).nudged},
		state.LineNote:       {"relay": (*book).relayed, anyWhat: nil},
		state.LineTransition: {"": (*book).phase},
		state.LineTurn: {
			state.TurnPermitted: withReason("did what you had permitted"),
			"not permitted":     withReason("the agent was not permitted something"),
			"fresh session":     say("its session could not go on, so a fresh one began"),
			"stop":              (*book).stopped, "reaped": (*book).reaped, "given back": (*book).givenBack, "dispatched": nil, "running": (*book).runs, "suspended": nil,
			"submitted": nil, "exited": nil, "finished": nil, "refused": nil, "stale": nil,
		},
		state.LineTask:       {"": (*book).task},
		state.LineEnded:      {"skipped": (*book).ended, "error": (*book).ended},
		state.LineEffect:     {"queued": (*book).wrote, "rendered again": nil},
		state.LineDelivery:   {"undeliverable": (*book).givenUp, "dropped": (*book).notSent, "not filed": (*book).notFiled, "expired": nil, "sent": nil, "unknown": nil, "overtaken": nil, "withdrawn": nil, "refused": nil, "lost": nil},
		state.LineCredential: {"failed": (*book).refused, "recovered": (*book).works, "blocker": nil, "blocker over": nil},
		state.LineBackend:    {"out": (*book).backendOut, "works": (*book).backendWorks},
		state.LineHalt:       {"halt": (*book).halted, "go": (*book).halted},
		state.LineControl:    {anyWhat: (*book).control},
		state.LineReset:      {"": (*book).reset},
		state.LineMemory:     {"": (*book).remembered},
		state.LineCompaction: {"made": say("a summary stands for what was said so far"), state.CompactionFailed: withReason("could not sum up what was said"), "stale": nil},
		state.LinePrompt:     {"missed": (*book).promptMissed, "skipped": (*book).promptSkipped, "failed": (*book).promptFailed, "next": nil, "removed": nil},
		state.LineSleep:      {"asked": (*book).sleeps, "held": (*book).selfHeld, "retried": nil, "over": nil, "asleep": nil},
		state.LineEdge: {
			"await": (*book).awaits, "report": (*book).reported, "enqueue": nil, "join": nil, "withdrawn": nil, "expected": nil, "lapsed": (*book).lapsed,
		},
		state.LineSchedule: {anyWhat: (*book).schedule},
		state.LineRecovery: {"": withReason("state restored")},
		state.LineSpend:    {"": nil},
		state.LineAck:      {"waits": nil, "not needed": nil},
		state.LineCredit:   {"opened": (*book).credit, "topped up": (*book).credit},
		state.LineTier:     {anyWhat: (*book).tier},
		state.LineFetch:    {"failing": (*book).unfetched, "still failing": (*book).unfetched, "ended": (*book).unfetched},
		state.LineSweep:    {"": withReason("a mail had been missed")},
		state.LineDamage:   {"damaged": (*book).damaged, "mended": (*book).damaged, "not there": nil},
		state.LineBounce:   {"lost": (*book).cameBack, "delayed": (*book).cameBack, "told": nil},
		state.LineNumber:   {"": nil},
		state.LineGivenUp:  {"retried": say("what was given up is sent again"), "dropped": (*book).notSent, "forgotten": nil},
		state.LineSending:  {"failed": withReason("no mail can be sent"), "works again": say("mail can be sent again"), "nothing waits": nil},
	}
})

// tellingOf returns the tell for a line. ok is false for an unknown line, from a newer version.
func tellingOf(l state.Line) (t tell, ok bool) {
	whats := tellings()[l.Kind]
	if t, ok = whats[l.What]; !ok {
		t, ok = whats[anyWhat]
	}
	return t, ok
}

// say returns a tell with the same sentence for each line.
func say(text string) tell { return func(*book, state.Line) told { return told{text: text} } }

// withReason returns a tell with the same sentence and the reason of the line.
func withReason(text string) tell {
	return func(_ *book, l state.Line) told { return sentenceOf(text, because(l.Reason)) }
}

// book holds the facts from the lines so far that later sentences need.
type book struct {
	now     time.Time
	costs   map[string]state.Micros  // of unfinished turns
	numbers map[string]string        // of items in quarantine and unfetched mails, by key
	rows    map[string]state.Message // messages that are still in the inbox, by key
}

func newBook(now time.Time) *book {
	return &book{now: now, costs: map[string]state.Micros{}, numbers: map[string]string{}, rows: map[string]state.Message{}}
}

// note records a line, and returns its sentence.
func (b *book) note(l state.Line) told {
	switch {
	case l.Kind == state.LineSpend && l.Spending != nil && l.TurnID != "":
		b.costs[l.TurnID] += l.Spending.Cost
	case l.Kind == state.LineGate && l.Number > 0:
		b.numbers[l.Key] = "q" + strconv.FormatUint(l.Number, 10)
	case l.Kind == state.LineNumber:
		b.numbers[l.Key] = "f" + strconv.FormatUint(l.Number, 10)
	case l.Kind == state.LineMessage && l.Message != nil:
		b.rows[l.Key] = *l.Message
	}
	t, ok := tellingOf(l)
	if !ok { // from a newer version: print the raw line
		return sentenceOf(lineWords(l, b.now))
	}
	var what told
	if t != nil {
		what = t(b, l)
		what.text, what.after = b.localTimes(what.text, l.At), b.localTimes(what.after, l.At)
	}
	switch l.Kind {
	case state.LineTask:
		delete(b.costs, l.TurnID)
		delete(b.rows, l.Key)
	case state.LineEnded:
		delete(b.rows, l.Key)
	}
	return what
}

// called returns the number of a key that a person knows, or else fallback.
func (b *book) called(key, fallback string) string { return cmp.Or(b.numbers[key], fallback) }

// clock formats a time. It adds the date if that differs from the line's.
func (b *book) clock(t, at time.Time) string {
	if t.Local().Format(time.DateOnly) == at.Local().Format(time.DateOnly) {
		return t.Local().Format("15:04")
	}
	return t.Local().Format("2006-01-02 15:04")
}

// moments matches the times of UTC in a reason.
var moments = lazy.NewRegexp(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC)`)

// localTimes converts the UTC times in a text to the user's time zone, which all times of the
// history use.
func (b *book) localTimes(text string, at time.Time) string {
	if !strings.Contains(text, ":") {
		return text
	}
	return moments.Get().ReplaceAllStringFunc(text, func(moment string) string {
		bare := strings.TrimSuffix(strings.TrimSuffix(moment, " UTC"), "Z")
		for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
			if t, err := time.Parse(layout, bare); err == nil {
				return b.clock(t, at)
			}
		}
		return moment
	})
}

// tookFor formats a duration: "4 s", "1h30m".
func tookFor(d time.Duration) string {
	if d < time.Minute {
		return strconv.Itoa(int(max(0, d).Round(time.Second)/time.Second)) + " s"
	}
	return terminal.Short(d)
}
