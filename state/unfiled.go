package state

import (
	"slices"
	"time"
)

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

// lineNotFiled marks the history line of a mail whose copy was given up.
const lineNotFiled = "not filed"

// keepForCopy makes a mail that has just left wait for its copy. A challenge contains a token, so
// it gets no copy.
func (m *machine) keepForCopy(row Effect) {
	if m.policy.Copies && row.Channel == ByMail && row.Kind != Challenge {
		m.Unfiled = append(m.Unfiled, Unfiled{ID: row.ID, Sent: m.now, Sum: row.Sum, Files: row.Files})
	}
}

// UnfiledDue returns the mails whose copy is due now.
func (s State) UnfiledDue(now time.Time) []Unfiled {
	return slices.DeleteFunc(slices.Clone(s.Unfiled), func(u Unfiled) bool { return now.Before(u.NotBefore) })
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
	m.line(Line{Kind: LineDelivery, ID: m.Unfiled[i].ID, What: lineNotFiled, Reason: reason})
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
		m.giveUpCopy(0, "more mails wait for their copy than may")
	}
}
