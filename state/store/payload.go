package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"agentstateloop/internal/osfile"
)

// The folders of an agent's directory (docs/design.md, "Files of one agent").
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
