package turn

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// proc is one living process. start distinguishes it from a later process with
// the same pid.
type proc struct {
	pid, parent, group int
	start              string
}

// lives reports whether this very process still runs.
func (p proc) lives() bool {
	now, err := lookUp(p.pid)
	return err == nil && now.start == p.start
}

// processFamily is an agent's process group, and those of its descendants that
// made groups of their own, as claude and gemini do for the commands of their
// tools. A signal to the group alone would leave those running. A process that
// left the family, because its parent ended before the agent was to end, is a
// daemon and does not belong to it.
type processFamily struct {
	group   int
	outside []proc // outside of the group, as of the last refresh
}

// refresh looks for the descendants of the known members and of the leader, and
// reports whether any of the family still lives.
func (f *processFamily) refresh() (lives bool) {
	all := processes()
	children := make(map[int][]proc)
	family := slices.DeleteFunc(slices.Clone(f.outside), func(p proc) bool { return !slices.ContainsFunc(all, p.same) })
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if p.group == f.group {
			family = append(family, p)
		}
	}
	for i := 0; i < len(family); i++ {
		for _, child := range children[family[i].pid] {
			if !slices.ContainsFunc(family, child.same) {
				family = append(family, child)
			}
		}
	}
	f.outside = slices.DeleteFunc(slices.Clone(family), func(p proc) bool { return p.group == f.group })
	return len(family) > 0
}

// same reports whether both are the same process, which may have moved to another
// parent or group.
func (p proc) same(other proc) bool { return p.pid == other.pid && p.start == other.start }

// signal sends sig to every process that refresh found. A process that is gone is
// not an error.
func (f *processFamily) signal(sig unix.Signal) error {
	err := unix.Kill(-f.group, sig)
	for _, p := range f.outside {
		if p.lives() {
			_ = unix.Kill(p.pid, sig)
		}
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
