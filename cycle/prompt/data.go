package prompt

import (
	"time"

	"agentstateloop/state"
)

// Data holds the values that a prompt template can name. Texts of others are fenced,
// or on one line without a tag of ours (see Fences), so that no template can make them
// look like ours. They are never executed as templates. Times are UTC.
type Data struct {
	Handle   string
	Callsign string // "@" + Handle
	Runner   string // of [turn]: exec, claude, codex, gemini, acp, api
	MCP      bool   // its commands are offered as tools, by the server agentstateloop
	Boundary string // the word that the tags of this prompt hold
	Fresh    bool   // a session begins; one that continues has most of this already
	Missed   bool   // a session continues, and History is what it does not know

	Now        time.Time
	Local      string // the same in the time zone of this machine, as `remind` reads it; "" in UTC
	Phase      state.Phase
	PhaseSince time.Time
	Deadline   time.Time // when silence ends the phase; zero in IDLE

	Source   state.Source // of the message
	From     string       // its sender
	Operator bool         // the sender is the operator
	Standing string       // what the sender is to the agent, in words
	Trust    string       // what the agent may do for the message, in words

	Tier string // normal, low_compute, critical
	Left string // what the turn may cost at most, such as "$0.31"; "" without a limit

	// While money is short (tiers low_compute and critical): another model or program runs
	// the agent; it runs with more arguments, [turn] low_args; it may make half as many
	// calls, of half the length.
	Cheaper, Sparing, Fewer bool

	CanAsk  bool // the operator can be asked: the agent has mail
	NoPlans bool // the agent may cause no turns itself: [turn] self_turns is 0

	Memory    string // the agent's working memory, fenced
	ResetNote string // of the last reset, fenced

	Wake    string   // why the agent runs: message, self, clock, resumed, report, retry
	Note    string   // of an earlier attempt
	Earlier bool     // the context box holds a copy of what an earlier attempt left in its output box
	Reports []string // what a resumed turn waited for, each with its question, fenced
	Said    string   // its output before it waited, fenced
	Woken   string   // what ended its wait, if it woke itself: "your sleep is over"
	Others  string   // how many other messages wait, in words; "" if none does, or the runner tells it
	Awaited []string // what an earlier attempt has started and the turn still waits for
	Full    int      // percent of its window that the session fills, from 75 on; else 0

	// Of a turn that the agent caused itself: what the turn said at last in which it
	// planned this one, fenced; what came since, in words and one a line; and whether its
	// answer is mailed to the operator. Mailed is set of a prompt of the clock that may
	// say nothing, too.
	SaidBefore string
	Came       string
	Meanwhile  []string
	Mailed     bool

	Due string // of a prompt of the clock: its time, as the clocks of this machine show it

	Nudges     []string // those that no turn of the operator was shown, one a line
	ToOperator bool     // the answer is mailed to the operator, who did not mail the message

	EndedSleep string // the reason of the sleep that this message has ended, on one line

	Summary string // of what was compacted, fenced
	History string // what was said before, fenced

	Subject      string
	Received     time.Time
	BeforeReset  bool   // it was queued before the memory was reset
	ResultFields string // that its sender asks for, fenced
	Message      string // its new text and the list of its files, fenced
	LeftOut      string // which lines of a mail are in full.txt alone, in words; ""
	Files        string // that list alone, one file a line, fenced; "" if no file came along
}

// Tools reports whether the agent acts by tools, and not by commands.
func (d Data) Tools() bool { return d.MCP || d.Runner == "api" }
