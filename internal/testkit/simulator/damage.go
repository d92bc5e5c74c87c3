package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// damage damages the state file, as a disk or a person would.
func (w *World) damage(s Step) error {
	current, prev := filepath.Join(w.stateDir(), "state.json"), filepath.Join(w.stateDir(), "state.json.prev")
	if strings.HasSuffix(s.Kind, "-both") && w.clock.daysOff() {
		return nil
	}
	if what, ok := strings.CutPrefix(s.Kind, "payload-"); ok {
		return w.damagePayload(what, s.N)
	}
	w.count.happened("damaged: " + s.Kind)
	switch s.Kind {
	case "cursor":
		return w.damageCursor(current)
	case "delete":
		return os.Remove(current)
	case "delete-both":
		return errors.Join(os.Remove(current), os.Remove(prev))
	case "delete-prev":
		return os.Remove(prev)
	case "cut":
		return cutFile(current)
	case "cut-both":
		return errors.Join(cutFile(current), cutFile(prev))
	case "empty":
		return replace(current, nil)
	}
	panic("unknown damage " + s.Kind)
}

// cutFile removes the second half of a file. Other links to the file stay whole.
func cutFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return replace(path, data[:len(data)/2])
}

func replace(path string, data []byte) error {
	tmp := path + ".hurt"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// damageCursor moves the cursor of the mailbox behind every mail, and forgets all mails that are
// owed: a mistake of ours. Only a sweep can find the passed mails.
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
		if len(l.uids) > 0 && !l.isAmong(known) {
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
	delete(state, "file") // otherwise the new file would count as a copy
	if data, err = json.Marshal(state); err != nil {
		return err
	}
	return replace(file, data)
}

// hurt is a payload file of a row that a disk or a person has damaged.
type hurt struct {
	file  string // below the state directory
	was   []byte // the content before
	bytes []byte // the content since; nil if the file is missing
}

// damagePayload damages the payload of a row of the inbox or the outbox. What is the
// form of the damage: zero, cut, flip, empty or remove.
func (w *World) damagePayload(what string, n int) error {
	files := w.payloads()
	if len(files) == 0 {
		return nil
	}
	file := files[n%len(files)]
	path := filepath.Join(w.stateDir(), file)
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return err
	}
	h := hurt{file: file, was: data}
	switch what {
	case "zero":
		h.bytes = make([]byte, len(data))
	case "cut":
		h.bytes = data[:len(data)/2]
	case "empty":
		h.bytes = []byte{}
	case "flip":
		h.bytes = flip(data)
	}
	folder, _, _ := strings.Cut(file, "/")
	w.count.happened("damaged: payload " + what + " of " + folder)
	w.logf("  ! damaged: %s %s", what, file)
	w.record.mu.Lock()
	if i := slices.IndexFunc(w.record.hurt, h.undoes); i >= 0 {
		w.record.hurt = slices.Delete(w.record.hurt, i, i+1)
	} else {
		w.record.hurt = append(w.record.hurt, h)
	}
	w.record.mu.Unlock()
	if h.bytes == nil {
		return os.Remove(path)
	}
	return replace(path, h.bytes)
}

// undoes reports whether a damage restores the content from before an earlier one: a bit that is
// flipped twice.
func (h hurt) undoes(earlier hurt) bool {
	return h.file == earlier.file && h.bytes != nil && bytes.Equal(h.bytes, earlier.was)
}

// flip flips one bit: of the marker of the message, which is then another one, or in
// the middle.
func flip(data []byte) []byte {
	other := bytes.Clone(data)
	at := len(data) / 2
	if m := wish.FindSubmatchIndex(data); m != nil {
		at = m[3] - 1 // the last digit
	}
	other[at] ^= 1
	return other
}

// payloads returns the files of messages/ and outbox/ that the rows of the state
// name, in order.
func (w *World) payloads() (files []string) {
	rows, err := os.ReadFile(filepath.Join(w.stateDir(), "state.json"))
	if err != nil {
		return nil
	}
	for _, dir := range []string{"messages", "outbox"} {
		entries, _ := os.ReadDir(filepath.Join(w.stateDir(), dir))
		for _, e := range entries {
			if file := dir + "/" + e.Name(); bytes.Contains(rows, []byte(file)) {
				files = append(files, file)
			}
		}
	}
	slices.Sort(files)
	return files
}

// checkNotHurt checks that a mail does not have the content of a damaged file.
func (r *record) checkNotHurt(id string, raw []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hurt {
		if h.bytes != nil && bytes.Equal(oneForm(h.bytes), oneForm(raw)) {
			r.world.violate("payload", "%s was sent from %s as it was after the damage:\n%q", id, h.file, raw)
		}
	}
}

// oneForm returns a text with one kind of line end, and without space around it.
func oneForm(text []byte) []byte {
	return bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}

// checkMeshNotHurt checks that a message to the mesh does not have the content of a damaged file.
func (r *record) checkMeshNotHurt(id, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hurt {
		var m struct {
			ID   string
			Text string `json:"message"`
		}
		if json.Unmarshal(h.bytes, &m) == nil && m.ID == id && m.Text == text && h.changed(text) {
			r.world.violate("payload", "%s was sent from %s as it was after the damage: %q", id, h.file, text)
		}
	}
}

// changed reports whether the text is new since the damage.
func (h hurt) changed(text string) bool { return !bytes.Contains(h.was, []byte(text)) }

// wasHurt reports whether the payload of the message under a key was damaged. The
// caller must hold mu.
func (r *record) wasHurt(key string) bool {
	for _, h := range r.hurt {
		if name, err := url.PathUnescape(strings.TrimPrefix(h.file, "messages/")); err == nil && key != "" && strings.HasPrefix(name, key) {
			return true
		}
	}
	return false
}

// lostByDamage returns the keys of the messages that were given up because a damaged payload could
// not be fetched again. Each must have been reported.
func (w *World) lostByDamage(h history) map[string]bool {
	lost := map[string]bool{}
	for _, l := range h.lines {
		if l.Kind != "ended" || l.What != "error" || !w.record.wasHurt(l.Key) {
			continue
		}
		lost[l.Key] = true
		w.count.happened("a message was lost by damage")
		if !w.record.mentions(l.Key) && !h.undeliverable("notice") {
			w.violate("payload", "the message %s was lost by damage, and nobody was told", l.Key)
		}
	}
	return lost
}

// mentions reports whether a mail of ours, or a request to mail the operator, has a
// text. The caller must hold mu.
func (r *record) mentions(text string) bool {
	for _, o := range r.sent() {
		if strings.Contains(strings.Join(strings.Fields(o.text), ""), text) {
			return true
		}
	}
	return false
}
