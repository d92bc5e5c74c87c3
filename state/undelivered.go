package state

import (
	"slices"
	"time"
)

// undeliveredKept is how many rows that were given up are kept. toldAtOnce is how many of them one
// notice names.
const (
	undeliveredKept = 100
	toldAtOnce      = 20
)

// UndeliveredEffect returns the row with this id that was given up.
func (d Deliveries) UndeliveredEffect(id string) (Effect, bool) {
	i := slices.IndexFunc(d.Undelivered, func(e Effect) bool { return e.ID == id })
	if i < 0 {
		return Effect{}, false
	}
	return d.Undelivered[i], true
}

// Keeps reports whether the bytes of an effect are still needed.
func (s State) Keeps(id string) bool {
	if _, waits := s.Effect(id); waits {
		return true
	}
	_, kept := s.UndeliveredEffect(id)
	return kept
}

// keepUndelivered keeps a row that was given up, so that it can be told, shown and tried again. It
// drops a row that is worthless by now, and a notice about other rows.
func (d *Deliveries) keepUndelivered(row Effect, at time.Time) {
	if row.Kind.perishable() || len(row.Tells) > 0 {
		return
	}
	row.GivenUp, row.Told, row.Sending, row.NotBefore = at, "", false, time.Time{}
	if row.Reason == MayBeSent {
		row.Told = ByMail // by the report about the restore
	}
	d.Undelivered = append(d.Undelivered, row)
}

// forgetUndelivered keeps only the newest rows.
func (m *machine) forgetUndelivered() {
	for len(m.Undelivered) > undeliveredKept {
		m.endUndelivered(0, WordForgotten, "over the limit of kept messages")
	}
}

// endUndelivered removes a row that was given up.
func (m *machine) endUndelivered(i int, what Word, reason string) {
	e := m.Undelivered[i]
	m.Undelivered = slices.Delete(m.Undelivered, i, i+1)
	m.line(Line{Kind: LineGivenUp, ID: e.ID, What: what, Reason: reason, TurnID: e.TurnID})
}

// tellUndelivered queues a notice to the operator about the rows that were given up and that no
// mail has reported yet. If such a notice waits, new rows are reported after it has arrived. The
// notice goes by mail, unless tried rules that out and a peer can be asked.
func (m *machine) tellUndelivered(tried []string) {
	notice := Effect{Thread: m.subject("undeliverable"), Tried: tried}
	w, ok := m.bestRoute(tried)
	if !ok {
		notice.Tried = nil
		if w, ok = m.bestRoute(nil); !ok {
			return
		}
	}
	waits := func(e Effect) bool { return len(e.Tells) > 0 && e.Channel == w.channel }
	if slices.ContainsFunc(m.Outbox, waits) {
		return
	}
	if notice.Tells = m.unreported(w.channel); len(notice.Tells) > 0 {
		m.tellOperator(notice)
	}
}

