package cycle

import (
	"fmt"

	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// prompt renders the prompt of a turn. A session that begins is told all
// layers; one that goes on those that change with each message.
func (a *Agent) prompt(d prompt.Data) (prompt.Prompt, error) {
	layers, err := a.templates().Layers(d)
	if err != nil {
		return prompt.Prompt{}, err
	}
	for _, l := range layers {
		if l.Fault != "" {
			a.log("prompt: the built-in %s is used: %s", l.Name, l.Fault)
		}
	}
	return prompt.Join(layers, d.Runner == turn.API), nil
}

func (a *Agent) templates() prompt.Templates { return prompt.Templates{Folder: a.Prompts} }

// SummaryPrompt is the question with which a context is compacted.
func (a *Agent) SummaryPrompt() (string, error) {
	d := prompt.Data{Handle: a.Handle, Callsign: "@" + a.Handle, Now: a.Now().UTC()}
	if a.Turn != nil {
		d.Runner = a.Turn.Runner
	}
	return a.templates().SummaryQuestion(d)
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
	Key     string         `json:"key"`     // of the message; "" for the example
	Session string         `json:"session"` // that goes on; "" for a fresh one
	Layers  []prompt.Layer `json:"layers"`
	Faults  []string       `json:"faults"` // of the templates' folder as a whole
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
	v := PromptView{Key: w.msg.Key, Session: a.goesOn(s), Faults: a.templates().Faults()}
	v.Layers, err = a.templates().Layers(a.promptData(s, w, r))
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
	msg, err := a.findMessage(s, key)
	if err != nil {
		return turnMessage{}, err
	}
	head := state.Head{}
	if s.Turn.Key == msg.Key {
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
