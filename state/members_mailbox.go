package state

import "agentstateloop/internal/members"

// The members of the mailbox's types; see members_state.go.

func (v *Cursor) members(c *members.Coder) {
	members.OptText(c, "mailbox", &v.Mailbox)
	members.OptNumber(c, "uidvalidity", &v.Validity)
	members.OptNumber(c, "next", &v.Next)
	members.OptNumbers(c, "owed", &v.Owed)
	members.OptNumbers(c, "large", &v.Large)
	members.OptObjects(c, "unseen", &v.Unseen, (*UIDRange).members)
	members.OptObjectMap(c, "failures", &v.Failures, (*Failure).members)
	members.OptNumberMap(c, "tries", &v.OldTries)
	members.OptObjects(c, "reports", &v.Reports, (*UnreadReport).members)
	members.OptTime(c, "complete", &v.Complete)
	members.OptPointer(c, "reread", &v.Reread, (*Reread).members)
	members.OptTime(c, "swept", &v.Swept)
}

func (u *UIDRange) members(c *members.Coder) {
	members.Number(c, "first", &u.First)
	members.Number(c, "last", &u.Last)
}

func (f *Failure) members(c *members.Coder) {
	members.Number(c, "tries", &f.Tries)
	members.OptTime(c, "since", &f.Since)
	members.OptTime(c, "next", &f.Next)
	members.OptText(c, "reason", &f.Reason)
	members.OptNumber(c, "told", &f.Told)
	members.OptTime(c, "after", &f.After)
	members.OptBool(c, "missed", &f.Missed)
}

func (u *UnreadReport) members(c *members.Coder) {
	members.Number(c, "uid", &u.UID)
	members.OptBool(c, "likely", &u.Likely)
	members.OptNumber(c, "tries", &u.Tries)
}

func (r *Reread) members(c *members.Coder) {
	members.Time(c, "all", &r.All)
	members.OptBool(c, "unread", &r.Unread)
	members.OptTime(c, "unread_since", &r.UnreadSince)
}

func (t *ToFlag) members(c *members.Coder) {
	members.OptText(c, "mailbox", &t.Mailbox)
	members.OptNumber(c, "uidvalidity", &t.Validity)
	members.OptNumbers(c, "uids", &t.UIDs)
}

func (r *Returned) members(c *members.Coder) {
	members.Text(c, "id", &r.ID)
	members.OptText(c, "to", &r.To)
	members.OptNumber(c, "number", &r.Number)
	members.Time(c, "at", &r.At)
	members.OptText(c, "reason", &r.Reason)
	members.OptTime(c, "told", &r.Told)
}

func (s *SendingFailure) members(c *members.Coder) {
	members.Time(c, "since", &s.Since)
	members.OptText(c, "reason", &s.Reason)
}