// unreported returns the ids of rows that a notice on this channel would report as news. For mail,
// they are the rows that no mail has reported. For the mesh, they are the rows that were not
// reported at all.
func (d *Deliveries) unreported(by Channel) (ids []string) {
	for _, e := range d.Undelivered {
		if len(ids) < toldAtOnce && (e.Told == "" || e.Told != by && by == ByMail) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// noteReported records that a notice has left. A mail counts for more than a request to a peer.
func (d *Deliveries) noteReported(notice Effect) {
	for i := range d.Undelivered {
		row := &d.Undelivered[i]
		if slices.Contains(notice.Tells, row.ID) && row.Told != ByMail {
			row.Told = notice.Channel
		}
	}
}

// withdrawNotices ends the notices that were never sent and whose rows a person has dropped or sent
// again since.
func (m *machine) withdrawNotices() {
	for _, row := range slices.Clone(m.Outbox) {
		kept := func(id string) bool { return m.undeliveredIndex(id) >= 0 }
		if len(row.Tells) > 0 && row.neverSent() && !slices.ContainsFunc(row.Tells, kept) {
			i, _ := m.effectIndex(row.ID)
			m.endEffect(i, WordWithdrawn, "the undelivered messages that it reports are gone")
		}
	}
}

// tellRemaining reports the rows that no mail has reported, after a mail to the operator got
// through. A refused notice waits for the next such mail, so this does not loop.
func (m *machine) tellRemaining(sent Effect) {
	if sent.Channel == ByMail && sent.To == m.policy.Operator && len(m.unreported(ByMail)) > 0 {
		m.tellUndelivered(nil)
	}
}

// OutboxRetried reports that a person wants a row of the outbox to be sent now, even if its pause
// is not over, or a row that was given up to be sent after all.
type OutboxRetried struct{ ID string }

// apply queues the row again as it is: the same id and the same bytes.
func (e OutboxRetried) apply(m *machine) {
	if i := m.hookCallIndex(e.ID); i >= 0 {
		m.expediteHook(m.HookCalls[i].To)
		return
	}
	if i, waits := m.effectIndex(e.ID); waits {
		lane := m.Outbox[i].lane()
		for j := range i + 1 {
			if row := &m.Outbox[j]; row.lane() == lane {
				row.NotBefore = time.Time{}
			}
		}
		return
	}
	if i := m.undeliveredIndex(e.ID); i >= 0 {
		m.requeueEffect(i)
		m.line(Line{Kind: LineGivenUp, ID: e.ID, What: WordRetried})
	}
}

func (d *Deliveries) undeliveredIndex(id string) int {
	return slices.IndexFunc(d.Undelivered, func(e Effect) bool { return e.ID == id })
}

// requeueEffect moves a row that was given up back into the outbox. Its counts start at zero again,
// but a copy that may have arrived still counts.
func (d *Deliveries) requeueEffect(i int) {
	row := d.Undelivered[i]
	d.Undelivered = slices.Delete(d.Undelivered, i, i+1)
	row.GivenUp, row.NotBefore, row.Told = time.Time{}, time.Time{}, ""
	row.Attempts, row.Copies, row.Waited, row.Denied = 0, 0, 0, false
	if row.Unknown {
		row.Copies = 1
	}
	d.Outbox = append(d.Outbox, row)
}

// OutboxDropped reports that a person drops a row of the outbox, or a row that was given up. Alone
// means that no process can be sending it, because the caller holds cycle.lock.
type OutboxDropped struct {
	ID     string
	Reason string
	Alone  bool
}

// apply ends the row, unless it is being sent.
func (e OutboxDropped) apply(m *machine) {
	if i := m.hookCallIndex(e.ID); i >= 0 {
		m.endHookCall(i, WordDropped, e.Reason)
		return
	}
	if i, waits := m.effectIndex(e.ID); waits {
		if e.Alone || !m.Outbox[i].Sending {
			m.endEffect(i, WordDropped, e.Reason)
		}
		return
	}
	if i := m.undeliveredIndex(e.ID); i >= 0 {
		m.endUndelivered(i, WordDropped, e.Reason)
	}
}

// Redacted implements [Redactable].
func (e OutboxDropped) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

func (d *Deliveries) applyUndeliveredLine(l Line) {
	i := d.undeliveredIndex(l.ID)
	switch {
	case i < 0:
	case l.What == WordRetried:
		d.requeueEffect(i)
	default:
		d.Undelivered = slices.Delete(d.Undelivered, i, i+1)
	}
}

// Unfiled is a sent mail whose copy is not yet in the folder for sent mail ([replies] sent). Its
// bytes are kept until then.
type Unfiled struct {
	ID        string    `json:"id"` // of the effect
	Sent      time.Time `json:"sent"`
	Sum       string    `json:"sha256,omitempty"` // of the rendered bytes
	Files     []FileRef `json:"files,omitempty"`  // its large attachments, kept apart
	Attempts  int       `json:"attempts,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"`
	Reason    string    `json:"reason,omitempty"` // of the last failure
}

const (
	maxUnfiled  = 100            // mails that wait for their copy
	unfiledLife = 24 * time.Hour // after that the copy is given up
)

// keepForCopy makes a mail that has just left wait for its copy. A challenge contains a token, so
// it gets no copy.
func (m *machine) keepForCopy(row Effect) {
	if m.policy.Copies && row.Channel == ByMail && row.Kind != Challenge {
		m.Unfiled = append(m.Unfiled, Unfiled{ID: row.ID, Sent: m.now, Sum: row.Sum, Files: row.Files})
	}
}

// UnfiledDue returns the mails whose copy is due now.
func (d Deliveries) UnfiledDue(now time.Time) []Unfiled {
	return slices.DeleteFunc(slices.Clone(d.Unfiled), func(u Unfiled) bool { return now.Before(u.NotBefore) })
}

// KeepsFiles reports whether the files that go with an effect are still needed.
func (s State) KeepsFiles(id string) bool {
	return s.Keeps(id) || slices.ContainsFunc(s.Unfiled, func(u Unfiled) bool { return u.ID == id })
}

// Filed reports that the copy of a mail is in the folder, or why it is not.
type Filed struct {
	ID     string
	Failed string // why the copy is not there yet; "" if it is there
	Never  bool   // there can never be a copy
}

// apply forgets the mail, or lets it wait.
func (e Filed) apply(m *machine) {
	i := slices.IndexFunc(m.Unfiled, func(u Unfiled) bool { return u.ID == e.ID })
	switch {
	case i < 0:
	case e.Failed == "":
		m.Unfiled = slices.Delete(m.Unfiled, i, i+1)
	case e.Never:
		m.giveUpCopy(i, e.Failed)
	default:
		u := &m.Unfiled[i]
		u.Attempts++
		u.NotBefore, u.Reason = m.now.Add(backoff(u.Attempts)), e.Failed
	}
}

// Redacted implements [Redactable].
func (e Filed) Redacted(redact func(string) string) Event {
	e.Failed = redact(e.Failed)
	return e
}

// giveUpCopy gives up the copy of a mail.
func (m *machine) giveUpCopy(i int, reason string) {
	m.line(Line{Kind: LineDelivery, ID: m.Unfiled[i].ID, What: WordNotFiled, Reason: reason})
	m.Unfiled = slices.Delete(m.Unfiled, i, i+1)
}

// forgetUnfiled gives up copies that are switched off, have waited too long, or are too many.
func (m *machine) forgetUnfiled() {
	if !m.policy.Copies {
		m.Unfiled = nil
	}
	for i := 0; i < len(m.Unfiled); {
		if u := m.Unfiled[i]; u.Attempts > 0 && m.now.Sub(u.Sent) >= unfiledLife {
			m.giveUpCopy(i, u.Reason)
			continue
		}
		i++
	}
	for len(m.Unfiled) > maxUnfiled {
		m.giveUpCopy(0, "too many mails are waiting for their copy")
	}
}
