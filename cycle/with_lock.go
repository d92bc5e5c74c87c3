package cycle

import "agentstateloop/state/store"

// withLock calls do while this process holds one of the agent's locks, and releases the lock
// however do ends. If another process holds the lock, withLock does not call do, and held is
// false.
func withLock(st *store.Store, lock string, do func() error) (held bool, err error) {
	l, err := st.TryLock(lock)
	if err != nil || l == nil {
		return false, err
	}
	defer l.Unlock()
	return true, do()
}
