package state

import "agentstateloop/internal/members"

// The members of a row of the outbox; see members_state.go.

func (e *Effect) members(c *members.Coder) {
	members.Text(c, "id", &e.ID)
	members.Text(c, "kind", &e.Kind)
	members.Text(c, "channel", &e.Channel)
	members.Text(c, "to", &e.To)
	members.OptText(c, "file", &e.File)
	members.OptText(c, "text", &e.Text)
	members.OptText(c, "from", &e.From)
	members.OptObject(c, "thread", &e.Thread, (*Thread).members)
	members.OptText(c, "turn_id", &e.TurnID)
	members.OptText(c, "credential", &e.Credential)
	members.OptTexts(c, "tried", &e.Tried)
	members.OptText(c, "correlation_id", &e.Correlation)
	members.OptTexts(c, "hops", &e.Hops)
	members.Time(c, "created", &e.Created)
	members.OptTime(c, "not_before", &e.NotBefore)
	members.OptTime(c, "expires", &e.Expires)
	members.OptNumber(c, "waited", &e.Waited)
	members.OptNumber(c, "attempts", &e.Attempts)
	members.OptNumber(c, "copies", &e.Copies)
	members.OptBool(c, "unknown", &e.Unknown)
	members.OptBool(c, "sending", &e.Sending)
	members.OptBool(c, "refused", &e.Denied)
	members.OptText(c, "reason", &e.Reason)
	members.OptTime(c, "given_up", &e.GivenUp)
	members.OptText(c, "told", &e.Told)
	members.OptTexts(c, "tells", &e.Tells)
	members.OptText(c, "sha256", &e.Sum)
	members.OptNumber(c, "turn_epoch", &e.Epoch)
	members.OptText(c, "origin_sha256", &e.Origin)
	members.OptText(c, "trace_id", &e.Trace)
	members.OptObjects(c, "result_fields", &e.ResultFields, (*ResultField).members)
	members.OptText(c, "status", &e.Outcome)
	members.OptText(c, "after_execution", &e.AfterExecution)
	members.OptTexts(c, "options", &e.Options)
	members.OptText(c, "asker", &e.Asker)
	members.OptText(c, "cause", &e.Cause)
	members.OptPointer(c, "announces", &e.Announces, (*Announcement).members)
	members.OptObjects(c, "files", &e.Files, (*FileRef).members)
	members.OptNumber(c, "number", &e.Number)
}

func (r *ResultField) members(c *members.Coder) {
	members.Text(c, "name", &r.Name)
	members.OptText(c, "type", &r.Type)
	members.OptText(c, "description", &r.Description)
	members.OptBool(c, "required", &r.Required)
}

func (f *FileRef) members(c *members.Coder) {
	members.Text(c, "name", &f.FileName)
	members.OptText(c, "type", &f.Type)
	members.Number(c, "size", &f.Size)
	members.Text(c, "sha256", &f.Sum)
	members.Text(c, "file", &f.File)
	members.OptText(c, "place", &f.Place)
}

func (f *FailingHook) members(c *members.Coder) {
	members.OptTime(c, "since", &f.Since)
	members.OptText(c, "reason", &f.Reason)
	members.OptNumber(c, "lost", &f.Lost)
	members.OptNumber(c, "after", &f.After)
	members.OptNumber(c, "untold", &f.Untold)
	members.OptTime(c, "told", &f.Told)
}

func (a *Announcement) members(c *members.Coder) {
	members.Text(c, "event", &a.Event)
	members.Text(c, "id", &a.ID)
	members.Text(c, "agent", &a.Agent)
	members.Time(c, "at", &a.At)
	members.Number(c, "serial", &a.Serial)
	members.Object(c, "data", &a.Data, (*Details).members)
}

func (d *Details) members(c *members.Coder) {
	members.OptText(c, "key", &d.Key)
	members.OptText(c, "source", &d.Source)
	members.OptText(c, "from", &d.From)
	members.OptText(c, "to", &d.To)
	members.OptBool(c, "operator", &d.Operator)
	members.OptText(c, "kind", &d.Kind)
	members.OptText(c, "turn_id", &d.TurnID)
	members.OptNumber(c, "turn_epoch", &d.Epoch)
	members.OptText(c, "status", &d.Status)
	members.OptText(c, "output_box", &d.OutputBox)
	members.OptText(c, "deliverable", &d.Deliverable)
	members.OptText(c, "old", &d.Old)
	members.OptText(c, "new", &d.New)
	members.OptText(c, "tier", &d.Tier)
	members.OptText(c, "credential", &d.Credential)
	members.OptText(c, "backend", &d.Backend)
	members.OptText(c, "effect", &d.Effect)
	members.OptText(c, "gate", &d.Gate)
	members.OptNumber(c, "count", &d.Count)
	members.OptText(c, "request", &d.Request)
	members.OptText(c, "response", &d.Response)
	members.OptText(c, "what", &d.What)
	members.OptText(c, "reason", &d.Reason)
	members.OptText(c, "trace_id", &d.Trace)
	members.OptTimePointer(c, "until", &d.Until)
	members.OptTexts(c, "with", &d.With)
}

func (u *Unfiled) members(c *members.Coder) {
	members.Text(c, "id", &u.ID)
	members.Time(c, "sent", &u.Sent)
	members.OptText(c, "sha256", &u.Sum)
	members.OptObjects(c, "files", &u.Files, (*FileRef).members)
	members.OptNumber(c, "attempts", &u.Attempts)
	members.OptTime(c, "not_before", &u.NotBefore)
	members.OptText(c, "reason", &u.Reason)
}
