package page

import (
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
)

// planned returns the schedule, the next entry first, and how many are left out.
func planned(st view.Status, now time.Time) ([]Planned, int) {
	all := []Planned{}
	add := func(what string, at *time.Time, text string) {
		if at != nil {
			all = append(all, Planned{What: what, At: at.UTC(), Text: plain.Line(text)})
		}
	}
	add("poll", st.NextDue, "the next poll")
	if st.Deadline != nil && st.Deadline.After(now) { // a past one waits for the end of the turn
		add("phase", st.Deadline, "IDLE, unless you write")
	}
	add("ack", st.AckDue, "the ack, unless the answer comes first")
	if st.Schedule.AlarmReason != nil {
		add("alarm", st.Schedule.Alarm, *st.Schedule.AlarmReason)
	}
	for _, w := range st.Self.Wakeups {
		add("wakeup", &w.At, w.Kind+lead(": ", w.Title)+lead("; waits: ", w.Held))
	}
	for _, p := range st.Prompts {
		add("prompt", p.Next, "the prompt "+p.Name+lead("; waits: ", p.Held))
	}
	for _, d := range st.Inbox.Deferrals {
		add("retry", &d.Next, terminal.Count(d.Count, "message")+lead(": ", d.Reason))
	}
	for _, o := range st.Outages {
		add("retry", &o.Until, o.Name+" is tried again"+lead(": ", o.Reason))
	}
	for _, h := range st.Outbox.Holds {
		add("retry", h.NextTry, "the outbox: "+terminal.Count(h.Count, "message")+" waiting, "+h.Text)
	}
	if st.Sending != nil {
		add("retry", &st.Sending.NextTry, "sending mail"+lead(": ", st.Sending.Reason))
	}
	if w := st.Inbox.Withheld; w != nil {
		add("retry", &w.Next, terminal.Count(w.Count, "mail")+" that the server does not deliver")
	}
	add("retry", st.Cooldown, "turns run again after too many failed in a row")
	add("resume", st.Turn.ResumeBy, "the turn continues without the missing answers")
	if st.Turn.KillFor != nil {
		add("kill", st.Turn.KillAt, "the turn is ended because it "+*st.Turn.KillFor)
	}
	order.Stable(all, func(a, b Planned) int { return a.At.Compare(b.At) })
	rest := max(0, len(all)-maxPlanned)
	return all[:len(all)-rest], rest
}

// lead returns text after lead, or "" without a text.
func lead(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}
