package turn

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// proc is one living process. start tells it from another that later got the
// same pid.
type proc struct {
	pid, parent, group int
	start              string
}

// lives says whether this very process still runs.
func (p proc) lives() bool {
	now, err := lookUp(p.pid)
	return err == nil && now.start == p.start
}

// processFamily is an agent's process group and those of its descendants that made
// groups of their own, as claude and gemini do for the commands of their
// tools: a signal to the group alone would leave those running. A process that
// has left the family, since its parent ended before the agent was told to,
// is a daemon and is not kin.
type processFamily struct {
	group   int
	outside []proc // outside of the group, as of the last look
}

// refresh finds the descendants of what it knew and of the leader, and says
// whether any of the family still lives.
func (k *processFamily) refresh() (lives bool) {
	all := processes()
	children := make(map[int][]proc)
	family := slices.DeleteFunc(slices.Clone(k.outside), func(p proc) bool { return !slices.ContainsFunc(all, p.is) })
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if p.group == k.group {
			family = append(family, p)
		}
	}
	for i := 0; i < len(family); i++ {
		for _, child := range children[family[i].pid] {
			if !slices.ContainsFunc(family, child.is) {
				family = append(family, child)
			}
		}
	}
	k.outside = slices.DeleteFunc(slices.Clone(family), func(p proc) bool { return p.group == k.group })
	return len(family) > 0
}

// is compares identities; a process may move to another parent or group.
func (p proc) is(other proc) bool { return p.pid == other.pid && p.start == other.start }

// signal reaches everyone that look found. Those that are gone are no error.
func (k *processFamily) signal(sig unix.Signal) error {
	err := unix.Kill(-k.group, sig)
	for _, p := range k.outside {
		if p.lives() {
			_ = unix.Kill(p.pid, sig)
		}
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
