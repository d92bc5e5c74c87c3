package state

import "agentstateloop/internal/members"

// Below are the members of every type in state.json, for package members. A new field of one of
// these types is added here as well, in the order of the fields; TestEveryMember fails until it is.

// Members lists the members of the state for [members.Append] and [members.Read].
func (s *State) Members(c *members.Coder) {
	members.Number(c, "version", &s.Version)
	members.Number(c, "serial", &s.Serial)
	members.Text(c, "agent", &s.Agent)
	members.Text(c, "seed", &s.Seed)
	members.Number(c, "minted", &s.Minted)
	members.OptBool(c, "ids_keyed", &s.IDsKeyed)
	members.Text(c, "phase", &s.Phase)
	members.Time(c, "phase_since", &s.PhaseSince)
	members.OptTime(c, "last_step", &s.LastStep)
	members.OptTime(c, "next_due", &s.NextDue)
	members.OptTime(c, "last_operator", &s.LastOperator)
	members.OptTime(c, "last_delivery", &s.LastDelivery)
	members.OptTime(c, "last_look", &s.LastMailRead)
	members.OptObject(c, "last_mail", &s.LastMail, (*LastMail).members)
	members.OptObject(c, "last_answer", &s.LastAnswer, (*LastAnswer).members)
	members.OptBool(c, "halted_here", &s.HaltedHere)
	members.OptBool(c, "halted_mesh", &s.HaltedMesh)
	members.OptTimes(c, "acks", &s.Acks)
	members.OptTimes(c, "quiets", &s.Quiets)
	members.OptTimes(c, "accepted", &s.Accepted)
	members.OptTimes(c, "programs", &s.Programs)
	members.OptTimes(c, "alarms", &s.Alarms)
	members.OptTimes(c, "posts", &s.Posts)
	members.OptObjects(c, "operator_asked", &s.OperatorAsked, (*AskedOperator).members)
	members.OptObjects(c, "relays", &s.Relays, (*Relaying).members)
	members.OptObjects(c, "rung", &s.Rung, (*Ringing).members)
	members.OptText(c, "woken_by", &s.WokenBy)
	members.OptTime(c, "rate_told", &s.RateTold)
	members.OptObject(c, "ack_waits", &s.AckWaits, (*WaitingAck).members)
	members.OptBool(c, "unmailed", &s.Unmailed)
	members.OptObject(c, "cursor", &s.Cursor, (*Cursor).members)
	members.OptObject(c, "to_flag", &s.ToFlag, (*ToFlag).members)
	members.OptTexts(c, "to_ack", &s.ToAck)
	members.OptObject(c, "thread", &s.Thread, (*Thread).members)
	members.OptSet(c, "seen", &s.Seen)
	members.OptTexts(c, "nudges", &s.Nudges)
	members.OptObjects(c, "rings", &s.Rings, (*Ring).members)
	members.OptObject(c, "last_ring", &s.LastRing, (*Ring).members)
	members.OptRows(c, "inbox", &s.Inbox, (*Message).members)
	members.Number(c, "arrivals", &s.Arrivals)
	members.OptNumber(c, "quarantined", &s.Quarantined)
	members.OptNumber(c, "unkept", &s.Unkept)
	members.OptObject(c, "uncalled", &s.Uncalled, (*Uncalled).members)
	members.OptObject(c, "numbers", &s.Numbers, (*Numbers).members)
	members.OptNumberMap(c, "unfetched", &s.Unfetched)
	members.OptObjects(c, "challenges", &s.Challenges, (*OpenChallenge).members)
	members.OptTexts(c, "unasked", &s.Unasked)
	members.OptTexts(c, "doubtful", &s.Doubtful)
	members.OptTime(c, "last_challenge", &s.LastChallenge)
	members.OptObjects(c, "outbox", &s.Outbox, (*Effect).members)
	members.OptObject(c, "sending_fails", &s.SendingFails, (*SendingFailure).members)
	members.OptObjects(c, "undelivered", &s.Undelivered, (*Effect).members)
	members.OptObjects(c, "unfiled", &s.Unfiled, (*Unfiled).members)
	members.OptBool(c, "owing", &s.Owing)
	members.OptObjects(c, "lost", &s.Lost, (*Returned).members)
	members.OptObjects(c, "hook_calls", &s.HookCalls, (*Effect).members)
	members.OptObjectMap(c, "failing_hooks", &s.FailingHooks, (*FailingHook).members)
	members.Object(c, "turn", &s.Turn, (*Head).members)
	members.Number(c, "epoch", &s.Epoch)
	members.OptBool(c, "asleep", &s.Asleep)
	members.OptTime(c, "sleep_until", &s.SleepUntil)
	members.OptNumber(c, "sleep_for", &s.SleepFor)
	members.OptObject(c, "self_streak", &s.Streak, (*SelfStreak).members)
	members.OptObject(c, "reset", &s.Reset, (*Reset).members)
	members.OptNumber(c, "failed_turns", &s.FailedTurns)
	members.OptTime(c, "cooldown_until", &s.CooldownUntil)
	members.OptObject(c, "purse", &s.Purse, (*Purse).members)
	members.OptObjects(c, "prompts", &s.Prompts, (*TimedPrompt).members)
	members.OptObjects(c, "expected", &s.Expected, (*Expected).members)
	s.Conversation.members(c)
	members.OptObjects(c, "agents", &s.Others, (*OtherConversation).members)
	members.OptObjects(c, "parked", &s.Parked, (*ParkedSession).members)
	members.OptTime(c, "pruned", &s.Pruned)
	members.OptObjectMap(c, "credentials", &s.Credentials, (*Credential).members)
	members.OptObjectMap(c, "outages", &s.Outages, (*Outage).members)
	members.OptObject(c, "schedule", &s.Schedule, (*Schedule).members)
	members.OptObject(c, "published", &s.Published, (*Published).members)
	members.OptObjects(c, "lines", &s.Lines, (*Line).Members)
}

