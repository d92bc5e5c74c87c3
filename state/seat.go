package state

import "fmt"

// Seat is the host that acts for an agent with several hosts, as of the last commit of TookSeat
// (package fleet/seat).
type Seat struct {
	Host string `json:"host,omitempty"`
	Term uint64 `json:"term,omitempty"`
}

// TookSeat reports that this host acts from now on.
type TookSeat Seat

// apply forgets what belongs to the host before: the sessions of its agent, which continue only
// there, its crontab lines, and signs of other machines. Rows that it could not send are tried at
// once: this host may reach the server, and their pauses are by the clock of the host before.
func (e TookSeat) apply(m *machine) {
	before := m.Seat
	m.Seat = Seat(e)
	m.Elsewhere = Elsewhere{}
	if before.Host == "" || before.Host == e.Host {
		return
	}
	m.endSessions()
	Unpaused{}.apply(m)
	m.Schedule, m.Published = Schedule{}, Published{}
	m.line(Line{Kind: LineRecovery, What: WordTookSeat, From: before.Host, Reason: fmt.Sprintf("%s acts now, term %d", e.Host, e.Term)})
	m.schedule()
}
