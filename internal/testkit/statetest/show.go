package statetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/state"
)

// say formats text and replaces random ids by their names.
func (st *Story) say(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	for _, id := range slices.Sorted(maps.Keys(st.names)) {
		text = strings.ReplaceAll(text, id, st.names[id])
	}
	return text
}

// at formats a time, with the date if it is on another day.
func (st *Story) at(t time.Time) string {
	layout := "15:04"
	if t.Second() != 0 {
		layout = "15:04:05"
	}
	if t.Format(time.DateOnly) != st.Now.Format(time.DateOnly) {
		layout = "2006-01-02 " + layout
	}
	return t.Format(layout)
}

// span formats a duration as short as possible.
func span(d time.Duration) string {
	s := d.String()
	s = strings.Replace(s, "m0s", "m", 1)
	return strings.Replace(s, "h0m", "h", 1)
}

// show writes the state after a step.
func (st *Story) show() {
	s := st.S
	facts := []string{string(s.Phase), "every " + span(s.Interval(st.P))}
	if !s.NextDue.IsZero() {
		facts = append(facts, "next "+st.at(s.NextDue))
	}
	if deadline, ok := s.Deadline(st.P); ok {
		facts = append(facts, "silence ends it at "+st.at(deadline))
	}
	if s.HaltedHere {
		facts = append(facts, "HALT here")
	}
	if s.HaltedMesh {
		facts = append(facts, "HALT on the mesh")
	}
	if s.Turn.Status != state.HeadIdle {
		facts = append(facts, fmt.Sprintf("%s %s epoch %d", s.Turn.TurnID, s.Turn.Status, s.Turn.Epoch))
	}
	if at := s.AckWaits.Until; !at.IsZero() {
		facts = append(facts, "ack waits until "+st.at(at))
	}
	if len(s.Turn.With) > 0 {
		facts = append(facts, "with "+strings.Join(s.Turn.With, ", "))
	}
	if s.Turn.Finish {
		facts = append(facts, "to finish")
	}
	if s.Turn.Lingering() {
		facts = append(facts, fmt.Sprintf("%s epoch %d lingers", s.Turn.TurnID, s.Turn.Epoch))
	}
	if s.Turn.Stop != "" {
		facts = append(facts, "to stop: "+s.Turn.Stop)
	}
	if st.Now.Before(s.CooldownUntil) {
		facts = append(facts, "cooling down until "+st.at(s.CooldownUntil))
	}
	if left, limited := s.Left(st.P, st.Now); limited {
		facts = append(facts, fmt.Sprintf("%s with %v left", s.Tier(st.P, st.Now), left))
	}
	fmt.Fprintf(&st.out, "=> %s\n", st.say("%s", strings.Join(facts, ", ")))
	for _, l := range s.Lines {
		if !st.hides(l) {
			text := st.line(l) + st.chain(l)
			fmt.Fprintf(&st.out, "    %s\n", st.say("%s", text))
		}
	}
	st.showChanged("inbox", st.inbox())
	st.showChanged("outbox", st.outbox())
	st.showChanged("hooks", st.hooks())
	st.showChanged("prompts", st.prompts())
	st.showChanged("nudges", st.rings())
	st.showChanged("lost", st.lost())
	st.showChanged("sending", st.sendingFails())
	st.showChanged("given up", st.undelivered())
	st.showChanged("owed", st.owed())
	st.showChanged("waits", st.waits())
	st.showChanged("unfetched", st.unfetched())
	st.showChanged("large", st.S.LargeMails())
	st.showChanged("failing", st.failing())
	st.showChanged("quarantine", st.quarantine())
	st.showChanged("out", st.backends())
	st.showChanged("spent", st.spent())
}

// backends returns the backends that are out, and until when.
func (st *Story) backends() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(st.S.Outages)) {
		o := st.S.Outages[name]
		words := fmt.Sprintf("%s %s until %s, try %d", name, o.Kind, st.at(o.Until), o.Tries)
		if o.Told {
			words += ", told"
		}
		out = append(out, words)
	}
	return out
}

// spent returns the totals of the purse.
func (st *Story) spent() []string {
	p := st.S.Purse
	if p.Total == 0 && p.Granted == 0 {
		return nil
	}
	today, month := st.S.SpentOn(st.P, st.Now)
	rows := []string{fmt.Sprintf("%v today, %v this month, %v in all", today, month, p.Total)}
	for _, m := range st.S.Inbox {
		if m.Cost > 0 {
			rows = append(rows, fmt.Sprintf("%v on %s", m.Cost, m.Key))
		}
	}
	if len(p.Unpriced) > 0 {
		rows = append(rows, "no price of "+strings.Join(p.Unpriced, ", "))
	}
	if p.Meter.Session != "" {
		rows = append(rows, fmt.Sprintf("meter of %s at %d", p.Meter.Session, p.Meter.Tokens.Input))
	}
	return rows
}