func (v *Conversation) members(c *members.Coder) {
	members.OptObject(c, "session", &v.Session, (*Session).members)
	members.OptObject(c, "compacted", &v.Compacted, (*Summary).members)
}

func (s *Session) members(c *members.Coder) {
	members.OptText(c, "runner", &s.Runner)
	members.OptText(c, "id", &s.ID)
	members.OptNumber(c, "context", &s.Context)
	members.OptNumber(c, "window", &s.Window)
	members.OptNumber(c, "vain", &s.FailedSummaries)
	members.OptNumber(c, "epoch", &s.Epoch)
}

func (p *ParkedSession) members(c *members.Coder) {
	members.Text(c, "with", &p.With)
	members.OptText(c, "thread", &p.Thread)
	p.Session.members(c)
}

func (s *Summary) members(c *members.Coder) {
	members.OptTime(c, "at", &s.At)
	members.OptText(c, "file", &s.File)
	members.OptNumber(c, "through", &s.Through)
	members.OptText(c, "sha256", &s.Sum)
}

func (o *OtherConversation) members(c *members.Coder) {
	members.Text(c, "with", &o.With)
	members.OptText(c, "thread", &o.Thread)
	o.Conversation.members(c)
}

func (l *LastMail) members(c *members.Coder) {
	members.OptText(c, "key", &l.Key)
	members.OptText(c, "from", &l.From)
	members.OptText(c, "subject", &l.Subject)
	members.OptTime(c, "at", &l.At)
}

func (l *LastAnswer) members(c *members.Coder) {
	members.OptText(c, "key", &l.Key)
	members.OptText(c, "source", &l.Source)
	members.OptText(c, "turn_id", &l.TurnID)
	members.OptText(c, "status", &l.Outcome)
	members.OptTime(c, "at", &l.At)
	members.OptNumber(c, "took", &l.Took)
	members.OptNumber(c, "micros", &l.Cost)
	members.OptText(c, "not_permitted", &l.Refused)
	members.OptText(c, "reply", &l.Reply)
	members.OptTime(c, "sent", &l.Sent)
	members.OptText(c, "ended", &l.Ended)
}

func (a *AskedOperator) members(c *members.Coder) {
	members.Time(c, "at", &a.At)
	members.OptText(c, "by", &a.By)
}

func (r *Relaying) members(c *members.Coder) {
	members.Text(c, "from", &r.From)
	members.Time(c, "at", &r.At)
}

