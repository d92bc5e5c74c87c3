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

// lives reports whether this same process still runs.
func (p proc) lives() bool {
	now, err := lookUp(p.pid)
	return err == nil && now.start == p.start
}

// processFamily is an agent's process group, and those of its descendants that made their own
// groups, as claude and gemini do for the commands of their tools. A signal to the group alone
// would leave those running. A process whose parent ended before we began to end the agent has
// left the family: it is a daemon.
type processFamily struct {
	group   int
	outside []proc // outside the group, as of the last refresh
}

// refresh finds the descendants of the known members and of the leader, and reports whether any
// of the family still lives.
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

// same reports whether both are the same process, even if its parent or group has changed.
func (p proc) same(other proc) bool { return p.pid == other.pid && p.start == other.start }

// signal sends sig to every process that refresh found. A process that has ended is not an error.
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
