// Package prompt makes the prompts of an agent's turns: it renders their layers
// from templates, and chooses which of the past exchanges they hold. It takes
// data and returns text.
package prompt

import "strings"

// Layer is one part of a prompt, rendered.
type Layer struct {
	Name  string `json:"name"`
	Part  string `json:"part"`  // PartSystem, PartMessage or PartSummary
	From  string `json:"from"`  // the template: BuiltIn, or a file
	Told  bool   `json:"told"`  // false: it is empty, or a session that continues has it already
	Text  string `json:"text"`  // without white space around it
	Fault string `json:"fault"` // why the user's own template was not used, or ""
}

// The parts of a prompt. What PartSystem holds was written by us and the
// operator, except for the agent's own memory; a sender's words are in
// PartMessage only. PartSummary is the question that asks for a summary.
const (
	PartSystem  = "system"
	PartMessage = "message"
	PartSummary = "summary"
)

// BuiltIn is the From of a layer for which the user has no template.
const BuiltIn = "built-in"

// The layers that the code names.
const (
	layerMessage = "message"
	layerSummary = "summary"
	layerHistory = "history"
)

// layers are all layers, in their order. A session that continues gets those that
// change from one message to the next. The note of a reset comes first, as
// `reset` promises.
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

// Names returns the names of all layers, in their order.
func Names() []string {
	var names []string
	for _, l := range layers {
		names = append(names, l.name)
	}
	return names
}

// Prompt is the text that an agent is given for one turn.
type Prompt struct {
	System string // context/system.md
	Stdin  string // standard input
}

// Join puts the layers of a turn together. Standard input holds both parts; if
// apart is true, the runner takes the system prompt from its file, and standard
// input holds the message alone.
func Join(all []Layer, apart bool) Prompt {
	var system, stdin []string
	for _, l := range all {
		if l.Text == "" || l.Part == PartSummary {
			continue
		}
		if l.Part == PartSystem {
			system = append(system, l.Text)
		}
		if l.Told && (!apart || l.Part == PartMessage) {
			stdin = append(stdin, l.Text)
		}
	}
	return Prompt{System: joined(system), Stdin: joined(stdin)}
}

func joined(texts []string) string { return strings.Join(texts, "\n\n") + "\n" }
