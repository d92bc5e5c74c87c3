package state

import "agentstateloop/internal/members"

// The members of a row of the inbox; see members_state.go.

func (msg *Message) members(c *members.Coder) {
	members.Text(c, "key", &msg.Key)
	members.Text(c, "source", &msg.Source)
	members.OptText(c, "kind", &msg.Kind)
	members.Text(c, "from", &msg.From)
	members.OptBool(c, "operator", &msg.Operator)
	members.OptText(c, "proof", &msg.Proof)
	members.OptText(c, "payload", &msg.Payload)
	members.OptText(c, "correlation_id", &msg.Correlation)
	members.OptBool(c, "asks_fields", &msg.AsksFields)
	members.OptText(c, "trace_id", &msg.Trace)
	members.Time(c, "at", &msg.At)
	members.OptTime(c, "observed", &msg.Observed)
	members.Text(c, "status", &msg.Status)
	members.Number(c, "seq", &msg.Seq)
	members.OptText(c, "turn_id", &msg.TurnID)
	members.OptNumber(c, "epoch", &msg.Epoch)
	members.OptNumber(c, "attempts", &msg.Attempts)
	members.OptNumber(c, "micros", &msg.Cost)
	members.OptTime(c, "next_retry_at", &msg.NextRetryAt)
	members.OptText(c, "note", &msg.Note)
	members.OptBool(c, "fresh", &msg.Fresh)
	members.OptBool(c, "working", &msg.Working)
	members.OptText(c, "reason", &msg.Reason)
	members.OptBool(c, "nameless", &msg.Nameless)
	members.OptText(c, "sha256", &msg.Sum)
	members.OptNumber(c, "size", &msg.Size)
	members.OptBool(c, "damaged", &msg.Damaged)
	members.OptNumber(c, "refetches", &msg.Refetches)
	members.OptNumber(c, "span", &msg.Span)
	members.OptBool(c, "early", &msg.Early)
	members.OptText(c, "title", &msg.Title)
	members.OptText(c, "made_by", &msg.MadeBy)
	members.OptText(c, "said", &msg.Said)
	members.OptBool(c, "by_hand", &msg.ByHand)
	members.OptBool(c, "by_clock", &msg.ByClock)
	members.OptText(c, "follows_up", &msg.FollowsUp)
	members.OptText(c, "thread_id", &msg.ThreadID)
	members.OptPointer(c, "thread", &msg.Thread, (*Thread).members)
	members.OptText(c, "ended_sleep", &msg.EndedSleep)
}

func (t *Thread) members(c *members.Coder) {
	members.OptText(c, "subject", &t.Subject)
	members.OptText(c, "message_id", &t.MessageID)
	members.OptTexts(c, "references", &t.References)
	members.OptText(c, "id", &t.ID)
}

func (w *WaitingAck) members(c *members.Coder) {
	members.Time(c, "until", &w.Until)
	members.OptText(c, "key", &w.Key)
	members.OptObject(c, "thread", &w.Thread, (*Thread).members)
	members.OptText(c, "text", &w.Text)
}
