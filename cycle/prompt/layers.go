// Package prompt makes the prompts of an agent's turns. It renders their layers from templates,
// and chooses the past exchanges that they contain. It takes data and returns text.
package prompt

import "strings"

// Layer is one part of a prompt, rendered.
type Layer struct {
	Name  string `json:"name"`
	Part  string `json:"part"`  // PartSystem, PartMessage or PartSummary
	From  string `json:"from"`  // the template: BuiltIn, or a file
	Told  bool   `json:"told"`  // false if the layer is empty, or a continued session already has it
	Text  string `json:"text"`  // without surrounding white space
	Fault string `json:"fault"` // why the user's own template was not used, or ""
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
		if l.Told && (!apart || l.Part == PartMessage) {
			stdin = append(stdin, l.Text)
		}
	}
	return Prompt{System: joined(system), Stdin: joined(stdin)}
}

func joined(texts []string) string { return strings.Join(texts, "\n\n") + "\n" }
