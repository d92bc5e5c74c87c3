package present

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

// sentence is the sentence that the history prints for a line. It quotes the first words of a
// message, if there is one. The zero sentence hides the line.
type sentence struct {
	text   string
	quote  *state.Message
	within bool // the quote is part of the sentence, without a colon in front
	after  string
}

// sentenceOf returns a sentence without a quote, on one line.
func sentenceOf(parts ...string) sentence { return sentence{text: plain.Line(strings.Join(parts, ""))} }

// formatter makes the sentence for a line. nil hides the line: another line describes it, or only a
// reader of every line needs it.
type formatter func(r *HistoryReader, l state.Line) sentence

// anyRecord is the entry of a kind whose lines record foreign words, or share one sentence for
// every record.
const anyRecord state.Word = "*"

// formatters maps each kind of line and its record to a formatter. TestEveryLineHasAFormatter fails if
// one is missing. The map is built on first use.
var formatters = sync.OnceValue(func() map[state.LineKind]map[state.Word]formatter {
	return map[state.LineKind]map[state.Word]formatter{
		state.LineMessage:    {"": (*HistoryReader).message, state.WordRetried: (*HistoryReader).retried, state.WordReport: nil},
		state.LineDuplicate:  {"": nil},
		state.LineGate:       {"": (*HistoryReader).quarantined, state.WordToAsk: (*HistoryReader).quarantined, state.WordDoubtful: (*HistoryReader).quarantined, state.WordNotKept: (*HistoryReader).rejected, state.WordCopy: nil},
		state.LineQuarantine: {state.WordReleased: (*HistoryReader).leftQuarantine, state.WordDropped: (*HistoryReader).leftQuarantine},
		state.LineChallenge:  {state.WordMade: (*HistoryReader).challenged, state.WordAnswered: fixedSentence("you answered whether you wrote a mail"), state.WordExpired: (*HistoryReader).unanswered, state.WordSpoiled: nil},
		state.LineNudge:      {"": (*HistoryReader).nudged},
		state.LineNote:       {state.WordRelay: (*HistoryReader).relayed, state.WordRetried: (*HistoryReader).retriedOnPage, anyRecord: nil},
		state.LineTransition: {"": (*HistoryReader).phase},
		state.LineTurn: {
			state.WordPermitted:    withReason("did what you permitted"),
			state.WordNotPermitted: withReason("the agent was denied permission"),
			state.WordFreshSession: fixedSentence("its session could not continue, so a new one began"),
			state.WordStop:         withReason("its turn was stopped"), state.WordReaped: (*HistoryReader).reaped, state.WordGivenBack: withReason("its turn could not run and is retried"), state.WordDispatched: nil, state.WordRunning: (*HistoryReader).turnRuns, state.WordSuspended: nil,
			state.WordSubmitted: nil, state.WordExited: nil, state.WordFinished: nil, state.WordRefused: nil, state.WordStale: nil,
		},
		state.LineTask:       {"": (*HistoryReader).task},
		state.LineEnded:      {state.Word(state.Skipped): (*HistoryReader).ended, state.Word(state.Errored): (*HistoryReader).ended},
		state.LineEffect:     {state.WordQueued: (*HistoryReader).queued, state.WordRenderedAgain: nil},
		state.LineDelivery:   {state.WordUndeliverable: (*HistoryReader).undeliverable, state.WordDropped: (*HistoryReader).deliveryDropped, state.WordNotFiled: (*HistoryReader).notFiled, state.WordExpired: nil, state.WordSent: nil, state.WordUnknown: nil, state.WordOvertaken: nil, state.WordWithdrawn: nil, state.WordRefused: nil, state.WordLost: nil},
		state.LineCredential: {state.WordFailed: (*HistoryReader).loginRefused, state.WordRecovered: (*HistoryReader).loginWorks, state.WordBlocker: nil, state.WordBlockerOver: nil},
		state.LineBackend:    {state.WordOut: (*HistoryReader).backendOut, state.WordWorks: (*HistoryReader).backendWorks},
		state.LineHalt:       {state.WordHalt: (*HistoryReader).halted, state.WordGo: (*HistoryReader).halted},
		state.LineControl:    {anyRecord: (*HistoryReader).control},
		state.LineReset:      {"": (*HistoryReader).reset},
		state.LineMemory:     {"": (*HistoryReader).remembered},
		state.LineCompaction: {state.WordMade: fixedSentence("a summary replaced the conversation"), state.WordNoSummary: withReason("the conversation could not be summarized"), state.WordStale: nil},
		state.LinePrompt:     {state.WordMissed: promptSentence("was missed"), state.WordSkipped: promptSentence("was not needed"), state.WordFailed: promptSentence("did not run"), state.WordNext: nil, state.WordRemoved: nil},
		state.LineSleep:      {state.WordAsked: (*HistoryReader).restAsked, state.WordHeld: (*HistoryReader).wakeupsHeld, state.WordRetried: (*HistoryReader).retriedOnPage, state.WordOver: nil, state.WordAsleep: nil},
		state.LineEdge: {
			state.WordAwait: (*HistoryReader).reportAwaited, state.WordReport: (*HistoryReader).reported, state.WordEnqueue: nil, state.WordJoin: nil, state.WordWithdrawn: nil, state.WordExpected: nil, state.WordLapsed: (*HistoryReader).reportMissing,
		},
		state.LineSchedule: {anyRecord: (*HistoryReader).schedule},
		state.LineRecovery: {
			"": withReason("state restored"), state.WordRestored: (*HistoryReader).restored, state.WordRestoredRead: withReason("the restored mailbox was read"),
			state.WordMoved: (*HistoryReader).moved, state.WordMovedBack: fixedSentence("the agent works here again"),
			state.WordTookSeat:    withReason("another host took the seat"),
			state.WordTwoMachines: withReason("TWO MACHINES work as this agent"), state.WordOneMachine: withReason("one machine works as this agent again"),
		},
		state.LineSpend:   {"": nil},
		state.LineAck:     {state.WordWaits: nil, state.WordNotNeeded: nil},
		state.LineCredit:  {state.WordOpened: (*HistoryReader).credit, state.WordToppedUp: (*HistoryReader).credit},
		state.LineTier:    {anyRecord: (*HistoryReader).tier},
		state.LineFetch:   {state.WordFailing: (*HistoryReader).unfetched, state.WordStillFailing: (*HistoryReader).unfetched, state.WordEnded: (*HistoryReader).unfetched},
		state.LineSweep:   {"": withReason("a missed mail was found")},
		state.LineDamage:  {state.WordDamaged: (*HistoryReader).damaged, state.WordMended: (*HistoryReader).damaged, state.WordMissing: nil},
		state.LineBounce:  {state.WordLost: (*HistoryReader).returned, state.WordDelayed: (*HistoryReader).returned, state.WordTold: nil},
		state.LineNumber:  {"": nil},
		state.LineGivenUp: {state.WordRetried: fixedSentence("a failed message is sent again"), state.WordDropped: (*HistoryReader).deliveryDropped, state.WordSent: withReason("a message was sent before the restore"), state.WordForgotten: nil},
		state.LineSending: {state.WordFailed: withReason("no mail can be sent"), state.WordWorksAgain: fixedSentence("mail can be sent again"), state.WordNothingWaits: nil},
	}
})

