package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"agentstateloop/commands/setup"
	"agentstateloop/cycle/listen"
	"agentstateloop/internal/osfile"
)

// Remove removes the items of the plan, in their order. It returns the removed items, and an error
// for each failed one. After an error the configuration stays: the next removal needs it. The
// caller has stopped the agent. Folders without write permission are removed, too. No link is
// followed.
func (p Plan) Remove() (removed []Item, err error) {
	for _, item := range p.Removes {
		if item.Kind == Settings && err != nil {
			break
		}
		gone, removeErr := item.remove()
		if removeErr != nil {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", item.Path, removeErr))
		}
		if gone && removeErr == nil {
			removed = append(removed, item)
		}
	}
	for _, item := range removed {
		if item.Kind == State && item.only == nil {
			_ = item.removeState() // a poll may have begun before the configuration was gone
		}
	}
	for _, dir := range p.empty {
		_ = os.Remove(dir) // fails for a folder that is not empty
	}
	return removed, err
}

func (i Item) remove() (gone bool, err error) {
	switch i.Kind {
	case State:
		return true, i.removeState()
	case Draft:
		setup.RemoveDrafts(filepath.Dir(i.Path)) // a running init has locked its own
		_, err := os.Lstat(i.Path)
		return errors.Is(err, fs.ErrNotExist), nil
	case Pipe:
		gone, err := listen.RemovePipe(i.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil // the listener removed it when it ended
		}
		return gone, err
	}
	return true, osfile.RemoveAll(i.Path)
}

// removeState removes the state directory, or the entries of it that are ours. state.json is the
// last: a killed removal then finds the agent in the directory again.
func (i Item) removeState() error {
	info, err := os.Lstat(i.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(i.Path) // a link; its target stays
	}
	names := i.only
	if names == nil {
		osfile.MakeWritable(i.Path)
		entries, err := os.ReadDir(i.Path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	const last = "state.json"
	var failed error
	for _, name := range names {
		if name != last {
			failed = errors.Join(failed, osfile.RemoveAll(filepath.Join(i.Path, name)))
		}
	}
	if failed == nil && slices.Contains(names, last) {
		failed = osfile.RemoveAll(filepath.Join(i.Path, last))
	}
	if failed == nil && i.only == nil {
		failed = osfile.RemoveAll(i.Path) // a poll that was about to begin may have put a lock there
	}
	return failed
}

// locked reports whether a process holds the lock on a file.
func locked(path string) bool {
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	lock, err := osfile.Lock(path)
	if err != nil {
		return false
	}
	ok, err := lock.TryLock()
	if ok {
		_ = lock.Unlock()
	}
	return err == nil && !ok
}
