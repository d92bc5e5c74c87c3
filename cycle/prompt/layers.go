// Package prompt makes the prompts of an agent's turns. It renders their layers from templates,
// and chooses the past exchanges that they contain. It takes data and returns text.
package prompt

import (
	"strings"
	"time"

	"agentstateloop/state"
)

// Layer is one part of a prompt, rendered.
type Layer struct {
	Name     string `json:"name"`
	Part     string `json:"part"`  // PartSystem, PartMessage or PartSummary
	From     string `json:"from"`  // the template: BuiltIn, or a file
	Included bool   `json:"told"`  // false if the layer is empty, or a continued session already has it
	Text     string `json:"text"`  // without surrounding white space
	Fault    string `json:"fault"` // why the user's own template was not used, or ""
}

// The parts of a prompt. We and the operator write PartSystem, except for the agent's own
// memory. A sender's words are only in PartMessage. PartSummary is the question that asks for a
// summary.
const (
	PartSystem  = "system"
	PartMessage = "message"
	PartSummary = "summary"
)

// BuiltIn is the From of a layer that is rendered from our own template.
const BuiltIn = "built-in"

// The layers that have names in the code.
const (
	layerMessage = "message"
	layerSummary = "summary"
	layerHistory = "history"
)

// layers lists all layers in order. A continued session gets only the layers that change from
// message to message. The note of a reset comes first, as `reset` promises.
var layers = [...]struct {
	name, part string
	changes    bool
}{
	{"reset", PartSystem, false},
	{"identity", PartSystem, false},
	{"rules", PartSystem, false},
	{"trust", PartSystem, true},
	{"phase", PartSystem, false},
	{"budget", PartSystem, true},
	{"memory", PartSystem, false},
	{"wake", PartMessage, true},
	{layerHistory, PartMessage, false},
	{layerMessage, PartMessage, true},
	{layerSummary, PartSummary, false},
}

// Names returns the names of all layers in order.
func Names() []string {
	var names []string
	for _, l := range layers {
		names = append(names, l.name)
	}
	return names
}

// Prompt is the text of a turn for an agent.
type Prompt struct {
	System string // context/system.md
	Stdin  string // standard input
}

// Join joins the layers of a turn. Standard input holds both parts. If apart is true, the runner
// reads the system prompt from its file, and standard input holds only the message.
func Join(all []Layer, apart bool) Prompt {
	var system, stdin []string
	for _, l := range all {
		if l.Text == "" || l.Part == PartSummary {
			continue
		}
		if l.Part == PartSystem {
			system = append(system, l.Text)
		}
		if l.Included && (!apart || l.Part == PartMessage) {
			stdin = append(stdin, l.Text)
		}
	}
	return Prompt{System: joined(system), Stdin: joined(stdin)}
}

func joined(texts []string) string { return strings.Join(texts, "\n\n") + "\n" }

// Data holds the values that a prompt template can use. Foreign texts are fenced, or are a
// single line without our tags (see Fences), so a template cannot make them look like our own
// text. They are never executed as templates. Times are UTC.
type Data struct {
	Handle   string
	Callsign string // "@" + Handle
	Runner   string // of [turn]: exec, claude, codex, gemini, acp, api
	MCP      bool   // the server agentstateloop offers its commands as tools
	Boundary string // the random word in the tags of this prompt
	Fresh    bool   // a new session begins; a continued one already has most of the prompt
	Missed   bool   // the session continues, and History holds only the exchanges that it lacks

	Now        time.Time
	Local      string // Now in the time zone of this machine, as `remind` reads it; "" in UTC
	Phase      state.Phase
	PhaseSince time.Time
	Deadline   time.Time // when silence ends the phase; zero in IDLE

	Source   state.Source // of the message
	From     string       // its sender
	Operator bool         // the sender is the operator
	Standing string       // the sender's relation to the agent, in words
	Trust    string       // the rights that the message gives the agent, in words

	Tier string // normal, low_compute, critical
	Left string // the cost limit of the turn, such as "$0.31"; "" without a limit

	// The savings while money is short (tiers low_compute and critical). Cheaper: another model
	// or program runs the agent. Sparing: it runs with extra arguments, [turn] low_args. Fewer:
	// it may make half as many calls, of half the length.
	Cheaper, Sparing, Fewer bool

	CanAsk  bool // the agent has mail, so it can ask the operator
	NoPlans bool // the agent may not cause turns itself: [turn] self_turns is 0

	Memory    string // the agent's working memory, fenced
	ResetNote string // note of the last reset, fenced

	Wake    string   // reason of the turn: message, self, clock, resumed, report, retry
	Note    string   // note on an earlier attempt
	Earlier bool     // the context folder holds a copy of an earlier attempt's output folder
	Reports []string // reports that a resumed turn waited for, each with its question, fenced
	Said    string   // the turn's output before it waited, fenced
	Woken   string   // the wait that ended, if the agent woke itself: "your sleep is over"
	Others  string   // number of other pending messages, in words; "" without any, or if the runner reports it
	Awaited []string // pending work that an earlier attempt has started
	Full    int      // percent of the model's window that the session fills, from 75 on; else 0

	// These describe a turn that the agent caused itself. SaidBefore is the final answer of the
	// turn that planned this one, fenced. Came counts the messages and nudges since then, in
	// words; Meanwhile lists them, one a line. Mailed is set if the answer is mailed to the
	// operator. It is also set for a prompt of the clock with an optional answer.
	SaidBefore string
	Came       string
	Meanwhile  []string
	Mailed     bool

	Due string // scheduled time of a prompt of the clock, in the local time of this machine

	Nudges     []string // nudges that no turn of the operator has shown yet, one a line
	ToOperator bool     // the answer is mailed to the operator, though the message is not the operator's mail

	EndedSleep string // reason of the sleep that this message has ended, on one line

	Summary string // summary of the compacted exchanges, fenced
	History string // past exchanges, fenced

	Subject      string
	Received     time.Time
	BeforeReset  bool   // the message was queued before the memory was reset
	ResultFields string // fields that the sender asks for, fenced
	Message      string // the new text of the message and the list of its files, fenced
	LeftOut      string // lines of a mail that only full.txt has, in words; "" if Message is complete
	Files        string // the list of files alone, one file a line, fenced; "" without files
}

// Tools reports whether the agent acts through tools instead of commands.
func (d Data) Tools() bool { return d.MCP || d.Runner == "api" }
