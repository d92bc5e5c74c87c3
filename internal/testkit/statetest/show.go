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

// say replaces random ids by their names.
func (st *Story) say(text string) string {
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
	return strings.NewReplacer("h0m0s", "h", "h0m", "h", "m0s", "m").Replace(d.String())
}

// when returns text if the condition holds, or "".
func when(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}

// join joins the words that are not empty.
func join(separator string, words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), separator)
}

// rows describes the elements of a list.
func rows[T any](list []T, describe func(T) string) (rows []string) {
	for _, x := range list {
		rows = append(rows, describe(x))
	}
	return rows
}

// show writes the state after a step.
func (st *Story) show() {
	s := st.S
	deadline, ends := s.Deadline(st.P)
	left, limited := s.Left(st.P, st.Now)
	fmt.Fprintf(&st.out, "=> %s\n", st.say(join(", ",
		string(s.Phase),
		"every "+span(s.Interval(st.P)),
		when(!s.NextDue.IsZero(), "next "+st.at(s.NextDue)),
		when(ends, "silence ends it at "+st.at(deadline)),
		when(s.HaltedHere, "HALT here"),
		when(s.HaltedMesh, "HALT on the mesh"),
		when(s.Turn.Status != state.HeadIdle, fmt.Sprintf("%s %s epoch %d", s.Turn.TurnID, s.Turn.Status, s.Turn.Epoch)),
		when(!s.AckWaits.Until.IsZero(), "ack waits until "+st.at(s.AckWaits.Until)),
		when(len(s.Turn.With) > 0, "with "+strings.Join(s.Turn.With, ", ")),
		when(s.Turn.Finish, "to finish"),
		when(s.Turn.Lingering(), fmt.Sprintf("%s epoch %d lingers", s.Turn.TurnID, s.Turn.Epoch)),
		when(s.Turn.Stop != "", "to stop: "+s.Turn.Stop),
		when(st.Now.Before(s.CooldownUntil), "cooling down until "+st.at(s.CooldownUntil)),
		when(limited, fmt.Sprintf("%s with %v left", s.Tier(st.P, st.Now), left)),
	)))
	for _, l := range s.Lines {
		if !st.hides(l) {
			fmt.Fprintf(&st.out, "    %s\n", st.say(st.line(l)+st.chain(l)))
		}
	}
	st.showChanged("restored", st.restored())
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

// showChanged writes a list if it differs from the one shown before.
func (st *Story) showChanged(what string, items []string) {
	text := join("\n             ", items...)
	if text == st.shown[what] {
		return
	}
	st.shown[what] = text
	fmt.Fprintf(&st.out, "    %-8s %s\n", what+":", st.say(cmp.Or(text, "nothing")))
}

// backends returns the backends that are out, and until when.
func (st *Story) backends() []string {
	return rows(slices.Sorted(maps.Keys(st.S.Outages)), func(name string) string {
		o := st.S.Outages[name]
		return fmt.Sprintf("%s %s until %s, try %d", name, o.Kind, st.at(o.Until), o.Tries) + when(o.Told, ", told")
	})
}

// spent returns the totals of the purse.
func (st *Story) spent() []string {
	p := st.S.Purse
	if p.Total == 0 && p.Granted == 0 {
		return nil
	}
	today, month := st.S.SpentOn(st.P, st.Now)
	return slices.Concat(
		[]string{fmt.Sprintf("%v today, %v this month, %v in all", today, month, p.Total)},
		rows(st.S.Inbox, func(m state.Message) string { return when(m.Cost > 0, fmt.Sprintf("%v on %s", m.Cost, m.Key)) }),
		[]string{
			when(len(p.Unpriced) > 0, "no price of "+strings.Join(p.Unpriced, ", ")),
			when(p.Meter.Session != "", fmt.Sprintf("meter of %s at %d", p.Meter.Session, p.Meter.Tokens.Input)),
		},
	)
}

func (st *Story) inbox() []string {
	return rows(st.S.Inbox, func(m state.Message) string {
		held := st.S.SelfHeld(m, st.P, st.Now)
		return fmt.Sprintf("%s %s", m.Key, m.Status) +
			when(!m.NextRetryAt.IsZero(), " until "+st.at(m.NextRetryAt)) +
			when(m.Reason != "", " ("+m.Reason+")") +
			when(held != "" && !st.Now.Before(m.NextRetryAt), ", held: "+held) +
			when(m.EndedSleep != "", fmt.Sprintf(", ended the sleep %q", m.EndedSleep)) +
			when(m.Said != "", ", said "+m.Said) +
			when(m.Attempts > 1, fmt.Sprintf(", attempt %d", m.Attempts)) +
			when(m.Note != "", ", with a note") +
			when(m.Held, ", held")
	})
}

// restored returns what became of a restored mailbox, and where the agent was moved.
func (st *Story) restored() []string {
	var all []string
	if r := st.S.Restore; r != nil {
		all = append(all, fmt.Sprintf("from %s, %d settled, %d run, %d unknown, told %d times", r.From, r.Settled, r.Run, r.Unknown, r.Told)+
			when(len(r.Asked) > 0, ", asked about "+strings.Join(r.Asked, " "))+when(r.Blind != "", ", without sent mail: "+r.Blind)+
			when(!r.Over, ", goes on"))
	}
	if m := st.S.Moved; m != nil {
		all = append(all, fmt.Sprintf("moved to %s, %s", m.To, m.Archive))
	}
	return append(all, when(st.S.Version != state.Version, fmt.Sprintf("version %d", st.S.Version)))
}

// prompts returns the next firings of the prompts by the clock.
func (st *Story) prompts() []string {
	return rows(st.S.Prompts, func(p state.TimedPrompt) string {
		return p.Name + " next " + st.at(p.Next) +
			when(p.AskedBy != "", fmt.Sprintf(", %s may ask until %s", p.AskedBy, st.at(p.AskedUntil))) +
			when(p.Fails != "", fmt.Sprintf(", fails since %s: %s", st.at(p.Since), p.Fails))
	})
}

// rings returns the nudges that no turn of the operator has seen.
func (st *Story) rings() []string {
	return rows(st.S.Rings, func(r state.Ring) string {
		return fmt.Sprintf("%s by %s at %s: %s", cmp.Or(r.From, "somebody"), r.Source, st.at(r.At), r.Reason)
	})
}

// hooks returns the waiting hook calls and the failing hooks.
func (st *Story) hooks() []string {
	due := st.S.DueHookCalls(st.Now)
	return append(rows(st.S.HookCalls, func(e state.Effect) string {
		return fmt.Sprintf("%s to %s: %s", e.ID, e.To, e.Announces.Event) +
			when(contains(due, e), ", due") +
			when(e.NotBefore.After(st.Now), ", not before "+st.at(e.NotBefore))
	}), rows(slices.Sorted(maps.Keys(st.S.FailingHooks)), func(name string) string {
		f := st.S.FailingHooks[name]
		return when(f.Fails(), fmt.Sprintf("%s fails since %s, %d lost: %s", name, st.at(f.Since), f.Lost, f.Reason))
	})...)
}

// contains reports whether an effect is among the effects.
func contains(effects []state.Effect, e state.Effect) bool {
	return slices.ContainsFunc(effects, func(other state.Effect) bool { return other.ID == e.ID })
}

// owed returns the pending updates: flags of mails, mesh acks and the crontab.
func (st *Story) owed() []string {
	return []string{
		when(len(st.S.ToFlag.UIDs) > 0, fmt.Sprintf(`\Seen %v`, st.S.ToFlag.UIDs)),
		when(len(st.S.ToFlag.Answered) > 0, fmt.Sprintf(`\Answered %v`, st.S.ToFlag.Answered)),
		when(len(st.S.ToAck) > 0, fmt.Sprintf("mesh ack %v", st.S.ToAck)),
		when(st.S.Schedule.Removed, "no crontab line"),
	}
}

// waits returns the questions of the turn, its session, and whether the agent sleeps.
func (st *Story) waits() []string {
	streak := st.S.Streak
	all := slices.Concat(
		rows(st.S.Turn.Waiting, st.wait),
		rows(st.S.Expected, func(x state.Expected) string { return st.wait(x.Wait) + ", expected for " + x.For }),
		conversation(st.S.Conversation, ""),
	)
	for _, o := range st.S.Others {
		all = append(all, conversation(o.Conversation, " with "+string(o.With)+when(o.Thread != "", " in "+o.Thread))...)
	}
	return append(all,
		when(streak != (state.SelfStreak{}), fmt.Sprintf("%d self turns", streak.Turns)+
			when(streak.Peers > 0, fmt.Sprintf(", %d of them for peers", streak.Peers))+
			when(streak.Told, ", told")),
		when(!st.S.SleepUntil.IsZero(), "sleeps until "+st.at(st.S.SleepUntil)),
	)
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
	return row + when(len(w.Options) > 0, ", options "+strings.Join(w.Options, ", ")) + when(w.Handed, ", handed over")
}

// withAgent names the principal of a memory or summary, unless it is the operator.
func withAgent(l state.Line) string {
	return when(l.With != state.OperatorPrincipal, " with "+string(l.With))
}

// conversation returns the session and the summary of a conversation. with names its principal.
func conversation(c state.Conversation, with string) []string {
	failed := c.Session.FailedSummaries
	return []string{
		when(c.Session.ID != "", "session "+c.Session.ID+with+when(failed > 0, fmt.Sprintf(", %d failed summaries", failed))),
		when(c.Compacted.Through > 0, fmt.Sprintf("a summary%s through epoch %d", with, c.Compacted.Through)),
	}
}

// line formats a history line.
func (st *Story) line(l state.Line) string {
	reason := when(l.Reason != "", ": "+l.Reason)
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
		subject := when(l.Effect.Thread.Subject != "", fmt.Sprintf(", subject %q", l.Effect.Thread.Subject))
		return fmt.Sprintf("%s %s for %s by %s%s%s", l.ID, l.What, l.Effect.To, l.Effect.Channel, subject, text)
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
		return "compaction " + string(l.What) + withAgent(l) + when(l.Text != "", fmt.Sprintf(" through epoch %d: %q", l.Epoch, l.Text)) + reason
	case state.LineTask:
		return fmt.Sprintf("task %s epoch %d %s %s: %s/%s%s", l.TurnID, l.Epoch, l.Outcome, l.Key, l.OutputBox, l.Deliverable, reason)
	}
	id := when(l.Kind == state.LineChallenge || l.Kind == state.LineBounce || l.Kind == state.LineGivenUp, l.ID)
	words := []string{string(l.Kind), id, l.Key, l.From, when(l.To != "", "to "+l.To), l.Gate, string(l.What)}
	return join(" ", append(words, edge(l)...)...) + reason
}

