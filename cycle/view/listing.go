package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// The statuses of `inbox list` rows that are not in the inbox.
const (
	RowFailing     = "failing"     // a mail that cannot be fetched
	RowFetching    = "fetching"    // a large mail on its way
	RowQuarantined = "quarantined" // an item that a gate rejected
)

// InboxRow is one row of `inbox list`: a waiting message, a mail that is not fetched yet, or an
// item in quarantine. A field is null, never absent.
type InboxRow struct {
	Number   *string      `json:"number"` // 12, f2 or q3; every inbox command takes it; null for an item of an older version
	Seq      uint64       `json:"seq"`    // of a message: its number
	Key      string       `json:"key"`
	Source   state.Source `json:"source"`
	Kind     string       `json:"kind"` // of the mesh: message or ask; of the agent itself: sleep, rest or reminder
	At       *time.Time   `json:"at"`
	From     string       `json:"from"`
	Operator bool         `json:"operator"` // it is the operator's
	Proved   bool         `json:"proved"`   // the sender is proven
	Subject  string       `json:"subject"`  // of a mail; otherwise the beginning of the text
	Files    []string     `json:"files"`    // names; null: unknown
	Damage   *string      `json:"damage"`   // why the text cannot be shown, or null
	Status   string       `json:"status"`
	State    string       `json:"state"`  // the status in words
	Reason   *string      `json:"reason"` // why it waits or was rejected
	Gate     *string      `json:"gate"`   // the gate that rejected it
	Evidence *string      `json:"evidence"`

	NextRetryAt *time.Time `json:"next_retry_at"` // the end of its wait
	Since       *time.Time `json:"since"`         // of a mail that cannot be fetched: the first failure
	Tries       int        `json:"tries"`         // tries to fetch it
	Attempts    int        `json:"attempts"`      // attempts at its turn
	Title       string     `json:"title"`         // of a wakeup: its words

	Questions []StatusQuestion `json:"questions"` // open questions of its turn to the operator, or null

	TurnID  *string    `json:"turn_id"`
	Epoch   uint64     `json:"epoch"`
	Trace   *string    `json:"trace_id"`
	Payload *string    `json:"payload"` // the payload's file, below the state directory
	Size    int64      `json:"size"`    // of the payload, in bytes
	Kept    *time.Time `json:"kept"`    // when it was put into quarantine

	Message *state.Message `json:"-"` // of a message
}

// Listing returns the waiting messages, the mails that cannot be fetched and those that are
// being fetched, and the state that they come from.
func (r Reader) Listing() ([]InboxRow, state.State, error) {
	s, err := r.Store.Read()
	if err != nil {
		return nil, s, err
	}
	l := r.lister()
	if known := r.Headlines; known != nil {
		known.last, known.present = known.present, map[string]headline{}
		l.heads.known = known
	}
	rows := []InboxRow{}
	for i := range s.Inbox {
		row := l.message(deferredByOutage(s, *r.Policy, s.Inbox[i], r.Now()))
		row.Questions = operatorQuestions(s, row.Key)
		rows = append(rows, row)
	}
	return append(rows, unfetchedRows(s)...), s, nil
}

// unfetchedRows returns the rows of the mails that are not fetched yet.
func unfetchedRows(s state.State) (rows []InboxRow) {
	add := func(key, status string) *InboxRow {
		rows = append(rows, InboxRow{Number: Numeral(unfetchedMark, s.Unfetched[key]), Key: key, Source: state.Mail, Status: status})
		return &rows[len(rows)-1]
	}
	for _, f := range s.FailingMails() {
		row := add(f.Key, RowFailing)
		row.At, row.Since, row.Tries, row.NextRetryAt, row.Reason = OrNull(f.Since), OrNull(f.Since), f.Tries, OrNull(f.Next), OrNull(f.Reason)
	}
	for _, key := range s.LargeMails() {
		add(key, RowFetching)
	}
	return rows
}

// UnfetchedRow returns the row of an unfetched mail in s. ok is false if s has no such mail.
func UnfetchedRow(s state.State, key string) (row InboxRow, ok bool) {
	rows := unfetchedRows(s)
	i := slices.IndexFunc(rows, func(r InboxRow) bool { return r.Key == key })
	if i < 0 {
		return InboxRow{}, false
	}
	return rows[i], true
}

// InboxRow returns the row of a message, which may have left the inbox.
func (r Reader) InboxRow(m state.Message) InboxRow { return r.lister().message(m) }

// lister returns the maker of the rows of one list.
func (r Reader) lister() lister {
	return lister{provesMail: r.ProvesMail, heads: &Headliner{Store: r.Store}}
}

// lister makes the rows of one list that need more than the state.
type lister struct {
	provesMail bool
	heads      *Headliner
}

