package state

import "time"

// Uncalled counts the operator's mails that came to the agent's address and called no agent. They
// cause nothing, and other agents do not take them either.
type Uncalled struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// CalledNobody reports such mails. The last one came at At.
type CalledNobody struct {
	Count int
	At    time.Time
}

func (e CalledNobody) apply(m *machine) {
	m.Uncalled.Count += e.Count
	if e.At.After(m.Uncalled.Last) {
		m.Uncalled.Last = e.At
	}
}

func (CalledNobody) rank() (int, time.Time) { return rankEnd, time.Time{} }
