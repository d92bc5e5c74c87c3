package cycle

import (
	"agentstateloop/cycle/quarantine"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// heldName returns the name of file number i, from 0, of a message in quarantine.
func heldName(key string, i int) string {
	return path.Join(quarantine.Dir(key), fmt.Sprintf("file-%d", i+1))
}

// heldFiles finds the files of messages in quarantine.
type heldFiles struct{ store *store.Store }

// release copies the files of a quarantined message to the place for the files of accepted
// messages. It returns the message with a reason at each missing file.
func (h heldFiles) release(item quarantine.Item, raw []byte) ([]byte, error) {
	m, err := mesh.Decode(raw)
	if item.Source != state.Mesh || err != nil || m.Malformed() != "" || len(m.Files) == 0 {
		return raw, nil // the accepter reports its faults
	}
	for i, f := range m.Files {
		if f.Missing != "" {
			continue
		}
		if m.Files[i].Missing = h.damage(item.Key, i, f); m.Files[i].Missing != "" {
			continue
		}
		held, err := h.store.Open(heldName(item.Key, i))
		if err != nil {
			return nil, err
		}
		_, err = h.store.KeepSummed(incomingName(m.Key(), i), held)
		if err := errors.Join(err, held.Close()); err != nil {
			return nil, fmt.Errorf("release the file %s: %w", f.Name, err)
		}
	}
	return json.Marshal(m)
}

// damage returns the reason why a file of a quarantined message is unusable, or "".
func (h heldFiles) damage(key string, i int, f mesh.File) string {
	held, err := h.store.OpenSummed(heldName(key, i), f.SHA256, f.Size)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it was not kept while its message was in quarantine"
	case err != nil:
		return "it was damaged while its message was in quarantine"
	}
	held.Close()
	return ""
}

// received returns the files that came with a message in quarantine.
func (h heldFiles) received(item quarantine.Item) []ReceivedFile {
	files, named := []ReceivedFile{}, h.named(item)
	names := meshNames(named)
	for i, f := range named {
		r := receivedOf(f, names[i])
		if r.Missing == "" {
			r.Missing = h.damage(item.Key, i, f)
		}
		files = append(files, inStore(h.store, r, heldName(item.Key, i)))
	}
	return files
}

// named returns the files that an item in quarantine names.
func (h heldFiles) named(item quarantine.Item) []mesh.File {
	if item.Source != state.Mesh {
		return nil
	}
	raw, err := h.store.ReadSummed(item.Payload, item.Sum)
	if err != nil {
		return nil
	}
	m, err := mesh.Decode(raw)
	if err != nil || m.Malformed() != "" {
		return nil
	}
	return m.Files
}