// unfetched returns the mails that cannot be fetched.
func (st *Story) unfetched() []string {
	return rows(st.S.FailingMails(), func(f state.FailingMail) string {
		return fmt.Sprintf("%s after %d tries, again at %s", f.Key, f.Tries, st.at(f.Next))
	})
}

func (st *Story) outbox() []string {
	due := st.S.DueEffects(st.Now)
	return rows(st.S.Outbox, func(e state.Effect) string {
		return fmt.Sprintf("%s to %s", e.ID, e.To) +
			when(contains(due, e), ", due") +
			when(e.NotBefore.After(st.Now), ", not before "+st.at(e.NotBefore)) +
			when(!e.Expires.IsZero(), ", expires "+st.at(e.Expires)) +
			when(e.Copies > 1, fmt.Sprintf(", %d copies", e.Copies)) +
			when(e.Sending, ", on its way") +
			when(e.Unknown && !e.Sending, ", may have arrived")
	})
}

// lost returns the mails that came back.
func (st *Story) lost() []string {
	return rows(st.S.Lost, func(r state.Returned) string {
		return fmt.Sprintf("%s to %s: %s", r.ID, r.To, r.Reason) + when(!r.Told.IsZero(), ", told")
	})
}

// sendingFails returns since when mail cannot be sent.
func (st *Story) sendingFails() []string {
	fails := st.S.SendingFails
	return []string{when(st.S.SendingIsDown(), fmt.Sprintf("fails since %s: %s", st.at(fails.Since), fails.Reason))}
}