// formatterOf returns the formatter for a line. ok is false for an unknown line, from a newer
// version.
func formatterOf(l state.Line) (t formatter, ok bool) {
	whats := formatters()[l.Kind]
	if t, ok = whats[l.What]; !ok {
		t, ok = whats[anyRecord]
	}
	return t, ok
}

// fixedSentence returns a formatter with the same sentence for each line.
func fixedSentence(text string) formatter {
	return func(*HistoryReader, state.Line) sentence { return sentence{text: text} }
}

// withReason returns a formatter with the same sentence and the reason of the line.
func withReason(text string) formatter {
	return func(_ *HistoryReader, l state.Line) sentence { return sentenceOf(text, reasonSuffix(l.Reason)) }
}

// promptSentence returns a formatter with the same sentence about each prompt.
func promptSentence(text string) formatter {
	return func(_ *HistoryReader, l state.Line) sentence {
		return sentenceOf("the prompt ", l.From, " ", text, reasonSuffix(l.Reason))
	}
}

// HistoryReader turns the lines of a history into sentences, in the order of the history.
type HistoryReader struct {
	now     time.Time
	fitter  Fitter
	words   func(state.Message) (string, bool)
	costs   map[string]state.Micros  // of unfinished turns
	numbers map[string]string        // of items in quarantine and unfetched mails, by key
	rows    map[string]state.Message // messages that are still in the inbox, by key
	day     time.Time                // day of the lines formatted so far
}

// NewHistoryReader returns a reader before the first line. words returns the first words of a
// message, and false once they are not kept.
func NewHistoryReader(now time.Time, fitter Fitter, words func(state.Message) (string, bool)) *HistoryReader {
	return &HistoryReader{
		now: now, day: now, fitter: fitter, words: words,
		costs: map[string]state.Micros{}, numbers: map[string]string{}, rows: map[string]state.Message{},
	}
}

