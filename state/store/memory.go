package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// The files of the agent's working memory: what it reads at the beginning of each
// context, and the version that the last change replaced.
const (
	MemoryFile     = "memory.md"
	MemoryPrevFile = "memory.md.prev"
)

// The folders of its memories of other agents, a file for each, and where a reset
// moves them.
const (
	MemoryDir     = "memory.d"
	MemoryPrevDir = "memory.d.prev"
)

// MaxMemory bounds a working memory, in bytes. All of it is in every context.
const MaxMemory = 4 << 10

// maxOldMemory bounds a memory that a person wrote and that is replaced, in bytes.
const maxOldMemory = 1 << 20

// memoryFile returns the path of the working memory that the turns of a principal
// have.
func memoryFile(who state.Principal) string {
	if who == state.OperatorPrincipal {
		return MemoryFile
	}
	return PayloadName(MemoryDir, strings.Replace(string(who), ":", "-", 1), ".md")
}

// Memory returns the working memory that the turns of a principal have, or "" if
// there is none. A person may have made it longer than MaxMemory; then the rest is
// left out.
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

// KeepMemory replaces a working memory durably, and keeps the old one next to it,
// under a name that ends in .prev. Of other agents' memories it keeps
// state.MaxConversations: for a new one the oldest goes. The caller must hold
// state.lock, as in a change of Commit.
func (st *Store) KeepMemory(who state.Principal, text string) error {
	name := memoryFile(who)
	old, err := st.ReadFile(name, maxOldMemory)
	isNew := errors.Is(err, fs.ErrNotExist)
	if errors.Is(err, osfile.ErrKind) || errors.Is(err, osfile.ErrTooLarge) {
		err = st.moveAside(name, name+".prev") // it is not ours
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

// makeRoomForMemory removes the oldest memories of other agents, until there is room
// for one more.
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
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(changed[a].Compare(changed[b]), strings.Compare(a, b))
	})
	for _, name := range names[:max(0, len(names)-state.MaxConversations+1)] {
		if err := errors.Join(removeIfThere(name), removeIfThere(name+".prev")); err != nil {
			return err
		}
	}
	return nil
}

// SetMemoryAside renames every working memory: the operator's to MemoryPrevFile, and
// the folder of the others to MemoryPrevDir. That is durable before the commit that
// follows, or a power loss could keep the reset and bring the memory back.
func (st *Store) SetMemoryAside() error {
	if err := st.moveAside(MemoryFile, MemoryPrevFile); err != nil {
		return err
	}
	if err := st.moveAside(MemoryDir, MemoryPrevDir); err != nil {
		return err
	}
	return syncDir(st.Hook, st.Dir)
}

// moveAside renames a file or folder to prev, if it is there. What was prev is gone.
func (st *Store) moveAside(name, prev string) error {
	info, err := os.Lstat(st.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() { // no rename replaces a folder that holds files
		err = st.Remove(prev)
	} else {
		err = makeWay(st.path(prev))
	}
	if err != nil {
		return err
	}
	if err := st.Hook.at("rename", st.path(prev)); err != nil {
		return err
	}
	return os.Rename(st.path(name), st.path(prev))
}
