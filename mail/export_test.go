package mail

// Idles reports whether the server has not refused IDLE yet.
func (w *Watch) Idles() bool { return !w.noIdle }
