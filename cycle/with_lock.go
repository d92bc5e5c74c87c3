package cycle

// withLock does something while this process holds one of the agent's locks,
// which is let go however do ends. If another process has the lock, nothing is
// done and held is false.
func (a *Agent) withLock(lock string, do func() error) (held bool, err error) {
	l, err := a.Store.TryLock(lock)
	if err != nil || l == nil {
		return false, err
	}
	defer l.Unlock()
	return true, do()
}
