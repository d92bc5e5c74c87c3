package state

import "agentstateloop/internal/members"

// The members of a turn and of its costs; see members_state.go.

func (h *Head) members(c *members.Coder) {
	members.Text(c, "status", &h.Status)
	members.OptText(c, "turn_id", &h.TurnID)
	members.OptNumber(c, "epoch", &h.Epoch)
	members.OptText(c, "key", &h.Key)
	members.OptTime(c, "since", &h.Since)
	members.OptBool(c, "working", &h.Working)
	members.OptText(c, "stop", &h.Stop)
	members.OptBool(c, "pulled", &h.Pulled)
	members.OptBool(c, "lingers", &h.Lingers)
	members.OptText(c, "submitted", &h.Submitted)
	members.OptText(c, "submitted_sha256", &h.SubmittedSum)
	members.OptText(c, "box", &h.Box)
	members.OptBool(c, "resumed", &h.Resumed)
	members.OptTexts(c, "with", &h.With)
	members.OptBool(c, "finish", &h.Finish)
	members.OptObjects(c, "waiting", &h.Waiting, (*Wait).members)
	members.OptObjects(c, "given", &h.Given, (*Wait).members)
	members.OptTime(c, "resume_by", &h.ResumeBy)
	members.OptNumber(c, "patience", &h.Patience)
}

func (w *Wait) members(c *members.Coder) {
	members.Text(c, "tool_call_id", &w.ID)
	members.Text(c, "to", &w.To)
	members.OptText(c, "text", &w.Text)
	members.Time(c, "asked", &w.Asked)
	members.OptText(c, "report", &w.Report)
	members.OptText(c, "missed", &w.Missed)
	members.OptTime(c, "by", &w.By)
	members.OptNumber(c, "span", &w.Span)
	members.OptBool(c, "outside", &w.Outside)
	members.OptTexts(c, "peers", &w.Peers)
	members.OptText(c, "words", &w.Words)
	members.OptText(c, "words_sha256", &w.WordsSum)
	members.OptBool(c, "handed", &w.Handed)
	members.OptBool(c, "operator", &w.Operator)
	members.OptTexts(c, "options", &w.Options)
	members.OptBool(c, "told", &w.Told)
	members.OptText(c, "permit", &w.Permit)
	members.OptBool(c, "used", &w.Used)
	members.OptText(c, "sha256", &w.Sum)
	members.OptText(c, "status", &w.Status)
}

func (e *Expected) members(c *members.Coder) {
	e.Wait.members(c)
	members.Object(c, "cause", &e.Cause, (*Message).members)
	members.OptText(c, "for", &e.For)
}

func (p *Purse) members(c *members.Coder) {
	members.OptObjects(c, "days", &p.Days, (*Account).members)
	members.OptObjects(c, "months", &p.Months, (*Account).members)
	members.OptNumber(c, "total", &p.Total)
	members.OptBool(c, "opened", &p.Opened)
	members.OptNumber(c, "base", &p.Base)
	members.OptNumber(c, "granted", &p.Granted)
	members.OptTexts(c, "counted", &p.Counted)
	members.OptObject(c, "meter", &p.Meter, (*Meter).members)
	members.OptObjects(c, "meters", &p.Meters, (*Meter).members)
	members.OptTexts(c, "unpriced", &p.Unpriced)
	members.OptTexts(c, "unbilled", &p.Unbilled)
	members.OptText(c, "tier", &p.Tier)
	members.OptText(c, "mourned", &p.DeathTold)
}

func (a *Account) members(c *members.Coder) {
	members.Text(c, "period", &a.Period)
	members.Number(c, "micros", &a.Cost)
}

func (m *Meter) members(c *members.Coder) {
	members.OptText(c, "session", &m.Session)
	members.OptObject(c, "tokens", &m.Tokens, (*Tokens).members)
}

func (t *Tokens) members(c *members.Coder) {
	members.OptNumber(c, "input", &t.Input)
	members.OptNumber(c, "output", &t.Output)
	members.OptNumber(c, "cache_read", &t.CacheRead)
	members.OptNumber(c, "cache_write", &t.CacheWrite)
}

func (s *Spending) members(c *members.Coder) {
	members.Text(c, "id", &s.ID)
	members.OptText(c, "model", &s.Model)
	members.OptObject(c, "tokens", &s.Tokens, (*Tokens).members)
	members.Number(c, "micros", &s.Cost)
	members.OptText(c, "basis", &s.Basis)
}