func (r *Ringing) members(c *members.Coder) {
	members.Text(c, "from", &r.From)
	members.Time(c, "at", &r.At)
}

func (r *Ring) members(c *members.Coder) {
	members.OptText(c, "from", &r.From)
	members.OptText(c, "reason", &r.Reason)
	members.OptText(c, "source", &r.Source)
	members.OptTime(c, "at", &r.At)
}

func (n *Numbers) members(c *members.Coder) {
	members.OptNumber(c, "quarantined", &n.Quarantined)
	members.OptNumber(c, "unfetched", &n.Unfetched)
	members.OptNumber(c, "effects", &n.Effects)
	members.OptNumber(c, "hook_calls", &n.HookCalls)
}

func (u *Uncalled) members(c *members.Coder) {
	members.Number(c, "count", &u.Count)
	members.Time(c, "last", &u.Last)
}

func (o *OpenChallenge) members(c *members.Coder) {
	members.Text(c, "id", &o.ID)
	members.Text(c, "key", &o.Key)
	members.Text(c, "hash", &o.Hash)
	members.Time(c, "made", &o.Made)
	members.Time(c, "until", &o.Until)
	members.OptBool(c, "doubtful", &o.Doubtful)
}

func (s *SelfStreak) members(c *members.Coder) {
	members.OptNumber(c, "turns", &s.Turns)
	members.OptNumber(c, "peers", &s.Peers)
	members.OptBool(c, "told", &s.Told)
}

func (r *Reset) members(c *members.Coder) {
	members.OptTime(c, "at", &r.At)
	members.OptText(c, "note", &r.Note)
	members.OptText(c, "origin", &r.Origin)
	members.OptNumber(c, "arrivals", &r.Arrivals)
	members.OptNumber(c, "epoch", &r.Epoch)
}

func (t *TimedPrompt) members(c *members.Coder) {
	members.Text(c, "name", &t.Name)
	members.Text(c, "at", &t.At)
	members.Time(c, "next", &t.Next)
	members.OptTimes(c, "done", &t.Done)
	members.OptText(c, "asked_by", &t.AskedBy)
	members.OptTime(c, "asked_until", &t.AskedUntil)
	members.OptText(c, "fails", &t.Fails)
	members.OptTime(c, "since", &t.Since)
}

func (p *Published) members(c *members.Coder) {
	members.OptText(c, "phase", &p.Phase)
	members.OptBool(c, "asleep", &p.Asleep)
	members.OptText(c, "tier", &p.Tier)
	members.OptTime(c, "at", &p.At)
}

func (s *Schedule) members(c *members.Coder) {
	members.OptText(c, "installed", &s.Installed)
	members.OptText(c, "alarm_line", &s.AlarmLine)
	members.OptTime(c, "alarm", &s.Alarm)
	members.OptTime(c, "verified", &s.Verified)
	members.OptText(c, "error", &s.Error)
	members.OptText(c, "binary", &s.Binary)
	members.OptBool(c, "removed", &s.Removed)
}

func (o *Outage) members(c *members.Coder) {
	members.Text(c, "kind", &o.Kind)
	members.Time(c, "since", &o.Since)
	members.Time(c, "until", &o.Until)
	members.Number(c, "wait", &o.Wait)
	members.Number(c, "tries", &o.Tries)
	members.OptBool(c, "known", &o.Known)
	members.OptBool(c, "told", &o.Told)
	members.OptText(c, "reason", &o.Reason)
}

func (v *Credential) members(c *members.Coder) {
	members.Number(c, "failures", &v.Failures)
	members.Time(c, "since", &v.Since)
	members.OptText(c, "reason", &v.Reason)
	members.OptBool(c, "refused", &v.Denied)
	members.OptObject(c, "keymaster", &v.Keymaster, (*Notification).members)
	members.OptObject(c, "operator", &v.Operator, (*Notification).members)
	members.OptBool(c, "blocker", &v.Blocks)
	members.OptBool(c, "told_by_hook", &v.ToldByHook)
}

func (n *Notification) members(c *members.Coder) {
	members.OptText(c, "id", &n.ID)
	members.OptBool(c, "sent", &n.Sent)
}
