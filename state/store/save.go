package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
)

// save makes next the state after old.
func (st *Store) save(old, next stored, recovery Recovery) error {
	if recovery == "" && old.Serial > 0 && len(old.Lines) == 0 && len(next.Lines) == 0 {
		settled := next
		settled.Settled = true
		data, err := encodeState(&settled)
		if err != nil {
			return err
		}
		same := settled
		same.State = old.WithTimesOf(next.State)
		if was, err := encodeState(&same); err == nil && bytes.Equal(was, data) {
			return st.writeTimes(settled, data, old.Settled)
		}
	}
	return st.write(next)
}

// write makes s the state: it fsyncs it under a temporary name, links the old state to
// .prev, renames the new one and fsyncs the directory.
func (st *Store) write(s stored) error {
	data, err := encodeState(&s)
	if err != nil {
		return err
	}
	if err := st.writeNew(data); err != nil {
		return err
	}
	if err := st.keepPrevious(); err != nil {
		return err
	}
	if err := st.renameNew(); err != nil {
		return err
	}
	st.recent.keep(data, s)
	return syncDir(st.Hook, st.Dir)
}

// writeTimes makes s, whose JSON is data, the state. It differs from the old one only in the
// times of a poll. writeTimes fsyncs the new file and renames it: so the file under the name is whole, whenever the power
// goes. The name is not fsynced, and a power loss may bring back the state before, or that of
// an earlier commit of this kind. They differ in nothing but the times.
//
// The old one may have been renamed by a process that was killed before it fsynced the
// directory. The caller acts by what it holds, so the first commit of this kind makes it
// durable, as .prev as well. Those after it find it settled, and leave .prev as it is: but for
// times, nothing has changed since.
func (st *Store) writeTimes(s stored, data []byte, settled bool) error {
	if !settled {
		if err := st.keepPrevious(); err != nil {
			return err
		}
		if err := syncDir(st.Hook, st.Dir); err != nil {
			return err
		}
	}
	if err := st.writeNew(data); err != nil {
		return err
	}
	if err := st.renameNew(); err != nil {
		return err
	}
	st.recent.keep(data, s)
	return nil
}

// writeNew writes and fsyncs data under a temporary name.
func (st *Store) writeNew(data []byte) error {
	tmp := st.path(stateFile + ".tmp")
	if err := writeSynced(st.Hook, tmp, bytes.NewReader(data)); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	return nil
}

// keepPrevious links the state to .prev.
func (st *Store) keepPrevious() error {
	prev, tmp := st.path(prevFile), st.path(prevFile+".tmp")
	// A leftover link must go first: rename between links of one inode does
	// nothing and would leave both names.
	if err := errors.Join(makeWay(tmp), removeIfThere(tmp)); err != nil {
		return err
	}
	if err := st.Hook.at("link", prev); err != nil {
		return err
	}
	if err := os.Link(st.path(stateFile), tmp); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return renameOver(tmp, prev)
}

// renameNew gives the new file the name of the state.
func (st *Store) renameNew() error {
	if err := st.Hook.at("rename", st.path(stateFile)); err != nil {
		return err
	}
	return renameOver(st.path(stateFile+".tmp"), st.path(stateFile))
}
