package commands

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"agentstateloop/commands/present"
	"agentstateloop/cycle"
	"agentstateloop/cycle/prompt"
	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// values finds the possible values of a flag or an argument.
type values struct {
	ctx     context.Context
	program *program
	typed   typedLine
}

// fixedValues returns the values of flags and arguments with a fixed set, by command and flag.
// Any other flag, if values.ofFlag does not know it either, takes a free text or a file.
func fixedValues() map[string][]string {
	after := []string{mesh.Continue, mesh.Suspend, mesh.Terminate}
	return map[string][]string{
		"demo --runner":       {turn.Exec, turn.API},
		"history --by":        {byTurn, byDay, byMonth, bySender},
		"init --preset":       {"gmail", "fastmail", "outlook", "generic", "none"},
		"init --require":      {"dmarc", "challenge"},
		"init --fallback":     {"challenge"},
		"init --runner":       {turn.Exec, "claude", "codex", "gemini", turn.ACP, turn.API, "none"},
		"init --api-provider": {"anthropic", "openai"},
		"init --sandbox":      {"bwrap", "none"},
		"init --schedule":     cycle.Modes(),
		"mesh send --kind":    {mesh.KindMessage, mesh.KindAsk, mesh.KindReport, mesh.KindRelay, mesh.KindNotice},
		"nudge --wait":        points,
		"prompt --layer":      prompt.Names(),
		"report --status":     {string(state.Success), string(state.Failed), string(state.Partial), string(state.Canceled)},
		"submit --after":      after,
		"transition":          {string(state.IDLE), string(state.PREP), string(state.ACTIVE)},
		"login":               {"imap", "smtp"},
		"completion":          {"bash", "zsh", "fish"},
	}
}

// ofFlag returns the values of a flag.
func (v values) ofFlag(flag string) []candidate {
	if f := v.typed.find(flag); f != nil {
		flag = f.Names()[0]
	}
	path := v.typed.path()
	switch {
	case flag == "agent":
		return v.handles()
	case path == "prompt" && flag == "key":
		return v.messages()
	case path == "prompt" && flag == "from", flag == "peer", flag == "keymaster":
		return v.peers()
	}
	return plainCandidates(fixedValues()[path+" "+dashed(flag)])
}

// ofArgument returns the values of the next argument.
func (v values) ofArgument() []candidate {
	first := len(v.typed.arguments) == 0
	switch path := v.typed.path(); {
	case path == "answer" && len(v.typed.arguments) == 1:
		return v.options(v.typed.arguments[0])
	case path == "" || !first:
		return nil
	case path == "inbox show":
		return append(v.messages(), v.quarantined()...)
	case path == "inbox drop":
		return append(v.messages(), v.quarantined()...)
	case path == "answer":
		return v.questions()
	case path == "inbox retry":
		return v.messages()
	case path == "inbox release":
		return v.quarantined()
	case path == "outbox show", path == "outbox retry", path == "outbox drop":
		return v.outgoing()
	case path == "nudge", path == "ask", path == "send", path == "mesh send":
		return v.peers()
	case path == "prompt run":
		return v.prompts()
	case path == "hook test":
		return v.hooks()
	default:
		return plainCandidates(fixedValues()[path])
	}
}

func plainCandidates(all []string) []candidate {
	var some []candidate
	for _, word := range all {
		some = append(some, candidate{word: word})
	}
	return some
}

// handles returns the handles of this user's agents.
func (v values) handles() []candidate {
	var all []candidate
	for _, k := range v.program.loader.Known(v.ctx) {
		all = append(all, candidate{k.Handle, k.Path})
	}
	return all
}

// agent returns the agent named on the command line so far, or nil.
func (v values) agent() *cycle.Agent {
	path, err := v.configPath()
	if err != nil {
		return nil
	}
	a, err := v.program.loader.Load(path)
	if err != nil {
		return nil
	}
	return a
}