// showChanged writes a list if it differs from the one shown before.
func (st *Story) showChanged(what string, items []string) {
	text := strings.Join(items, "\n             ")
	if text == st.shown[what] {
		return
	}
	st.shown[what] = text
	fmt.Fprintf(&st.out, "    %-8s %s\n", what+":", st.say("%s", cmp.Or(text, "nothing")))
}

func (st *Story) inbox() []string {
	var rows []string
	for _, m := range st.S.Inbox {
		row := fmt.Sprintf("%s %s", m.Key, m.Status)
		if !m.NextRetryAt.IsZero() {
			row += " until " + st.at(m.NextRetryAt)
		}
		if m.Reason != "" {
			row += " (" + m.Reason + ")"
		}
		if held := st.S.SelfHeld(m, st.P, st.Now); held != "" && !st.Now.Before(m.NextRetryAt) {
			row += ", held: " + held
		}
		if m.EndedSleep != "" {
			row += fmt.Sprintf(", ended the sleep %q", m.EndedSleep)
		}
		if m.Said != "" {
			row += ", said " + m.Said
		}
		if m.Attempts > 1 {
			row += fmt.Sprintf(", attempt %d", m.Attempts)
		}
		if m.Note != "" {
			row += ", with a note"
		}
		rows = append(rows, row)
	}
	return rows
}

// prompts returns the next firings of the prompts by the clock.
func (st *Story) prompts() []string {
	var rows []string
	for _, p := range st.S.Prompts {
		row := p.Name + " next " + st.at(p.Next)
		if p.AskedBy != "" {
			row += fmt.Sprintf(", %s may ask until %s", p.AskedBy, st.at(p.AskedUntil))
		}
		if p.Fails != "" {
			row += fmt.Sprintf(", fails since %s: %s", st.at(p.Since), p.Fails)
		}
		rows = append(rows, row)
	}
	return rows
}

// rings returns the nudges that no turn of the operator has seen.
func (st *Story) rings() []string {
	var rows []string
	for _, r := range st.S.Rings {
		rows = append(rows, fmt.Sprintf("%s by %s at %s: %s", cmp.Or(r.From, "somebody"), r.Source, st.at(r.At), r.Reason))
	}
	return rows
}

// hooks returns the waiting hook calls and the failing hooks.
func (st *Story) hooks() []string {
	due := st.S.DueHookCalls(st.Now)
	var rows []string
	for _, e := range st.S.HookCalls {
		row := fmt.Sprintf("%s to %s: %s", e.ID, e.To, e.Announces.Event)
		if slices.ContainsFunc(due, func(d state.Effect) bool { return d.ID == e.ID }) {
			row += ", due"
		}
		if e.NotBefore.After(st.Now) {
			row += ", not before " + st.at(e.NotBefore)
		}
		rows = append(rows, row)
	}
	for _, name := range slices.Sorted(maps.Keys(st.S.FailingHooks)) {
		f := st.S.FailingHooks[name]
		if f.Fails() {
			rows = append(rows, fmt.Sprintf("%s fails since %s, %d lost: %s", name, st.at(f.Since), f.Lost, f.Reason))
		}
	}
	return rows
}

// owed returns the pending updates: \Seen flags, mesh acks and the crontab.
func (st *Story) owed() []string {
	var owed []string
	if len(st.S.ToFlag.UIDs) > 0 {
		owed = append(owed, fmt.Sprintf(`\Seen %v`, st.S.ToFlag.UIDs))
	}
	if len(st.S.ToAck) > 0 {
		owed = append(owed, fmt.Sprintf("mesh ack %v", st.S.ToAck))
	}
	if st.S.Schedule.Removed {
		owed = append(owed, "no crontab line")
	}
	return owed
}

// waits returns the questions of the turn, its session, and whether the agent sleeps.
func (st *Story) waits() []string {
	var rows []string
	for _, w := range st.S.Turn.Waiting {
		rows = append(rows, st.wait(w))
	}
	for _, x := range st.S.Expected {
		rows = append(rows, st.wait(x.Wait)+", expected for "+x.For)
	}
	rows = append(rows, conversation(st.S.Conversation, "")...)
	for _, o := range st.S.Others {
		with := " with " + string(o.With)
		if o.Thread != "" {
			with += " in " + o.Thread
		}
		rows = append(rows, conversation(o.Conversation, with)...)
	}
	if k := st.S.Streak; k != (state.SelfStreak{}) {
		row := fmt.Sprintf("%d self turns", k.Turns)
		if k.Peers > 0 {
			row += fmt.Sprintf(", %d of them for peers", k.Peers)
		}
		if k.Told {
			row += ", told"
		}
		rows = append(rows, row)
	}
	if !st.S.SleepUntil.IsZero() {
		rows = append(rows, "sleeps until "+st.at(st.S.SleepUntil))
	}
	return rows
}

