package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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