// message returns the row of a message.
func (l lister) message(m state.Message) InboxRow {
	head := l.heads.of(m.Source, m.Payload, m.Sum, int64(m.Size))
	row := InboxRow{
		Number: Numeral("", m.Seq), Seq: m.Seq, Key: m.Key, Source: m.Source, Kind: m.Kind, At: OrNull(m.At.UTC()), From: m.From, Operator: m.Operator,
		Proved: l.isProven(m), Subject: head.Subject, Files: head.Files, Damage: OrNull(head.Damaged), Status: string(m.Status),
		Reason: OrNull(m.Reason), NextRetryAt: OrNull(m.NextRetryAt), Attempts: m.Attempts, Title: m.Title,
		TurnID: OrNull(m.TurnID), Epoch: m.Epoch, Trace: OrNull(m.Trace), Payload: OrNull(m.Payload), Size: int64(m.Size), Message: &m,
	}
	if m.Title != "" {
		row.Subject = m.Title
	}
	if m.Held {
		row.Reason = OrNull(state.HeldReason)
	}
	return row
}

// isProven reports whether the sender of a message is proven: by the gate of mail, by a token, or
// because the message was written on this machine.
func (l lister) isProven(m state.Message) bool {
	switch m.Source {
	case state.Mail:
		return l.provesMail
	case state.CLI, state.Self, state.Clock:
		return true
	case state.EventSource:
		return m.Operator
	}
	return m.Proof == state.ByToken
}

// ListQuarantine returns the items in quarantine, in the order of their numbers.
func (r Reader) ListQuarantine() ([]InboxRow, error) {
	items, err := r.Quarantined()
	if err != nil {
		return nil, err
	}
	return r.QuarantineRows(items)
}

// RestoredRows returns the messages about which the operator has to decide after a restore: the held
// ones, and the items in quarantine that may have run or were asked about, each kind oldest first.
func RestoredRows(st *store.Store, s state.State) ([]InboxRow, error) {
	l := lister{heads: &Headliner{Store: st}}
	rows := []InboxRow{}
	for _, m := range s.HeldRows() {
		rows = append(rows, l.message(m))
	}
	items, err := quarantine.Folder{Store: st}.Items()
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(i quarantine.Item) bool {
		asked := s.Restore != nil && slices.Contains(s.Restore.Asked, i.Key)
		return s.Accepts(i.Key) || i.Gate != state.GateRestored && !asked
	})
	quarantined, err := l.items(s, items)
	if err != nil {
		return nil, err
	}
	return append(rows, quarantined...), nil
}

// QuarantineRows returns the rows of these items in quarantine, in the order of their numbers.
func (r Reader) QuarantineRows(items []quarantine.Item) ([]InboxRow, error) {
	s, err := r.Store.Read()
	if err != nil {
		return nil, err
	}
	return r.lister().items(s, slices.Clone(items))
}

// items returns the rows of items in quarantine, in the order of their numbers.
func (l lister) items(s state.State, items []quarantine.Item) ([]InboxRow, error) {
	keys := map[string]bool{}
	for _, i := range items {
		keys[i.Key] = true
	}
	numbers, err := quarantineNumbers(l.heads.Store, s, keys)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(items, func(i, j quarantine.Item) int { return cmp.Compare(numbers[i.Key], numbers[j.Key]) })
	rows := []InboxRow{}
	for _, i := range items {
		rows = append(rows, l.item(i, numbers[i.Key]))
	}
	return rows, nil
}

// QuarantineRow returns the row of an item in quarantine.
func (r Reader) QuarantineRow(i quarantine.Item) (InboxRow, error) {
	s, err := r.Store.Read()
	if err != nil {
		return InboxRow{}, err
	}
	numbers, err := quarantineNumbers(r.Store, s, map[string]bool{i.Key: true})
	return r.lister().item(i, numbers[i.Key]), err
}

// item returns the row of an item in quarantine.
func (l lister) item(i quarantine.Item, number uint64) InboxRow {
	reason, evidence := trust.Finding(i.Gate, i.Reason)
	head := l.heads.of(i.Source, i.Payload, i.Sum, 0)
	row := InboxRow{
		Number: Numeral(quarantineMark, number), Key: i.Key, Source: i.Source, At: OrNull(i.At.UTC()), From: i.From,
		Subject: head.Subject, Files: head.Files, Damage: OrNull(head.Damaged), Status: RowQuarantined,
		Reason: OrNull(reason), Gate: OrNull(i.Gate), Evidence: OrNull(evidence),
		Payload: OrNull(i.Payload), Size: i.Size, Kept: OrNull(i.Kept.UTC()),
	}
	if i.Subject != "" {
		row.Subject = i.Subject
	}
	return row
}

// Quarantined returns the items in quarantine, oldest first.
func (r Reader) Quarantined() ([]quarantine.Item, error) {
	s, err := r.Store.Read()
	if err != nil {
		return nil, err
	}
	items, err := r.Quarantine.Items()
	// A crash may leave the folder of a released item.
	return slices.DeleteFunc(items, func(i quarantine.Item) bool { return s.Accepts(i.Key) }), err
}

// QuarantinedItem returns the item with this key. The error wraps quarantine.ErrNotQuarantined if
// the item is missing.
func (r Reader) QuarantinedItem(key string) (quarantine.Item, error) {
	s, err := r.Store.Read()
	if err != nil {
		return quarantine.Item{}, err
	}
	if s.Accepts(key) {
		return quarantine.Item{}, fmt.Errorf("%s is %w", key, quarantine.ErrNotQuarantined)
	}
	return r.Quarantine.Find(key)
}
