package simulator

import (
	"encoding/json"
	"os"
)

// damageCursor moves the cursor of the mailbox behind every mail, and forgets all
// that is owed: a mistake of ours. Only a sweep can find what was passed.
func (w *World) damageCursor(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var state map[string]json.RawMessage
	var cursor map[string]any
	if err := json.Unmarshal(data, &state); err != nil {
		return err
	}
	if err := json.Unmarshal(state["cursor"], &cursor); err != nil || cursor["next"] == nil {
		return err
	}
	known, last := w.known(), uint32(0)
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.record.cursorHurt = true
	for _, l := range w.record.incoming {
		for _, uid := range l.uids {
			last = max(last, uid)
		}
		if len(l.uids) > 0 && !known.has(l) {
			l.passed = true
			w.count.happened("the cursor passed a mail by mistake")
		}
	}
	for name := range cursor {
		switch name {
		case "mailbox", "uidvalidity", "complete", "swept":
		default:
			delete(cursor, name)
		}
	}
	cursor["next"] = last + 1
	if state["cursor"], err = json.Marshal(cursor); err != nil {
		return err
	}
	if data, err = json.Marshal(state); err != nil {
		return err
	}
	return replace(file, data)
}
