package state

import "slices"

// ToFlag lists the UIDs to mark \Seen, in one mailbox under one UIDVALIDITY.
type ToFlag struct {
	Mailbox  string   `json:"mailbox,omitempty"`
	Validity uint32   `json:"uidvalidity,omitempty"`
	UIDs     []uint32 `json:"uids,omitempty"`
}

// acknowledgeLater records that the server must be told that an item was read. It is told after the
// commit that made the item durable.
func (m *machine) acknowledgeLater(uid uint32, meshID string) {
	if uid != 0 && !m.foreign {
		if m.ToFlag.Mailbox != m.Cursor.Mailbox || m.ToFlag.Validity != m.Cursor.Validity {
			m.ToFlag = ToFlag{Mailbox: m.Cursor.Mailbox, Validity: m.Cursor.Validity}
		}
		if !slices.Contains(m.ToFlag.UIDs, uid) {
			m.ToFlag.UIDs = append(m.ToFlag.UIDs, uid)
		}
	}
	if meshID != "" && !slices.Contains(m.ToAck, meshID) {
		m.ToAck = append(m.ToAck, meshID)
	}
}

// Flagged reports that the mail server has marked mails \Seen.
type Flagged struct {
	Mailbox  string
	Validity uint32
	UIDs     []uint32
}

func (e Flagged) apply(m *machine) {
	if e.Mailbox != m.ToFlag.Mailbox || e.Validity != m.ToFlag.Validity {
		return
	}
	m.ToFlag.UIDs = slices.DeleteFunc(m.ToFlag.UIDs, func(uid uint32) bool { return slices.Contains(e.UIDs, uid) })
}

// MeshAcked reports that the mesh has taken acknowledgements.
type MeshAcked struct{ IDs []string }

func (e MeshAcked) apply(m *machine) {
	m.ToAck = slices.DeleteFunc(m.ToAck, func(id string) bool { return slices.Contains(e.IDs, id) })
}
