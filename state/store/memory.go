package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// The files of the agent's working memory: what it reads at the beginning of each
// context, and the version that the last change replaced.
const (
	MemoryFile     = "memory.md"
	MemoryPrevFile = "memory.md.prev"
)

// MaxMemory bounds the working memory, in bytes. All of it is in every context.
const MaxMemory = 4 << 10

// Memory returns the working memory, or "" if there is none. A person may have made
// it longer than MaxMemory; then the rest is left out.
func (st *Store) Memory() (string, error) {
	f, err := os.Open(st.path(MemoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxMemory))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", MemoryFile, err)
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(data), "")), nil
}

// KeepMemory replaces the working memory durably, and keeps the old one as
// MemoryPrevFile. The caller must hold state.lock, as in a change of Commit.
func (st *Store) KeepMemory(text string) error {
	old, err := os.ReadFile(st.path(MemoryFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text = strings.TrimSpace(text) + "\n"
	if err == nil && string(old) == text {
		return nil
	}
	if len(old) > 0 {
		if err := st.Keep(MemoryPrevFile, strings.NewReader(string(old))); err != nil {
			return err
		}
	}
	return st.Keep(MemoryFile, strings.NewReader(text))
}

// SetMemoryAside renames the working memory to MemoryPrevFile, if there is one. The
// commit that follows makes that durable.
func (st *Store) SetMemoryAside() error {
	if _, err := os.Lstat(st.path(MemoryFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := st.Hook.at("rename", st.path(MemoryPrevFile)); err != nil {
		return err
	}
	return os.Rename(st.path(MemoryFile), st.path(MemoryPrevFile))
}
