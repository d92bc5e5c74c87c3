package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// The files of the agent's working memory: the current text, which the agent reads at the beginning
// of each context, and the previous text.
const (
	MemoryFile     = "memory.md"
	MemoryPrevFile = "memory.md.prev"
)

// The folder of the memories for conversations with other agents, one file each, and the folder a
// reset moves them to.
const (
	MemoryDir     = "memory.d"
	MemoryPrevDir = "memory.d.prev"
)

// MaxMemory limits a working memory, in bytes. Every context contains all of it.
const MaxMemory = 4 << 10

// maxOldMemory limits an existing memory, perhaps written by a person, that is replaced. In bytes.
const maxOldMemory = 1 << 20

// memoryFile returns the path of the working memory for the turns of a principal.
func memoryFile(who state.Principal) string {
	if who == state.OperatorPrincipal {
		return MemoryFile
	}
	return PayloadName(MemoryDir, strings.Replace(string(who), ":", "-", 1), ".md")
}

// Memory returns the working memory for the turns of a principal, or "" if the file is missing. It
// cuts text beyond MaxMemory, since a person may have written more.
func (st *Store) Memory(who state.Principal) (string, error) {
	name := memoryFile(who)
	f, err := st.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxMemory))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(data), "")), nil
}

// KeepMemory replaces a working memory durably. It keeps the old text in a file of the same name
// plus .prev. It keeps state.MaxConversations memories for other agents, and removes the oldest to
// make room for a new one. The caller must hold state.lock, as in a change of Commit.
func (st *Store) KeepMemory(who state.Principal, text string) error {
	name := memoryFile(who)
	old, err := st.ReadFile(name, maxOldMemory)
	isNew := errors.Is(err, fs.ErrNotExist)
	if errors.Is(err, osfile.ErrKind) || errors.Is(err, osfile.ErrTooLarge) {
		err = st.moveAside(name, name+".prev") // not ours
	}
	if err != nil && !isNew {
		return err
	}
	text = strings.TrimSpace(text) + "\n"
	if string(old) == text {
		return nil
	}
	if len(old) > 0 {
		if err := st.Keep(name+".prev", strings.NewReader(string(old))); err != nil {
			return err
		}
	}
	if isNew && who != state.OperatorPrincipal {
		if err := st.makeRoomForMemory(); err != nil {
			return err
		}
	}
	return st.Keep(name, strings.NewReader(text))
}

// makeRoomForMemory removes the oldest memories for other agents, until there is room for a new
// one.
func (st *Store) makeRoomForMemory() error {
	names, err := filepath.Glob(st.path(filepath.Join(MemoryDir, "*.md")))
	if err != nil {
		return err
	}
	changed := map[string]time.Time{}
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil {
			changed[name] = info.ModTime()
		}
	}
	order.Sort(names, func(a, b string) int {
		return cmp.Or(changed[a].Compare(changed[b]), strings.Compare(a, b))
	})
	for _, name := range names[:max(0, len(names)-state.MaxConversations+1)] {
		if err := errors.Join(removeIfThere(name), removeIfThere(name+".prev")); err != nil {
			return err
		}
	}
	return nil
}

// SetMemoryAside renames every working memory: the operator's to MemoryPrevFile, and the folder of
// the others to MemoryPrevDir. The renames are durable before the commit that follows. Otherwise a
// power loss could keep the reset but restore the memory.
func (st *Store) SetMemoryAside() error {
	if err := st.moveAside(MemoryFile, MemoryPrevFile); err != nil {
		return err
	}
	if err := st.moveAside(MemoryDir, MemoryPrevDir); err != nil {
		return err
	}
	return syncDir(st.Hook, st.Dir)
}

// moveAside renames a file or folder, if it exists, to prev. The old prev is removed.
func (st *Store) moveAside(name, prev string) error {
	info, err := os.Lstat(st.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() { // rename cannot replace a folder that holds files
		err = st.Remove(prev)
	} else {
		err = moveFolderAway(st.path(prev))
	}
	if err != nil {
		return err
	}
	if err := st.Hook.at("rename", st.path(prev)); err != nil {
		return err
	}
	return os.Rename(st.path(name), st.path(prev))
}
