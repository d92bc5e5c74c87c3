package cycle

import (
	"fmt"
	"strings"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// prompt is what an agent is told for one turn. Runner api takes it in two
// parts: context/system.md, and the message on standard input. The others get
// both on standard input.
type prompt struct {
	system string // context/system.md
	stdin  string
}

// prompt renders the prompt of a turn. A session that begins is told all
// layers; one that goes on those that change with each message.
func (a *Agent) prompt(d PromptData) (prompt, error) {
	all, err := a.layers(d)
	if err != nil {
		return prompt{}, err
	}
	var system, stdin []string
	for _, l := range all {
		if l.Fault != "" {
			a.log("prompt: the built-in %s is used: %s", l.Name, l.Fault)
		}
		if l.Text == "" || l.Part == PartSummary {
			continue
		}
		if l.Part == PartSystem {
			system = append(system, l.Text)
		}
		if l.Told && (d.Runner != turn.API || l.Part == PartMessage) {
			stdin = append(stdin, l.Text)
		}
	}
	return prompt{system: joined(system), stdin: joined(stdin)}, nil
}

// SummaryPrompt is the question with which a context is compacted.
func (a *Agent) SummaryPrompt() (string, error) {
	d := PromptData{Handle: a.Handle, Callsign: "@" + a.Handle, Now: a.Now().UTC()}
	if a.Turn != nil {
		d.Runner = a.Turn.Runner
	}
	l, err := a.layer(layerSummary, d)
	return l.Text, err
}

func joined(texts []string) string { return strings.Join(texts, "\n\n") + "\n" }

// layers renders every layer.
func (a *Agent) layers(d PromptData) ([]Layer, error) {
	var all []Layer
	for _, l := range layers {
		rendered, err := a.layer(l.name, d)
		if err != nil {
			return nil, err
		}
		rendered.Part = l.part
		rendered.Told = l.part != PartSummary && rendered.Text != "" && (d.Fresh || l.changes)
		all = append(all, rendered)
	}
	return all, nil
}

// goesOn is the agent's session that this turn continues; "" for a fresh one.
func (a *Agent) goesOn(s state.State) string {
	if a.Turn == nil || s.Session.Runner != a.Turn.Runner {
		return ""
	}
	return s.Session.ID
}

// PromptView is what `prompt` shows.
type PromptView struct {
	Key     string   `json:"key"`     // of the message; "" for the example
	Session string   `json:"session"` // that goes on; "" for a fresh one
	Layers  []Layer  `json:"layers"`
	Faults  []string `json:"faults"` // of the templates' folder as a whole
}

// Prompt renders the prompt that a message would have now: the one with this
// key, else the one that is next, else an example. It changes nothing.
func (a *Agent) Prompt(key string) (PromptView, error) {
	s, err := a.Store.Read()
	if err != nil {
		return PromptView{}, err
	}
	w, err := a.shown(s, key)
	if err != nil {
		return PromptView{}, err
	}
	r, err := a.recall(s, new(past), w.subject, w.text)
	if err != nil {
		return PromptView{}, err
	}
	v := PromptView{Key: w.msg.Key, Session: a.goesOn(s), Faults: a.promptFaults()}
	v.Layers, err = a.layers(a.promptData(s, w, r))
	return v, err
}

// shown is the message whose prompt is to be looked at.
func (a *Agent) shown(s state.State, key string) (turnMessage, error) {
	if key == "" {
		key = nextKey(s)
	}
	if key == "" {
		return a.example(), nil
	}
	msg, waits := s.Find(key)
	if !waits {
		var err error
		if msg, err = a.messageInHistory(key); err != nil {
			return turnMessage{}, err
		}
	}
	head := state.Head{}
	if s.Turn.Key == key {
		head = s.Turn
	}
	w, err := a.load(head, msg)
	w.reports = a.reports(head.Waiting)
	return w, err
}

// nextKey is the message of the active turn, else the first that waits.
func nextKey(s state.State) string {
	if s.Turn.Status != state.HeadIdle {
		return s.Turn.Key
	}
	if len(s.Inbox) > 0 {
		return s.Inbox[0].Key
	}
	return ""
}

// example is a message to show a prompt with, where none waits.
func (a *Agent) example() turnMessage {
	return turnMessage{
		msg:     state.Message{Source: state.CLI, From: "you", Operator: true, At: a.Now()},
		subject: fmt.Sprintf("@%s an example", a.Handle),
		text:    "An example, since no message waits: is the build green?",
	}
}
