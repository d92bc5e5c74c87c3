package store

import (
	"bytes"
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
	"unicode/utf8"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// Ring adds a nudge: a file in nudges/. The file is durable when Ring returns.
func (st *Store) Ring(from, reason string) error {
	_, settle, err := st.RingAtOnce(from, reason)
	if err != nil {
		return err
	}
	return settle()
}

// RingAtOnce is Ring for a caller that polls in the meantime. The file is visible when RingAtOnce
// returns, and durable once sync returns nil. The caller must call sync exactly once. A power
// loss before that may leave a nudge without its text. mark is a unique prefix of the nudge's key.
func (st *Store) RingAtOnce(from, reason string) (mark string, sync func() error, err error) {
	note, err := json.Marshal(nudgeNote{From: from, Reason: reason})
	if err != nil {
		return "", nil, err
	}
	file := NewID() + ".json"
	name := filepath.Join(NudgesDir, file)
	f, err := st.createNudge(name, string(note)+"\n")
	if err != nil {
		return "", nil, fmt.Errorf("record nudge: %w", err)
	}
	sync = func() error {
		defer f.Close()
		if err := st.syncNudge(name, f); err != nil {
			return fmt.Errorf("record nudge: %w", err)
		}
		return nil
	}
	return "nudge:" + url.PathEscape(file) + "@", sync, nil
}

// createNudge creates a file and returns it open. Readers never see it incomplete.
func (st *Store) createNudge(name, text string) (*os.File, error) {
	if err := st.makeFolder(filepath.Dir(name)); err != nil {
		return nil, err
	}
	path := st.path(name)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = st.Hook.at("write", path+".tmp")
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = st.Hook.at("rename", path)
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		f.Close()
		return nil, errors.Join(err, removeIfThere(path+".tmp"))
	}
	return f, nil
}

// syncNudge makes the file of a nudge durable. A poll may have removed it already, which does no harm. The
// name of its folder must be durable too: another program may have created the folder, and a commit
// that would fsync its name may never follow.
func (st *Store) syncNudge(name string, f *os.File) error {
	if err := st.Hook.at("fsync", st.path(name)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := syncDir(st.Hook, st.path(filepath.Dir(name))); err != nil {
		return err
	}
	return syncDir(st.Hook, st.Dir)
}

type nudgeNote struct {
	From   string `json:"from,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// NudgeFile is one file in nudges/, written by Ring or by a script.
type NudgeFile struct {
	state.Nudged
	Name string

	// For a file whose name ends in MessageSuffix: its text, and the reason it is rejected, if any.
	IsMessage bool
	Text      []byte
	Fault     string
}

// MessageSuffix ends the name of a file in nudges/ that contains a message.
const MessageSuffix = ".message"

// MaxEventText limits a program's message, in bytes.
const MaxEventText = 64 << 10

// readMessage sets Text and Fault from the content of a message file.
func (n *NudgeFile) readMessage(r io.Reader) {
	var err error
	n.Text, err = io.ReadAll(io.LimitReader(r, MaxEventText+1))
	n.Fault = EventFault(n.Text)
	if err != nil {
		n.Fault = "it cannot be read: " + err.Error()
	}
}

// EventFault returns why a text cannot be a program's message, or "".
func EventFault(text []byte) string {
	switch {
	case len(text) > MaxEventText:
		return fmt.Sprintf("it exceeds %d KiB", MaxEventText>>10)
	case !utf8.Valid(text):
		return "it is not UTF-8"
	case len(bytes.TrimSpace(text)) == 0:
		return "it is empty"
	}
	return ""
}

// maxNote is the number of bytes read from a nudge file.
const maxNote = 4 << 10

// Nudges returns the files in nudges/. It leaves out folders and files still being written, whose
// names begin with a dot or end in .tmp.
func (st *Store) Nudges() ([]NudgeFile, error) {
	err := osfile.Folder(st.path(NudgesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var entries []fs.DirEntry
	if err == nil {
		entries, err = os.ReadDir(st.path(NudgesDir))
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
			continue // another process has seen and removed it
		}
		rung = append(rung, st.readNudge(info))
	}
	return rung, nil
}

func (st *Store) readNudge(info fs.FileInfo) NudgeFile {
	n := NudgeFile{Name: info.Name()}
	n.Key = nudgeKey(info)
	n.At = info.ModTime()
	n.IsMessage = strings.HasSuffix(n.Name, MessageSuffix)
	if !info.Mode().IsRegular() {
		n.Fault = "it is not a regular file"
		return n
	}
	f, err := osfile.Open(st.path(filepath.Join(NudgesDir, n.Name)))
	if err != nil {
		n.Fault = "it cannot be read: " + err.Error()
		return n
	}
	defer f.Close()
	if n.IsMessage {
		n.readMessage(f)
		return n
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxNote))
	var note nudgeNote
	if json.Unmarshal(text, &note) != nil {
		note.Reason = strings.TrimSpace(string(text))
	}
	n.From, n.Reason = shortLine(note.From), shortLine(note.Reason)
	return n
}

// nudgeKey returns the key of a file in nudges/. Replacing or rewriting the file changes its key.
func nudgeKey(info fs.FileInfo) string {
	var inode uint64
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = uint64(sys.Ino)
	}
	return fmt.Sprintf("nudge:%s@%d.%d", url.PathEscape(info.Name()), inode, info.ModTime().UnixNano())
}

// shortLine makes foreign text fit for a history line or the log.
func shortLine(s string) string { return plain.Shorten(plain.Line(s), 200) }

// Unring removes a nudge file after its nudge is committed. If another file has taken its place
// since the read, Unring keeps it, because that is a separate nudge or message.
func (st *Store) Unring(n NudgeFile) error {
	name := filepath.Join(NudgesDir, n.Name)
	if err := osfile.Folders(st.Dir, name); err != nil {
		return err
	}
	if err := st.Hook.at("remove", st.path(name)); err != nil {
		return err
	}
	info, err := os.Lstat(st.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case nudgeKey(info) != n.Key:
		return nil
	}
	return removeIfThere(st.path(name))
}
