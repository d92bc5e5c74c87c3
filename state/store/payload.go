package store

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/members"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// The folders of an agent's directory (docs/protocol.md, "Files of one agent").
const (
	MessagesDir   = "messages"   // raw payloads
	OutboxDir     = "outbox"     // rendered effects
	SentDir       = "sent"       // rendered mails that were sent
	QuarantineDir = "quarantine" // messages that failed the gate
	NudgesDir     = "nudges"     // drop a file here to nudge
	TurnsDir      = "turns"      // one folder per turn, with one folder per attempt
)

// Keep writes a payload durably, before the commit that names it. name is a path below Dir, from
// PayloadName.
func (st *Store) Keep(name string, r io.Reader) error {
	if err := st.makeFolder(filepath.Dir(name)); err != nil {
		return err
	}
	return writeDurably(st.Hook, st.path(name), r)
}

// KeepAmong is Keep for a folder that another program created, perhaps not durably. It also fsyncs
// the folders above the file.
func (st *Store) KeepAmong(name string, r io.Reader) error {
	if err := st.Keep(name, r); err != nil {
		return err
	}
	for dir := filepath.Dir(filepath.Dir(name)); ; dir = filepath.Dir(dir) {
		if err := syncDir(st.Hook, st.path(dir)); err != nil || dir == "." {
			return err
		}
	}
}

// Remove removes a file or folder of the directory with its content. A missing file is not an
// error.
func (st *Store) Remove(name string) error {
	if err := osfile.Folders(st.Dir, name); err != nil {
		return err
	}
	path := st.path(name)
	if err := st.Hook.at("remove", path); err != nil {
		return err
	}
	return osfile.RemoveAll(path)
}

// Move renames a file of the directory. The rename is not durable.
func (st *Store) Move(name, place string) error {
	if err := errors.Join(osfile.Folders(st.Dir, name), st.makeFolder(filepath.Dir(place))); err != nil {
		return err
	}
	if err := st.Hook.at("rename", st.path(place)); err != nil {
		return err
	}
	return os.Rename(st.path(name), st.path(place))
}

// MoveBack renames a file back to its original name place. If the folder of place is gone or place
// is taken, MoveBack returns an error and leaves the file.
func (st *Store) MoveBack(name, place string) error {
	if err := errors.Join(osfile.Folders(st.Dir, name), osfile.Folders(st.Dir, place)); err != nil {
		return err
	}
	if _, err := os.Lstat(st.path(place)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move %s back: %s is taken", name, place)
	}
	if err := st.Hook.at("rename", st.path(place)); err != nil {
		return err
	}
	return os.Rename(st.path(name), st.path(place))
}

// Path returns the path of a file of the directory.
func (st *Store) Path(name string) string { return st.path(name) }

// PayloadName returns the name below dir for the payload of key. Any key is safe: PayloadName
// escapes every byte that is special in a file system.
func PayloadName(dir, key, ext string) string {
	name := strings.ReplaceAll(url.PathEscape(key), ".", "%2E")
	const longest = 200
	if len(name) > longest {
		// No short name contains a comma, so no other key maps to this name.
		name = name[:longest-33] + "," + hashHex(key)[:32]
	}
	return filepath.Join(dir, name+ext)
}

// NewID returns 128 random bits in hexadecimal, for keys and names that must be unique forever.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// hashHex returns the hexadecimal SHA-256 of s.
func hashHex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// Prune removes at most limit entries of a folder that were last changed before the given time,
// except those for which spared returns true. It returns the number removed. A number below limit
// means that no old entry is left. A missing folder has no old entries.
func (st *Store) Prune(folder string, before time.Time, spared func(name string) bool, limit int) (int, error) {
	err := osfile.Folder(st.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	dir, err := os.Open(st.path(folder))
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	removed := 0
	for removed < limit {
		entries, err := dir.ReadDir(limit)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return removed, err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.ModTime().Before(before) || spared(e.Name()) || removed == limit {
				continue
			}
			if err := osfile.RemoveAll(filepath.Join(dir.Name(), e.Name())); err != nil {
				return removed, err
			}
			removed++
		}
	}
	return removed, nil
}

// The state and the history lines are JSON that encoding/json reads and writes. Package members
// does the same for the JSON this program writes, but without reflection over all types first.
// Other JSON falls back to encoding/json: files written by another version or by a person, damaged
// files, and values that cannot be encoded.

// Members lists the members of state.json.
func (s *stored) Members(c *members.Coder) {
	s.State.Members(c)
	members.OptObject(c, "chain", &s.Chain, (*chain).members)
	members.OptBool(c, "settled", &s.Settled)
	members.OptText(c, "file", &s.File)
}

func (c *chain) members(m *members.Coder) {
	members.Number(m, "serial", &c.Serial)
	members.Text(m, "sum", &c.Sum)
	members.Text(m, "before", &c.Before)
}

// encodeState appends the content of state.json to data, which is empty, and returns its memo. last
// is the memo of an earlier state, or nil.
func encodeState(data []byte, s *stored, last *members.Memo) ([]byte, *members.Memo, error) {
	data, memo, ok := members.AppendAgain(data, s, (*stored).Members, last)
	if !ok {
		var err error
		if data, err = json.Marshal(s); err != nil {
			return nil, nil, err
		}
		memo = nil
	}
	return append(data, '\n'), memo, nil
}

// decodeState decodes the output of encodeState, or any other JSON of a state. On an error, s holds
// the part that encoding/json decoded before it.
func decodeState(data []byte) (s stored, err error) {
	if members.Read(bytes.TrimSuffix(data, []byte("\n")), &s, (*stored).Members) {
		return s, nil
	}
	s = stored{}
	return s, json.Unmarshal(data, &s)
}

// marshalLine returns the JSON of a history line.
func marshalLine(l *state.Line) ([]byte, error) {
	if data, ok := members.Append(nil, l, (*state.Line).Members); ok {
		return data, nil
	}
	return json.Marshal(l)
}

// fileLine is a line as written to a history file.
type fileLine struct {
	state.Line
	Sum string `json:"sum,omitempty"`
}

// Members lists the members of a line in a file.
func (l *fileLine) Members(c *members.Coder) {
	l.Line.Members(c)
	members.OptText(c, "sum", &l.Sum)
}

// unmarshalLine decodes a history line, with or without its sum.
func unmarshalLine(raw []byte) (state.Line, error) {
	var l fileLine
	if members.Read(bytes.TrimSuffix(raw, []byte("\n")), &l, (*fileLine).Members) {
		return l.Line, nil
	}
	var other state.Line
	err := json.Unmarshal(raw, &other)
	return other, err
}

// AttemptDir returns the folder of one attempt, below the agent's directory.
func AttemptDir(turnID string, epoch uint64) string {
	return path.Join(TurnsDir, turnID, strconv.FormatUint(epoch, 10))
}
