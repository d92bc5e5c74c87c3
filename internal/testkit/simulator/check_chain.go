package simulator

import "agentstateloop/state/store"

// checkChain checks that the chain of the history has no break and holds the head that
// the state names, whatever was killed (docs/protocol.md, "The audit chain").
func (w *World) checkChain() {
	st := &store.Store{Dir: w.stateDir(), Agent: handle}
	a, err := st.Audit()
	if err != nil {
		w.violate("chain", "%v", err)
		return
	}
	if len(a.Breaks) > 0 {
		w.violate("chain", "breaks: %v", a.Breaks)
	}
	head, err := st.Head()
	if err == nil && head.Sum != "" {
		err = a.Holds(head)
	}
	if err != nil {
		w.violate("chain", "the state has the head %v: %v", head, err)
	}
}
