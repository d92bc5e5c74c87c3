package present

import (
	"cmp"
	"fmt"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// senderName returns the sender of a message, in the words that the history's reader knows.
func senderName(m state.Message) string {
	switch {
	case m.Source == state.Clock:
		return "the prompt " + plain.Line(m.From)
	case state.WroteOnPage(m.Source, m.From):
		return "you, " + state.OnPage
	case m.Operator && m.Source != state.Self:
		return "you"
	case m.Source == state.Mesh && m.Proof != state.ByToken:
		return plain.Line(m.From) + " (not proved)"
	}
	return plain.Line(m.From)
}

func (r *HistoryReader) message(l state.Line) sentence {
	m := l.Message
	if m == nil {
		return sentenceOf("a message from ", l.From)
	}
	after := ""
	if m.Status == state.Deferred && m.Source != state.Self && m.Reason != state.CollectReason {
		after = ", waits until " + r.clock(m.NextRetryAt, l.At) + reasonSuffix(plain.Line(m.Reason))
	}
	switch {
	case m.Source == state.Self:
		return sentence{text: r.plan(*m, l), quote: m}
	case m.Source == state.Mesh && m.Kind == "ask":
		return sentence{text: senderName(*m) + " asked", quote: m, after: after}
	case m.Source == state.EventSource && !m.Operator:
		return sentence{text: senderName(*m) + " (program)", quote: m, after: after}
	}
	return sentence{text: senderName(*m), quote: m, after: after}
}

// plan describes a wakeup that the agent has planned, or that the operator has set.
func (r *HistoryReader) plan(m state.Message, l state.Line) string {
	at := r.clock(m.NextRetryAt, l.At)
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

func (r *HistoryReader) retried(l state.Line) sentence {
	if l.Message == nil {
		return sentence{}
	}
	return sentence{text: "queued again" + originSuffix(l), quote: l.Message}
}

// retriedOnPage describes the retry of a waiting message. A retry at the terminal is hidden: its
// user has seen the output.
func (r *HistoryReader) retriedOnPage(l state.Line) sentence {
	if l.Reason == "" {
		return sentence{}
	}
	if row, known := r.rows[l.Key]; known {
		return sentence{text: "queued again" + originSuffix(l), quote: &row}
	}
	return sentenceOf("a message was queued again", originSuffix(l))
}

// originSuffix returns the place of an order.
func originSuffix(l state.Line) string {
	if l.Reason == "" {
		return ""
	}
	return " " + plain.Line(l.Reason)
}

// itemOf describes an item that a gate rejected.
func itemOf(l state.Line) string {
	from := " from " + plain.Line(cmp.Or(l.From, "an unknown sender"))
	if l.Source == state.Mail {
		return "mail" + from
	}
	return "message" + from
}

// rejectionReason returns the reason for the rejection by a gate, without the evidence.
func rejectionReason(l state.Line) string {
	reason := l.Reason
	if l.Source == state.Mail && l.Gate == "trust" {
		reason, _, _ = strings.Cut(reason, ": ")
	}
	return reasonSuffix(plain.Line(reason))
}

func (r *HistoryReader) quarantined(l state.Line) sentence {
	number := ""
	if n := r.numbers[l.Key]; n != "" {
		number = " as " + n
	}
	return sentenceOf(itemOf(l), " quarantined", number, rejectionReason(l))
}

func (r *HistoryReader) rejected(l state.Line) sentence {
	if l.Key == "" {
		return sentenceOf(fmt.Sprintf("%s rejected without a copy: gate ", terminal.Count(l.Count, "more item")), l.Gate)
	}
	return sentenceOf(itemOf(l), " rejected without a copy", rejectionReason(l))
}

func (r *HistoryReader) leftQuarantine(l state.Line) sentence {
	return sentenceOf(r.numberOr(l.Key, "an item in quarantine"), " ", string(l.What), reasonSuffix(l.Reason))
}

func (r *HistoryReader) challenged(l state.Line) sentence {
	return sentenceOf("asked you whether you wrote ", r.numberOr(l.Key, "a mail without proof"))
}

func (r *HistoryReader) unanswered(l state.Line) sentence {
	return sentenceOf("you did not answer whether you wrote ", r.numberOr(l.Key, "a mail without proof"))
}

func (r *HistoryReader) nudged(l state.Line) sentence {
	what := "nudged"
	if l.From != "" {
		what += " by " + plain.Line(l.From)
	}
	return sentence{text: what + quoteSuffix(l.Reason)}
}

func (r *HistoryReader) relayed(l state.Line) sentence {
	return sentenceOf(l.From, " asked to mail you: ", l.Reason)
}

// phase describes a change of phase. It skips changes caused by a message, whose own line
// describes them.
func (r *HistoryReader) phase(l state.Line) sentence {
	byHand := strings.HasPrefix(l.Reason, "by hand")
	switch {
	case l.New == state.IDLE && l.Reason == "silence":
		return sentence{text: "going quiet"}
	case l.New == state.IDLE:
		return sentenceOf("going quiet", reasonSuffix(l.Reason))
	case byHand && l.Old == state.IDLE:
		return sentenceOf("awake, ", string(l.New), reasonSuffix(l.Reason))
	case byHand:
		return sentenceOf(string(l.New), reasonSuffix(l.Reason))
	}
	return sentence{}
}

// task describes the end of a turn: its message, the time that the answer took, and the cost.
func (r *HistoryReader) task(l state.Line) sentence {
	what, wrong := "answered", ""
	switch l.Outcome {
	case state.Success:
	case state.Partial:
		what, wrong = "answered in part", reasonSuffix(plain.Line(l.Reason))
	case state.Timeout:
		what, wrong = "timed out on", reasonSuffix(plain.Line(l.Reason))
	case state.Canceled:
		what, wrong = "stopped work on", reasonSuffix(plain.Line(l.Reason))
	default:
		what, wrong = "failed on", reasonSuffix(plain.Line(l.Reason))
	}
	cost, after := r.costs[l.TurnID], ""
	m := l.Row
	if m != nil {
		cost = max(cost, m.Cost)
		since := m.Observed
		switch {
		case m.Source == state.Self && l.Outcome == state.Success:
			what, since = "carried out its plan for", m.NextRetryAt
		case m.Source == state.Self:
			since = m.NextRetryAt
		case len(l.Collected) > 0:
			what += fmt.Sprintf(" %d messages, the first of", len(l.Collected)+1)
		case !m.Operator:
			what += " " + senderName(*m)
		}
		if !since.IsZero() {
			what += " " + r.clock(since, l.At)
			after = " after " + formatTook(l.At.Sub(since))
		}
	}
	if cost > 0 {
		after += ", " + cost.String()
	}
	if m == nil {
		return sentenceOf(strings.TrimSuffix(what, " on"), after, wrong)
	}
	return sentence{text: what, quote: m, within: true, after: after + wrong}
}

// ended describes messages that left without a turn. It skips the agent's own plans that were
// ended by another event.
func (r *HistoryReader) ended(l state.Line) sentence {
	row, known := r.rows[l.Key]
	if l.Source == state.Self && (strings.HasPrefix(l.Reason, "ended by ") || strings.HasPrefix(l.Reason, "replaced ")) {
		return sentence{}
	}
	what := "dropped"
	switch {
	case l.What == state.Word(state.Errored):
		what = "failed"
	case strings.HasPrefix(l.Reason, state.SettledReason):
		what = "settled"
	}
	switch {
	case known:
		return sentence{text: what, quote: &row, after: reasonSuffix(plain.Line(l.Reason))}
	case r.numbers[l.Key] != "":
		return sentenceOf(what, ": ", r.numbers[l.Key], reasonSuffix(l.Reason))
	}
	return sentenceOf("a message was ", what, reasonSuffix(l.Reason))
}

// reaped describes the end of a turn whose process died. After a restore its message is held.
func (r *HistoryReader) reaped(l state.Line) sentence {
	if l.Reason == state.WasRestored {
		return sentenceOf("its turn was interrupted", reasonSuffix(l.Reason))
	}
	return sentenceOf("its turn was interrupted and runs again", reasonSuffix(l.Reason))
}

// restored describes a restore from a backup.
func (r *HistoryReader) restored(l state.Line) sentence {
	return sentenceOf("the state was restored from the backup ", plain.Line(l.From), ", ", l.Reason)
}

// moved describes a move to another machine.
func (r *HistoryReader) moved(l state.Line) sentence {
	return sentenceOf("the agent was moved to ", plain.Line(l.To), reasonSuffix(plain.Line(l.Reason)))
}

// queued describes the agent's messages to other agents, and its questions. The turns describe
// its mails.
func (r *HistoryReader) queued(l state.Line) sentence {
	if l.Effect == nil {
		return sentence{}
	}
	to := plain.Line(l.Effect.To)
	switch l.Effect.Kind {
	case state.OperatorQuestion:
		return sentence{text: "asked you" + quoteSuffix(l.Effect.Text) + optionsSuffix(l.Effect.Options)}
	case state.Question:
		return sentence{text: "asked " + to + quoteSuffix(l.Effect.Text)}
	case state.Post:
		return sentence{text: "wrote to " + to + quoteSuffix(l.Effect.Text)}
	}
	return sentence{}
}

func quoteSuffix(text string) string {
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

func (r *HistoryReader) undeliverable(l state.Line) sentence {
	if strings.HasPrefix(l.ID, string(state.HookCall)+".") {
		return sentenceOf("hook ", l.To, " lost an event", reasonSuffix(l.Reason))
	}
	return sentenceOf("gave up sending: ", effectName(l.ID), reasonSuffix(l.Reason))
}

func (r *HistoryReader) notFiled(l state.Line) sentence {
	return sentenceOf("no copy in the sent mail folder: ", effectName(l.ID), reasonSuffix(l.Reason))
}

func (r *HistoryReader) deliveryDropped(l state.Line) sentence {
	if strings.HasPrefix(l.ID, string(state.HookCall)+".") {
		return r.undeliverable(l)
	}
	return sentenceOf("dropped from the outbox: ", effectName(l.ID), reasonSuffix(l.Reason))
}

func (r *HistoryReader) loginRefused(l state.Line) sentence {
	return sentenceOf("login ", l.From, " refused", reasonSuffix(l.Reason))
}

func (r *HistoryReader) loginWorks(l state.Line) sentence {
	return sentenceOf("login ", l.From, " works again")
}

// turnRuns describes a turn that runs on another backend than the first one.
func (r *HistoryReader) turnRuns(l state.Line) sentence {
	if l.Reason == "" {
		return sentence{}
	}
	return sentenceOf(plain.Line(l.Reason))
}

func (r *HistoryReader) backendOut(l state.Line) sentence {
	if l.Outage == nil {
		return sentenceOf(state.BackendName(l.From), " cannot be used", reasonSuffix(l.Reason))
	}
	return sentenceOf(plain.Line(l.Outage.Sentence(l.From)), "; next try at ", terminal.Clock(l.Outage.Until, r.now))
}

func (r *HistoryReader) backendWorks(l state.Line) sentence {
	return sentenceOf(state.BackendName(l.From), " works again")
}

func (r *HistoryReader) halted(l state.Line) sentence {
	what, where := "HALT", ""
	if l.What == state.WordGo {
		what = "GO"
	}
	if l.From == "mesh" {
		where = " by the mesh"
	}
	return sentenceOf(what, where, reasonSuffix(l.Reason))
}

// control describes STOP and STATUS. HALT and GO have their own lines.
func (r *HistoryReader) control(l state.Line) sentence {
	if l.What == state.ControlHalt || l.What == state.ControlGo {
		return sentence{}
	}
	return sentenceOf("you: ", string(l.What))
}

func (r *HistoryReader) reset(l state.Line) sentence {
	if l.Reason == "" {
		return sentence{text: "memory reset"}
	}
	return sentence{text: "memory reset: " + inQuotes(l.Reason)}
}

func (r *HistoryReader) remembered(l state.Line) sentence {
	return sentence{text: "changed its memory" + quoteSuffix(l.Text)}
}

func (r *HistoryReader) restAsked(l state.Line) sentence {
	return sentenceOf("asked to rest ", l.Reason)
}

func (r *HistoryReader) wakeupsHeld(l state.Line) sentence {
	return sentenceOf("holds ", terminal.Count(l.Count, "wakeup"), " until it hears from you")
}

func (r *HistoryReader) reportAwaited(l state.Line) sentence { return sentenceOf("waits for ", l.To) }

// reported describes the reports of others. The turns describe our own.
func (r *HistoryReader) reported(l state.Line) sentence {
	asksYou := strings.HasPrefix(l.Request, string(state.OperatorQuestion)+".")
	switch {
	case l.AnswersOperatorQuestion() && l.Source == state.Mail:
		return sentenceOf("you answered by mail")
	case l.AnswersOperatorQuestion() && state.WroteOnPage(l.Source, l.From):
		return sentenceOf("you answered ", state.OnPage)
	case l.AnswersOperatorQuestion():
		return sentenceOf("you answered at the terminal")
	case asksYou && strings.HasPrefix(l.Response, state.MissedTimeout+":"):
		return sentenceOf("its question to you was closed: you wrote about something else")
	case asksYou && l.Response == state.MissedTimeout:
		return sentenceOf("no answer from you: it continues without one")
	case l.Source != "" || strings.HasPrefix(l.Response, state.MissedTimeout+":"):
		return sentence{}
	case strings.HasPrefix(l.Response, state.MissedTimeout):
		return sentenceOf("no answer from ", l.From)
	case l.Outcome != "":
		return sentenceOf(l.From, " reported: ", string(l.Outcome))
	}
	return sentenceOf(l.From, " reported")
}

func (r *HistoryReader) reportMissing(l state.Line) sentence {
	return sentenceOf("no report from ", l.To)
}

func (r *HistoryReader) schedule(l state.Line) sentence {
	switch {
	case l.What == state.WordRemoved:
		return sentence{text: "the crontab line was removed"}
	case l.Reason != "":
		return sentenceOf("the crontab line cannot be set", reasonSuffix(l.Reason))
	}
	return sentence{}
}

func (r *HistoryReader) credit(l state.Line) sentence {
	if l.What == state.WordOpened {
		return sentenceOf("initial credit: ", l.Amount.String())
	}
	return sentenceOf("credit topped up by ", l.Amount.String())
}

func (r *HistoryReader) tier(l state.Line) sentence {
	switch state.Tier(l.What) {
	case state.TierNormal:
		return sentenceOf("money is available again", reasonSuffix(l.Reason))
	case state.TierDead:
		return sentenceOf("out of money", reasonSuffix(l.Reason))
	}
	return sentenceOf("money is short (", string(l.What), ")", reasonSuffix(l.Reason))
}

func (r *HistoryReader) unfetched(l state.Line) sentence {
	which := "a mail"
	if n := r.numbers[l.Key]; n != "" {
		which += " (" + n + ")"
	}
	switch l.What {
	case state.WordEnded:
		return sentenceOf(which, " that could not be fetched ", l.Reason)
	case state.WordStillFailing:
		return sentenceOf(which, " still cannot be fetched", reasonSuffix(l.Reason))
	}
	return sentenceOf(which, " cannot be fetched", reasonSuffix(l.Reason))
}

func (r *HistoryReader) damaged(l state.Line) sentence {
	if l.What == state.WordMended {
		return sentenceOf("a damaged mail from ", l.From, " was fetched again")
	}
	return sentenceOf("a mail from ", l.From, " was damaged and will be fetched again", reasonSuffix(l.Reason))
}

func (r *HistoryReader) returned(l state.Line) sentence {
	if l.What == state.WordDelayed {
		return sentenceOf("mail to ", l.To, " is delayed", reasonSuffix(l.Reason))
	}
	return sentenceOf("mail to ", l.To, " was returned", reasonSuffix(l.Reason))
}
