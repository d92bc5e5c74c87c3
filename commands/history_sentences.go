package commands

import (
	"cmp"
	"fmt"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// whoWrote returns the sender of a message, in the words that the history's reader knows.
func whoWrote(m state.Message) string {
	switch {
	case m.Source == state.Clock:
		return "the prompt " + plain.Line(m.From)
	case m.Operator && m.Source != state.Self:
		return "you"
	case m.Source == state.Mesh && m.Proof != state.ByToken:
		return plain.Line(m.From) + " (not proved)"
	}
	return plain.Line(m.From)
}

func (b *book) message(l state.Line) told {
	m := l.Message
	if m == nil {
		return sentenceOf("a message from ", l.From)
	}
	after := ""
	if m.Status == state.Deferred && m.Source != state.Self && m.Reason != state.CollectReason {
		after = ", waits until " + b.clock(m.NextRetryAt, l.At) + because(plain.Line(m.Reason))
	}
	switch {
	case m.Source == state.Self:
		return told{text: b.plan(*m, l), quote: m}
	case m.Source == state.Mesh && m.Kind == "ask":
		return told{text: whoWrote(*m) + " asked", quote: m, after: after}
	case m.Source == state.EventSource && !m.Operator:
		return told{text: whoWrote(*m) + " (program)", quote: m, after: after}
	}
	return told{text: whoWrote(*m), quote: m, after: after}
}

// plan describes a wakeup that the agent has planned, or that the operator has set.
func (b *book) plan(m state.Message, l state.Line) string {
	at := b.clock(m.NextRetryAt, l.At)
	switch {
	case m.MadeBy == "":
		return "you set a reminder for " + at
	case m.Kind == state.KindReminder:
		return "reminds itself at " + at
	case m.Kind == state.KindRest:
		return "rests until " + at
	}
	return "sleeps until " + at
}

func (b *book) promptFailed(l state.Line) told {
	return sentenceOf("the prompt ", l.From, " did not run", because(l.Reason))
}

func (b *book) promptMissed(l state.Line) told {
	return sentenceOf("the prompt ", l.From, " was missed", because(l.Reason))
}

func (b *book) promptSkipped(l state.Line) told {
	return sentenceOf("the prompt ", l.From, " was not needed", because(l.Reason))
}

func (b *book) retried(l state.Line) told {
	if l.Message == nil {
		return told{}
	}
	return told{text: "queued again", quote: l.Message}
}

// itemOf describes an item that a gate rejected.
func itemOf(l state.Line) string {
	from := " from " + plain.Line(cmp.Or(l.From, "nobody"))
	if l.Source == state.Mail {
		return "mail" + from
	}
	return "message" + from
}

// found returns the reason for the rejection by a gate, without the evidence.
func found(l state.Line) string {
	reason := l.Reason
	if l.Source == state.Mail && l.Gate == "trust" {
		reason, _, _ = strings.Cut(reason, ": ")
	}
	return because(plain.Line(reason))
}

func (b *book) quarantined(l state.Line) told {
	number := ""
	if n := b.numbers[l.Key]; n != "" {
		number = " as " + n
	}
	return sentenceOf(itemOf(l), " quarantined", number, found(l))
}

func (b *book) notKept(l state.Line) told {
	if l.Key == "" {
		return sentenceOf(fmt.Sprintf("%s rejected, and not kept: gate ", terminal.Count(l.Count, "more item")), l.Gate)
	}
	return sentenceOf(itemOf(l), " rejected, and not kept", found(l))
}

func (b *book) leftQuarantine(l state.Line) told {
	return sentenceOf(b.called(l.Key, "an item in quarantine"), " ", l.What, because(l.Reason))
}

func (b *book) challenged(l state.Line) told {
	return sentenceOf("asked you whether you wrote ", b.called(l.Key, "a mail that nothing proves"))
}

func (b *book) unanswered(l state.Line) told {
	return sentenceOf("no answer came whether you wrote ", b.called(l.Key, "a mail that nothing proves"))
}

func (b *book) nudged(l state.Line) told {
	what := "nudged"
	if l.From != "" {
		what += " by " + plain.Line(l.From)
	}
	return told{text: what + saying(l.Reason)}
}

func (b *book) relayed(l state.Line) told {
	return sentenceOf(l.From, " asked to mail you: ", l.Reason)
}

// phase describes a change of phase. It skips changes caused by a message, whose own line
// describes them.
func (b *book) phase(l state.Line) told {
	byHand := strings.HasPrefix(l.Reason, "by hand")
	switch {
	case l.New == state.IDLE && l.Reason == "silence":
		return told{text: "going quiet"}
	case l.New == state.IDLE:
		return sentenceOf("going quiet", because(l.Reason))
	case byHand && l.Old == state.IDLE:
		return sentenceOf("awake, ", string(l.New), because(l.Reason))
	case byHand:
		return sentenceOf(string(l.New), because(l.Reason))
	}
	return told{}
}

func (b *book) stopped(l state.Line) told {
	return sentenceOf("its turn is stopped", because(l.Reason))
}

func (b *book) reaped(l state.Line) told {
	return sentenceOf("its turn broke off and runs again", because(l.Reason))
}

func (b *book) givenBack(l state.Line) told {
	return sentenceOf("its turn could not run and is tried again", because(l.Reason))
}

// task describes the end of a turn: its message, the time that the answer took, and the cost.
func (b *book) task(l state.Line) told {
	what, wrong := "answered", ""
	switch l.Outcome {
	case state.Success:
	case state.Partial:
		what, wrong = "answered in part", because(plain.Line(l.Reason))
	case state.Timeout:
		what, wrong = "timed out on", because(plain.Line(l.Reason))
	case state.Canceled:
		what, wrong = "stopped work on", because(plain.Line(l.Reason))
	default:
		what, wrong = "failed on", because(plain.Line(l.Reason))
	}
	cost, after := b.costs[l.TurnID], ""
	m := l.Row
	if m != nil {
		cost = max(cost, m.Cost)
		since := m.Observed
		switch {
		case m.Source == state.Self && l.Outcome == state.Success:
			what, since = "did what it had planned for", m.NextRetryAt
		case m.Source == state.Self:
			since = m.NextRetryAt
		case len(l.Collected) > 0:
			what += fmt.Sprintf(" %d messages, the first of", len(l.Collected)+1)
		case !m.Operator:
			what += " " + whoWrote(*m)
		}
		if !since.IsZero() {
			what += " " + b.clock(since, l.At)
			after = " after " + tookFor(l.At.Sub(since))
		}
	}
	if cost > 0 {
		after += ", " + cost.String()
	}
	if m == nil {
		return sentenceOf(strings.TrimSuffix(what, " on"), after, wrong)
	}
	return told{text: what, quote: m, within: true, after: after + wrong}
}

// ended describes messages that left without a turn. It skips the agent's own plans that were
// ended by another event.
func (b *book) ended(l state.Line) told {
	row, known := b.rows[l.Key]
	if l.Source == state.Self && (strings.HasPrefix(l.Reason, "ended by ") || strings.HasPrefix(l.Reason, "replaced ")) {
		return told{}
	}
	what := "dropped"
	if l.What == string(state.Errored) {
		what = "given up"
	}
	switch {
	case known:
		return told{text: what, quote: &row, after: because(plain.Line(l.Reason))}
	case b.numbers[l.Key] != "":
		return sentenceOf(what, ": ", b.numbers[l.Key], because(l.Reason))
	}
	return sentenceOf("a message was ", what, because(l.Reason))
}

// wrote describes the agent's messages to other agents, and its questions. The turns describe
// its mails.
func (b *book) wrote(l state.Line) told {
	if l.Effect == nil {
		return told{}
	}
	to := plain.Line(l.Effect.To)
	switch l.Effect.Kind {
	case state.OperatorQuestion:
		return told{text: "asked you" + saying(l.Effect.Text) + offered(l.Effect.Options)}
	case state.Question:
		return told{text: "asked " + to + saying(l.Effect.Text)}
	case state.Post:
		return told{text: "wrote to " + to + saying(l.Effect.Text)}
	}
	return told{}
}

func saying(text string) string {
	if plain.Line(text) == "" {
		return ""
	}
	return ": " + inQuotes(text)
}

// effectName returns the kind of an effect from its id, in words: "the answer".
func effectName(id string) string {
	kind, _, _ := strings.Cut(id, ".")
	if name := effectNames()[state.EffectKind(kind)]; name != "" {
		return name
	}
	return plain.Line(id)
}

func (b *book) givenUp(l state.Line) told {
	if strings.HasPrefix(l.ID, string(state.HookCall)+".") {
		return sentenceOf("hook ", l.To, " lost an event", because(l.Reason))
	}
	return sentenceOf("gave up sending: ", effectName(l.ID), because(l.Reason))
}

func (b *book) notFiled(l state.Line) told {
	return sentenceOf("no copy in the folder for sent mail: ", effectName(l.ID), because(l.Reason))
}

func (b *book) notSent(l state.Line) told {
	if strings.HasPrefix(l.ID, string(state.HookCall)+".") {
		return b.givenUp(l)
	}
	return sentenceOf("dropped from the outbox: ", effectName(l.ID), because(l.Reason))
}

func (b *book) refused(l state.Line) told {
	return sentenceOf("login ", l.From, " refused", because(l.Reason))
}

func (b *book) works(l state.Line) told { return sentenceOf("login ", l.From, " works again") }

// runs describes a turn that runs on another backend than the first one.
func (b *book) runs(l state.Line) told {
	if l.Reason == "" {
		return told{}
	}
	return sentenceOf(plain.Line(l.Reason))
}

func (b *book) backendOut(l state.Line) told {
	if l.Outage == nil {
		return sentenceOf(state.BackendName(l.From), " cannot be used", because(l.Reason))
	}
	return sentenceOf(plain.Line(l.Outage.Sentence(l.From)), "; again at ", terminal.Clock(l.Outage.Until, b.now))
}

func (b *book) backendWorks(l state.Line) told {
	return sentenceOf(state.BackendName(l.From), " works again")
}

func (b *book) halted(l state.Line) told {
	what, where := "HALT", ""
	if l.What == "go" {
		what = "GO"
	}
	if l.From == "mesh" {
		where = " by the mesh"
	}
	return sentenceOf(what, where, because(l.Reason))
}

// control describes STOP and STATUS. HALT and GO have their own lines.
func (b *book) control(l state.Line) told {
	if l.What == state.ControlHalt || l.What == state.ControlGo {
		return told{}
	}
	return sentenceOf("you: ", l.What)
}

func (b *book) reset(l state.Line) told {
	if l.Reason == "" {
		return told{text: "memory reset"}
	}
	return told{text: "memory reset: " + inQuotes(l.Reason)}
}

func (b *book) remembered(l state.Line) told {
	return told{text: "changed its memory" + saying(l.Text)}
}

func (b *book) sleeps(l state.Line) told {
	return sentenceOf("asked to be left alone ", l.Reason)
}

func (b *book) selfHeld(l state.Line) told {
	return sentenceOf("waits for a word from you before it wakes itself again: ", terminal.Count(l.Count, "wakeup"))
}

func (b *book) awaits(l state.Line) told { return sentenceOf("waits for ", l.To) }

// reported describes the reports of others. The turns describe our own.
func (b *book) reported(l state.Line) told {
	asksYou := strings.HasPrefix(l.Request, string(state.OperatorQuestion)+".")
	switch {
	case l.AnswersOperatorQuestion() && l.Source == state.Mail:
		return sentenceOf("you answered by mail")
	case l.AnswersOperatorQuestion():
		return sentenceOf("you answered at the terminal")
	case asksYou && strings.HasPrefix(l.Response, state.MissedTimeout+":"):
		return sentenceOf("its question to you is closed: you wrote about something else")
	case asksYou && l.Response == state.MissedTimeout:
		return sentenceOf("no answer from you: it goes on without one")
	case l.Source != "" || strings.HasPrefix(l.Response, state.MissedTimeout+":"):
		return told{}
	case strings.HasPrefix(l.Response, state.MissedTimeout):
		return sentenceOf("no answer from ", l.From)
	case l.Outcome != "":
		return sentenceOf(l.From, " reported: ", string(l.Outcome))
	}
	return sentenceOf(l.From, " reported")
}

func (b *book) lapsed(l state.Line) told { return sentenceOf("no report came from ", l.To) }

func (b *book) schedule(l state.Line) told {
	switch {
	case l.What == "removed":
		return told{text: "the crontab line was removed"}
	case l.Reason != "":
		return sentenceOf("the crontab line cannot be set", because(l.Reason))
	}
	return told{}
}

func (b *book) credit(l state.Line) told {
	if l.What == "opened" {
		return sentenceOf("the credit begins: ", l.Amount.String())
	}
	return sentenceOf("credit topped up by ", l.Amount.String())
}

func (b *book) tier(l state.Line) told {
	switch state.Tier(l.What) {
	case state.TierNormal:
		return sentenceOf("money is back", because(l.Reason))
	case state.TierDead:
		return sentenceOf("out of money", because(l.Reason))
	}
	return sentenceOf("money is short (", l.What, ")", because(l.Reason))
}

func (b *book) unfetched(l state.Line) told {
	which := "a mail"
	if n := b.numbers[l.Key]; n != "" {
		which += " (" + n + ")"
	}
	switch l.What {
	case "ended":
		return sentenceOf(which, " that could not be fetched ", l.Reason)
	case "still failing":
		return sentenceOf(which, " still cannot be fetched", because(l.Reason))
	}
	return sentenceOf(which, " cannot be fetched", because(l.Reason))
}

func (b *book) damaged(l state.Line) told {
	if l.What == "mended" {
		return sentenceOf("a damaged mail from ", l.From, " was fetched again")
	}
	return sentenceOf("a mail from ", l.From, " is damaged and is fetched again", because(l.Reason))
}

func (b *book) cameBack(l state.Line) told {
	if l.What == "delayed" {
		return sentenceOf("mail to ", l.To, " is delayed", because(l.Reason))
	}
	return sentenceOf("mail to ", l.To, " came back", because(l.Reason))
}
