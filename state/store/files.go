package store

import (
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
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// The folders of an agent's directory (DESIGN 4).
const (
	MessagesDir   = "messages"   // raw payloads
	OutboxDir     = "outbox"     // rendered effects
	QuarantineDir = "quarantine" // what failed the gate
	NudgesDir     = "nudges"     // drop a file here to nudge
	TurnsDir      = "turns"      // one folder a turn, one in it an attempt
)

// Keep writes a payload under the directory, durably, before the commit that
// names it. name is a path below Dir, as PayloadName gives it.
func (st *Store) Keep(name string, r io.Reader) error {
	path := st.path(name)
	if err := makeDirDurably(st.Hook, filepath.Dir(path)); err != nil {
		return err
	}
	return writeDurably(st.Hook, path, r)
}

// KeepAmong is Keep in folders that something else has made, and perhaps not
// durably: it fsyncs their names, too. A file that is fsynced in a folder that
// is lost is lost.
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

// Copy makes to, durably, what from is: both are names as Keep takes them.
func (st *Store) Copy(from, to string) error {
	f, err := os.Open(st.path(from))
	if err != nil {
		return err
	}
	defer f.Close()
	return st.Keep(to, f)
}

// Remove takes away a file or folder of the directory, with all it holds. One
// that is not there is no error.
func (st *Store) Remove(name string) error {
	path := st.path(name)
	if err := st.Hook.at("remove", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// Path is the place of a file of the directory.
func (st *Store) Path(name string) string { return st.path(name) }

// PayloadName is the name below dir for what belongs to a key: any key, since
// every byte that could mislead a file system is escaped.
func PayloadName(dir, key, ext string) string {
	name := strings.ReplaceAll(url.PathEscape(key), ".", "%2E")
	const longest = 200
	if len(name) > longest {
		// No short name holds a comma, so that no key can be made to meet this one.
		name = name[:longest-33] + "," + hashHex(key)[:32]
	}
	return filepath.Join(dir, name+ext)
}

// Ring drops a nudge: a file in nudges/, durable when Ring returns.
func (st *Store) Ring(from, reason string) error {
	_, err := st.RingMarked(from, reason)
	return err
}

// RingMarked is Ring, and gives what the nudge's key begins with, and no other's.
func (st *Store) RingMarked(from, reason string) (mark string, err error) {
	note, err := json.Marshal(nudgeNote{From: from, Reason: reason})
	if err != nil {
		return "", err
	}
	name := NewID() + ".json"
	// No commit follows that would make the folder's name durable.
	if err := st.KeepAmong(filepath.Join(NudgesDir, name), strings.NewReader(string(note)+"\n")); err != nil {
		return "", fmt.Errorf("record nudge: %w", err)
	}
	return "nudge:" + url.PathEscape(name) + "@", nil
}

type nudgeNote struct {
	From   string `json:"from,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// NudgeFile is one file in nudges/, written by Ring or by anybody's script.
type NudgeFile struct {
	state.Nudged
	Name string
}

// longestNote is how much of a nudge file is read.
const longestNote = 4 << 10

// Rung lists the files in nudges/. Names that begin with a dot or end in .tmp
// are files still being written; folders are nobody's nudge.
func (st *Store) Rung() ([]NudgeFile, error) {
	entries, err := os.ReadDir(st.path(NudgesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list nudges: %w", err)
	}
	var rung []NudgeFile
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") || e.IsDir() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile: whoever removed it has seen it
		}
		rung = append(rung, st.readNudge(info))
	}
	return rung, nil
}

func (st *Store) readNudge(info fs.FileInfo) NudgeFile {
	var inode uint64
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = uint64(sys.Ino)
	}
	n := NudgeFile{Name: info.Name()}
	n.Key = fmt.Sprintf("nudge:%s@%d.%d", url.PathEscape(n.Name), inode, info.ModTime().UnixNano())
	n.At = info.ModTime()
	if !info.Mode().IsRegular() {
		return n
	}
	f, err := os.Open(st.path(filepath.Join(NudgesDir, n.Name)))
	if err != nil {
		return n
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, longestNote))
	var note nudgeNote
	if json.Unmarshal(text, &note) != nil {
		note.Reason = strings.TrimSpace(string(text))
	}
	n.From, n.Reason = shortLine(note.From), shortLine(note.Reason)
	return n
}

// shortLine makes foreign text fit for a history line and the log.
func shortLine(s string) string { return plain.Shorten(plain.Line(s), 200) }

// Unring removes a nudge file whose nudge is committed.
func (st *Store) Unring(n NudgeFile) error {
	path := st.path(filepath.Join(NudgesDir, n.Name))
	if err := st.Hook.at("remove", path); err != nil {
		return err
	}
	return removeIfThere(path)
}

// longestLog is the size at which the log becomes log.1.
const longestLog = 1 << 20

// Log adds one line to the log: what a poll did, and why. A log that cannot be
// written stops nothing.
func (st *Store) Log(now time.Time, text string) error {
	path := st.path("log")
	if info, err := os.Stat(path); err == nil && info.Size() >= longestLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %s\n", now.UTC().Format(time.RFC3339), shortLine(text))
	return err
}

// NewID gives 128 random bits, for keys and names that must be unique for ever.
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
