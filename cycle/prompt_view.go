package cycle

import (
	"fmt"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/cycle/prompt"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
)

// SummaryPrompt returns the question that asks an agent for a summary of its
// context.
func (a *Agent) SummaryPrompt() (string, error) { return a.prompter(a.mainBackend()).summaryQuestion() }

// PromptView is the output of `prompt`.
type PromptView struct {
	Key     string         `json:"key"`     // of the message; "" for the example
	Session string         `json:"session"` // the session that is continued; "" for a fresh one
	Layers  []prompt.Layer `json:"layers"`
	Faults  []string       `json:"faults"` // of the templates' folder as a whole
}

// Prompt renders the prompt that a message would have now: the message with this key or, if key
// is "", the next one or an example. It changes nothing.
func (a *Agent) Prompt(key string) (PromptView, error) {
	s, err := a.Store.Read()
	if err != nil {
		return PromptView{}, err
	}
	var with []state.Message
	if key == "" {
		key, with = nextKey(s, a.Policy)
	}
	m := exampleMessage(a.Handle, a.Now())
	if key != "" {
		if m, err = a.prompter(a.mainBackend()).message(s, key); err != nil {
			return PromptView{}, err
		}
		m.collect(a.Store, with)
	}
	return a.promptViewer().view(s, m)
}

// ShorterPrompt renders the agent's prompt for the message with this key in about bytes bytes
// at most. It reduces the past exchanges, down to minRecall.
func (a *Agent) ShorterPrompt(key string, bytes int) (string, error) {
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	v := a.promptViewer()
	m, err := v.prompter.message(s, key)
	if err != nil {
		return "", err
	}
	for {
		view, err := v.view(s, m)
		if err != nil {
			return "", err
		}
		text := prompt.Join(view.Layers, true).Stdin
		if room := v.recaller.bytes(); len(text) <= bytes || room <= minRecall {
			return text, nil
		}
		v.recaller.room = max(minRecall, v.recaller.bytes()/4)
	}
}

// minRecall is the smallest recall of ShorterPrompt, in bytes.
const minRecall = 256

// PromptFrom renders the prompt that a message of another agent would have now, with proof as
// the proof of its sender. It changes nothing.
func (a *Agent) PromptFrom(handle string, proof state.Proof) (PromptView, error) {
	s, err := a.Store.Read()
	if err != nil {
		return PromptView{}, err
	}
	m := exampleMessage(a.Handle, a.Now())
	m.msg = state.Message{Source: state.Mesh, From: handle, Proof: proof, At: a.Now()}
	return a.promptViewer().view(s, m)
}

// promptViewer renders prompts for display.
type promptViewer struct {
	prompter *prompter
	recaller recaller
}

func (a *Agent) promptViewer() *promptViewer {
	return &promptViewer{prompter: a.prompter(a.mainBackend()), recaller: a.recaller()}
}

// view renders the prompt of m.
func (v *promptViewer) view(s state.State, m turnMessage) (PromptView, error) {
	p, talk := v.prompter, v.prompter.policy.TalkOf(m.msg)
	r, err := v.recaller.recallFor(p.sessions, s, talk, exchangeCache{}, m.subject, m.text)
	if err != nil {
		return PromptView{}, err
	}
	view := PromptView{Key: m.msg.Key, Session: p.sessions.of(s, talk).ID, Faults: p.templates.Faults()}
	view.Layers, err = p.templates.Layers(p.data(s, m, r))
	return view, err
}

// message returns the message with this key, from the inbox of s or the
// history.
func (p *prompter) message(s state.State, key string) (turnMessage, error) {
	msg, err := view.FindMessage(p.store, s, key)
	if err != nil {
		return turnMessage{}, err
	}
	head := state.Head{}
	var with []state.Message
	if s.Turn.Key == msg.Key {
		head, with = s.Turn, s.Collected()
	}
	m, err := readMessage(p.store, head, msg)
	m.receive(p.store, "", files.AttachmentsFolder)
	m.collect(p.store, with)
	m.reports, _ = p.reports(head.Waiting)
	return m, err
}

// nextKey returns the key of the active turn's message, or else of the first waiting message,
// or else of the agent's next wakeup, or "". If the waiting message shares its turn, key is
// that of the newest message, and with holds the others.
func nextKey(s state.State, p state.Policy) (key string, with []state.Message) {
	if s.Turn.Status != state.HeadIdle {
		return s.Turn.Key, nil
	}
	p.Turns = true // an agent that pulls takes its turns itself
	for _, msg := range s.Inbox {
		if msg.Source != state.Self || msg.Status != state.Deferred {
			if lease := s.LeaseOf(p, msg.Key); len(lease) > 1 {
				newest := len(lease) - 1
				return lease[newest].Key, lease[:newest]
			}
			return msg.Key, nil
		}
	}
	if planned := s.Planned(); len(planned) > 0 {
		return planned[0].Key, nil
	}
	return "", nil
}

// exampleMessage returns a message that shows a prompt when the inbox is empty.
func exampleMessage(handle string, now time.Time) turnMessage {
	return turnMessage{
		msg:     state.Message{Source: state.CLI, From: "you", Operator: true, At: now},
		subject: fmt.Sprintf("@%s an example", handle),
		text:    "An example, because no message is waiting: is the build green?",
	}
}
