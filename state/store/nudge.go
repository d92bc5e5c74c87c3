package store

import (
	"bytes"
	"cmp"
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

	"agentstateloop/internal/order"
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

// NudgeFile is one file in nudges/, written by Ring or by a script. ReadNudge sets its content: From and
// Reason of a nudge, or Text of a message.
type NudgeFile struct {
	state.Nudged
	Name      string
	IsMessage bool // its name ends in MessageSuffix

	Text       []byte
	Fault      string // why a message is rejected, or ""
	Unreadable bool   // the fault is that it cannot be read, so Text is incomplete

	regular bool
}

// NudgeList has the files in nudges/.
type NudgeList struct {
	Taken   []NudgeFile // committed, and not removed yet
	New     []NudgeFile // the nudges, and the messages for which the inbox has room, oldest first
	Waiting []string    // the names of the other messages
}

// Messages returns the number of messages that no poll has taken.
func (l NudgeList) Messages() int {
	n := len(l.Waiting)
	for _, f := range l.New {
		if f.IsMessage {
			n++
		}
	}
	return n
}

// MessageSuffix ends the name of a file in nudges/ that contains a message.
const MessageSuffix = ".message"

// MaxEventText limits a program's message, in bytes.
const MaxEventText = 64 << 10

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

// Nudges lists nudges/ for a poll in the state s. It reads no content. While the inbox has no room for
// messages of programs it does not look at their files either, so that thousands of them cost a poll
// only the list of their names. It leaves out folders and files still being written, whose names
// begin with a dot or end in .tmp.
func (st *Store) Nudges(s state.State) (NudgeList, error) {
	entries, err := st.nudgeEntries()
	if err != nil {
		return NudgeList{}, fmt.Errorf("list nudges: %w", err)
	}
	var list NudgeList
	room, taken := s.RoomForEvents(), namesOf(s.Nudges)
	var found []NudgeFile
	for _, e := range entries {
		n := NudgeFile{Name: e.Name(), IsMessage: strings.HasSuffix(e.Name(), MessageSuffix)}
		switch {
		case strings.HasPrefix(n.Name, ".") || strings.HasSuffix(n.Name, ".tmp") || e.IsDir():
		case n.IsMessage && room == 0 && !taken[n.Name]:
			list.Waiting = append(list.Waiting, n.Name)
		case !n.look(e):
			// another process has seen and removed it
		case s.TookNudge(n.Key):
			list.Taken = append(list.Taken, n)
		default:
			found = append(found, n)
		}
	}
	order.Sort(found, func(a, b NudgeFile) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Name, b.Name)) })
	for _, n := range found {
		switch {
		case n.IsMessage && room == 0:
			list.Waiting = append(list.Waiting, n.Name)
			continue
		case n.IsMessage:
			room--
		}
		list.New = append(list.New, n)
	}
	return list, nil
}

// nudgeEntries returns the names in nudges/, unsorted, because there may be thousands.
func (st *Store) nudgeEntries() ([]fs.DirEntry, error) {
	err := osfile.Folder(st.path(NudgesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	folder, err := os.Open(st.path(NudgesDir))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return folder.ReadDir(-1)
}

// namesOf returns the names of the files in nudges/ with these keys.
func namesOf(keys []string) map[string]bool {
	names := map[string]bool{}
	for _, key := range keys {
		if name, err := url.PathUnescape(strings.TrimPrefix(key[:max(0, strings.LastIndex(key, "@"))], "nudge:")); err == nil {
			names[name] = true
		}
	}
	return names
}

// look sets the key and the time of a file. It returns false if the file is gone.
func (n *NudgeFile) look(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil {
		return false
	}
	n.Key, n.At, n.regular = nudgeKey(info), info.ModTime(), info.Mode().IsRegular()
	return true
}

// ReadNudge reads the content of a file. It returns false if the file is gone.
func (st *Store) ReadNudge(n *NudgeFile) bool {
	if !n.regular {
		n.Fault = "it is not a regular file"
		return true
	}
	f, err := osfile.Open(st.path(filepath.Join(NudgesDir, n.Name)))
	if err == nil {
		defer f.Close()
		if n.IsMessage {
			n.Text, err = io.ReadAll(io.LimitReader(f, MaxEventText+1))
			n.Fault = EventFault(n.Text)
		} else {
			n.readNote(f)
		}
	}
	if err != nil {
		n.Fault, n.Unreadable = "it cannot be read: "+err.Error(), true
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// readNote sets From and Reason from the content of a nudge.
func (n *NudgeFile) readNote(r io.Reader) {
	text, _ := io.ReadAll(io.LimitReader(r, maxNote)) // it nudges without a reason, too
	var note nudgeNote
	if json.Unmarshal(text, &note) != nil {
		note.Reason = strings.TrimSpace(string(text))
	}
	n.From, n.Reason = shortLine(note.From), shortLine(note.Reason)
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
	same, err := st.isSame(n)
	if err != nil || !same {
		return err
	}
	path := st.path(filepath.Join(NudgesDir, n.Name))
	if err := st.Hook.at("remove", path); err != nil {
		return err
	}
	return removeIfThere(path)
}

// RejectedDir is the folder of the message files that were rejected and are not in quarantine.
const RejectedDir = NudgesDir + "/rejected"

// SetAside moves a message file to RejectedDir, under a name that no other file has. Like Unring it leaves
// a newer file alone.
func (st *Store) SetAside(n NudgeFile) error {
	same, err := st.isSame(n)
	if err != nil || !same {
		return err
	}
	if err := st.makeFolder(RejectedDir); err != nil {
		return err
	}
	to := st.path(filepath.Join(RejectedDir, NewID()+"."+plain.Cut(n.Name, 200)))
	if err := st.Hook.at("rename", to); err != nil {
		return err
	}
	return os.Rename(st.path(filepath.Join(NudgesDir, n.Name)), to)
}

// isSame reports whether a file in nudges/ is still there, and the same.
func (st *Store) isSame(n NudgeFile) (bool, error) {
	name := filepath.Join(NudgesDir, n.Name)
	if err := osfile.Folders(st.Dir, name); err != nil {
		return false, err
	}
	info, err := os.Lstat(st.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && nudgeKey(info) == n.Key, err
}