// undelivered returns the rows that were given up, and how the operator was told.
func (st *Story) undelivered() []string {
	return rows(st.S.Undelivered, func(e state.Effect) string {
		return fmt.Sprintf("%s to %s at %s", e.ID, e.To, st.at(e.GivenUp)) + when(e.Told != "", ", told by "+string(e.Told))
	})
}

func (st *Story) quarantine() []string {
	s := st.S
	counts := []string{
		when(s.Quarantined > 0, fmt.Sprintf("%d kept", s.Quarantined)),
		when(s.Unkept > 0, fmt.Sprintf("%d not kept", s.Unkept)),
	}
	challenges := rows(s.Challenges, func(t state.OpenChallenge) string {
		return fmt.Sprintf("%s asks about %s until %s", t.ID, t.Key, st.at(t.Until))
	})
	return append(append(counts, challenges...),
		when(len(s.Unasked) > 0, "to be asked about: "+strings.Join(s.Unasked, " ")),
		when(len(s.Doubtful) > 0, "signed, to be asked about: "+strings.Join(s.Doubtful, " ")),
	)
}

func (st *Story) failing() []string {
	return rows(slices.Sorted(maps.Keys(st.S.Credentials)), func(name string) string {
		c := st.S.Credentials[name]
		return fmt.Sprintf("%s, failure %d since %s", name, c.Failures, st.at(c.Since)) +
			when(c.Keymaster.Sent, ", keymaster told") +
			when(c.Operator.Sent, ", operator told") +
			when(c.ToldByHook, ", told by a hook")
	})
}

// hides reports whether the transcript leaves a line out. A transcript with the line "chains" shows
// the chain of each line, and the edges of every source. Others show only the edges between agents.
func (st *Story) hides(l state.Line) bool {
	return !st.chains && l.Kind == state.LineEdge && !l.AnswersOperatorQuestion() && l.Source != "" && l.Source != state.Mesh
}

// chain returns the end of a shown line: its chain, numbered from 1 unless it came from another
// agent.
func (st *Story) chain(l state.Line) string {
	if !st.chains || l.Trace == "" {
		return ""
	}
	if strings.HasPrefix(l.Trace, "trace.") {
		st.number(l.Trace, "chain")
	}
	return " [" + l.Trace + "]"
}

// edge returns the ids of an edge, and the outcome of the turn that it reports on.
func edge(l state.Line) []string {
	words := []string{l.Request, l.Response, string(l.Outcome)}
	if l.Request == l.Key {
		words[0] = ""
	}
	if strings.HasPrefix(l.Response, string(l.Outcome)) || l.Source == state.Mesh && l.Outcome == state.Success {
		words[2] = ""
	}
	return words
}