func (st *Story) wait(w state.Wait) string {
	row := fmt.Sprintf("%s of %s", w.ID, w.To)
	switch {
	case w.Report != "":
		row += strings.TrimRight(", answered by "+w.Report+" "+string(w.Status), " ")
	case w.Missed != "":
		row += ", " + w.Missed
	default:
		row += ", until " + st.at(w.By)
	}
	if len(w.Options) > 0 {
		row += ", options " + strings.Join(w.Options, ", ")
	}
	if w.Handed {
		row += ", handed over"
	}
	return row
}

// withAgent names the principal of a memory or summary, unless it is the operator.
func withAgent(l state.Line) string {
	if l.With == state.OperatorPrincipal {
		return ""
	}
	return " with " + string(l.With)
}

// conversation returns the session and the summary of a conversation. with names its principal.
func conversation(c state.Conversation, with string) []string {
	var rows []string
	if id := c.Session.ID; id != "" {
		row := "session " + id + with
		if vain := c.Session.FailedSummaries; vain > 0 {
			row += fmt.Sprintf(", %d failed summaries", vain)
		}
		rows = append(rows, row)
	}
	if through := c.Compacted.Through; through > 0 {
		rows = append(rows, fmt.Sprintf("a summary%s through epoch %d", with, through))
	}
	return rows
}

// line formats a history line.
func (st *Story) line(l state.Line) string {
	reason := ""
	if l.Reason != "" {
		reason = ": " + l.Reason
	}
	switch l.Kind {
	case state.LineTransition:
		return fmt.Sprintf("%s → %s%s", l.Old, l.New, reason)
	case state.LineMessage:
		return fmt.Sprintf("message %s from %s", l.Key, l.From)
	case state.LineEffect:
		text := l.Effect.Text
		if l.Effect.Announces != nil {
			text = l.Effect.Announces.Event
		}
		if text != "" {
			text = fmt.Sprintf(": %q", text)
		}
		if tells := l.Effect.Tells; len(tells) > 0 {
			text = " about " + strings.Join(tells, ", ")
		}
		if subject := l.Effect.Thread.Subject; subject != "" {
			text = fmt.Sprintf(", subject %q%s", subject, text)
		}
		return fmt.Sprintf("%s %s for %s by %s%s", l.ID, l.What, l.Effect.To, l.Effect.Channel, text)
	case state.LineDelivery:
		return fmt.Sprintf("%s %s%s", l.ID, l.What, reason)
	case state.LineTurn:
		return strings.TrimSpace(fmt.Sprintf("turn %s epoch %d %s %s", l.TurnID, l.Epoch, l.What, l.Key)) + reason
	case state.LineSpend:
		return fmt.Sprintf("spend %s %v of %s for %s by %s, on %s%s", l.Spending.ID, l.Spending.Cost, l.TurnID, l.From, l.Spending.Basis, l.Day, reason)
	case state.LineCredit:
		return fmt.Sprintf("credit %s %v", l.What, l.Amount)
	case state.LineBackend:
		return fmt.Sprintf("backend %s %s%s", l.From, l.What, reason)
	case state.LineTier:
		return fmt.Sprintf("tier %s → %s%s", l.From, l.What, reason)
	case state.LineMemory:
		return fmt.Sprintf("memory of turn %s epoch %d%s: %q", l.TurnID, l.Epoch, withAgent(l), l.Text)
	case state.LineCompaction:
		text := ""
		if l.Text != "" {
			text = fmt.Sprintf(" through epoch %d: %q", l.Epoch, l.Text)
		}
		return "compaction " + string(l.What) + withAgent(l) + text + reason
	case state.LineTask:
		return fmt.Sprintf("task %s epoch %d %s %s: %s/%s%s", l.TurnID, l.Epoch, l.Outcome, l.Key, l.OutputBox, l.Deliverable, reason)
	}
	words := []string{string(l.Kind)}
	to := ""
	if l.To != "" {
		to = "to " + l.To
	}
	id := ""
	if l.Kind == state.LineChallenge || l.Kind == state.LineBounce || l.Kind == state.LineGivenUp {
		id = l.ID
	}
	for _, w := range append([]string{id, l.Key, l.From, to, l.Gate, string(l.What)}, edge(l)...) {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ") + reason
}