// Line records a line and returns a function for its text, or nil if the line is hidden. The text
// ends with a newline, and a new day has a line of its own before it. The function asks for the
// words of the line's message only when it is called.
func (r *HistoryReader) Line(l state.Line) func() string {
	what := r.record(l)
	if what.text == "" {
		return nil
	}
	return func() string {
		text := r.fitter.Fit(l.At.Local().Format("15:04")+" "+r.quote(what), len("15:04 ")) + "\n"
		if day := l.At.Local(); day.Format(time.DateOnly) != r.day.Local().Format(time.DateOnly) {
			r.day = l.At
			text = day.Format("Monday, 2006-01-02") + "\n" + text
		}
		return text
	}
}

// quote returns a sentence with the words of its message.
func (r *HistoryReader) quote(what sentence) string {
	text, words := r.apart(what)
	switch {
	case words == "":
		return text
	case what.within:
		return what.text + " " + inQuotes(words) + what.after
	}
	return what.text + ": " + inQuotes(words) + what.after
}

// apart returns a sentence without the words of its message, and these words, or "" without any.
func (r *HistoryReader) apart(what sentence) (text, words string) {
	if what.quote == nil {
		return what.text, ""
	}
	words, ok := r.words(*what.quote)
	switch {
	case words != "" && ok || what.within:
		return what.text + what.after, words
	case !ok:
		return what.text + ": (no longer kept)" + what.after, ""
	}
	return what.text + ": (no text)" + what.after, ""
}

// Entry is Line for a reader that shows the words of a message apart. The function returns the
// sentence without its time, and the beginning of these words, or "" without any.
func (r *HistoryReader) Entry(l state.Line) func() (text, words string) {
	what := r.record(l)
	if what.text == "" {
		return nil
	}
	return func() (string, string) {
		text, words := r.apart(what)
		return text, plain.Shorten(plain.Line(words), quotedWords)
	}
}

// record keeps the facts of a line, and returns its sentence.
func (r *HistoryReader) record(l state.Line) sentence {
	switch {
	case l.Kind == state.LineSpend && l.Spending != nil && l.TurnID != "":
		r.costs[l.TurnID] += l.Spending.Cost
	case l.Kind == state.LineGate && l.Number > 0:
		r.numbers[l.Key] = "q" + strconv.FormatUint(l.Number, 10)
	case l.Kind == state.LineNumber:
		r.numbers[l.Key] = "f" + strconv.FormatUint(l.Number, 10)
	case l.Kind == state.LineMessage && l.Message != nil:
		r.rows[l.Key] = *l.Message
	}
	t, ok := formatterOf(l)
	if !ok { // from a newer version: print the raw line
		return sentenceOf(lineWords(l, r.now))
	}
	var what sentence
	if t != nil {
		what = t(r, l)
		what.text, what.after = r.localTimes(what.text, l.At), r.localTimes(what.after, l.At)
	}
	switch l.Kind {
	case state.LineTask:
		delete(r.costs, l.TurnID)
		delete(r.rows, l.Key)
	case state.LineEnded:
		delete(r.rows, l.Key)
	}
	return what
}

// numberOr returns the number of a key that a person knows, or else fallback.
func (r *HistoryReader) numberOr(key, fallback string) string {
	return cmp.Or(r.numbers[key], fallback)
}

// clock formats a time. It adds the date if that differs from the line's.
func (r *HistoryReader) clock(t, at time.Time) string {
	if t.Local().Format(time.DateOnly) == at.Local().Format(time.DateOnly) {
		return t.Local().Format("15:04")
	}
	return t.Local().Format("2006-01-02 15:04")
}

// moments matches the times of UTC in a reason.
var moments = lazy.NewRegexp(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC)`)

// localTimes converts the UTC times in a text to the user's time zone, which all times of the
// history use.
func (r *HistoryReader) localTimes(text string, at time.Time) string {
	if !strings.Contains(text, ":") {
		return text
	}
	return moments.Get().ReplaceAllStringFunc(text, func(moment string) string {
		bare := strings.TrimSuffix(strings.TrimSuffix(moment, " UTC"), "Z")
		for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
			if t, err := time.Parse(layout, bare); err == nil {
				return r.clock(t, at)
			}
		}
		return moment
	})
}

// formatTook formats a duration: "4 s", "1h30m".
func formatTook(d time.Duration) string {
	if d < time.Minute {
		return strconv.Itoa(int(max(0, d).Round(time.Second)/time.Second)) + " s"
	}
	return terminal.Short(d)
}

// quotedWords is the maximum length of a quote, in characters.
const quotedWords = 120

// inQuotes returns the beginning of a foreign text, on one line and in quotes.
func inQuotes(text string) string { return `"` + plain.Shorten(plain.Line(text), quotedWords) + `"` }