func (v values) configPath() (string, error) {
	if handle, given := v.typed.given["agent"]; given {
		return v.program.loader.FindHandle(v.ctx, handle)
	}
	return v.program.loader.Find(v.typed.given["config"])
}

// peers returns the agents that can receive a message: those of the mesh, and those with a
// configuration next to this agent's.
func (v values) peers() []candidate {
	var all []candidate
	a := v.agent()
	if a != nil && a.Mesh != nil {
		all = plainCandidates(a.Mesh.Peers)
	}
	for _, k := range v.program.loader.Known(v.ctx) {
		known := func(c candidate) bool { return c.word == k.Handle }
		if (a == nil || k.Handle != a.Handle) && !slices.ContainsFunc(all, known) {
			all = append(all, candidate{word: k.Handle})
		}
	}
	return all
}

// rowsOf returns the rows that read gets from the agent of the command line, or nil.
func rowsOf[T any](v values, read func(*cycle.Agent) ([]T, error)) []T {
	a := v.agent()
	if a == nil {
		return nil
	}
	rows, err := read(a)
	if err != nil {
		return nil
	}
	return rows
}

// messages returns the numbers of the pending messages.
func (v values) messages() (all []candidate) {
	inbox := func(a *cycle.Agent) ([]state.Message, error) {
		s, err := a.Store.Read()
		return s.Inbox, err
	}
	for _, m := range rowsOf(v, inbox) {
		all = append(all, candidate{strconv.FormatUint(m.Seq, 10), fmt.Sprintf("%s from %s", m.Source, m.From)})
	}
	return all
}

// quarantined returns the numbers of the items in quarantine.
func (v values) quarantined() (all []candidate) {
	items := func(a *cycle.Agent) ([]view.InboxRow, error) { return a.View().ListQuarantine() }
	for _, row := range rowsOf(v, items) {
		all = append(all, candidate{present.InboxNumber(row), fmt.Sprintf("from %s: %s", row.From, present.OneLine(row.Reason))})
	}
	return all
}

// outgoing returns the numbers of the items in the outbox.
func (v values) outgoing() (all []candidate) {
	for _, row := range rowsOf(v, (*cycle.Agent).Outbox) {
		all = append(all, candidate{present.OutboxNumber(row), present.OutboxSubject(row) + " to " + row.To})
	}
	return all
}

// prompts returns the names of the prompts of the clock.
func (v values) prompts() (all []candidate) {
	if a := v.agent(); a != nil {
		for _, c := range a.ClockPrompts {
			all = append(all, candidate{word: c.Name, description: c.File})
		}
	}
	return all
}

// hooks returns the names of the hooks.
func (v values) hooks() (all []candidate) {
	if a := v.agent(); a != nil {
		for _, h := range a.Hooks {
			all = append(all, candidate{word: h.Name})
		}
	}
	return all
}

// eachQuestion calls take with each open question to the operator, and with the number of the message
// whose turn asked it.
func (v values) eachQuestion(take func(w state.Wait, number string)) {
	a := v.agent()
	if a == nil {
		return
	}
	s, err := a.Store.Read()
	if err != nil {
		return
	}
	for _, w := range s.OperatorWaits(a.Now()) {
		_, key, _ := s.OperatorWait(w.ID)
		if m, ok := s.Message(key); ok {
			take(w, strconv.FormatUint(m.Seq, 10))
		}
	}
}

// questions returns the ids of the open questions to the operator. It adds the number of a
// message with a single question.
func (v values) questions() []candidate {
	var all []candidate
	asks := map[string]int{}
	v.eachQuestion(func(w state.Wait, number string) { asks[number]++ })
	v.eachQuestion(func(w state.Wait, number string) {
		word := w.ID
		if asks[number] == 1 {
			word = number
		}
		all = append(all, candidate{word, w.Text})
	})
	return all
}

// options returns the options of an open question. which is the question's id or its message's
// number.
func (v values) options(which string) (all []candidate) {
	v.eachQuestion(func(w state.Wait, number string) {
		if which == number || which == w.ID {
			all = plainCandidates(w.Options)
		}
	})
	return all
}
