package mesh

import (
	"cmp"
	"net/http"
	"strings"
	"unicode"

	"agentstateloop/internal/order"
	"agentstateloop/state"
)

// putPresence stores an agent's row of the registry and answers 204. Without the field wake,
// the row keeps its wake address: a poll publishes its phase while a listener keeps the
// address. An empty wake removes the address, and so does the wake of an old listener.
func (s *Server) putPresence(w http.ResponseWriter, r *http.Request, caller string) (int, any, error) {
	var body struct {
		Phase    string  `json:"phase"`
		Asleep   bool    `json:"asleep"`
		Tier     string  `json:"tier"`
		Callsign string  `json:"callsign"`
		Wake     *string `json:"wake"`
	}
	if err := readBody(w, r, &body); err != nil {
		return 0, nil, err
	}
	handle := r.PathValue("handle")
	p := Presence{Handle: handle, Callsign: cmp.Or(body.Callsign, "@"+handle), Asleep: body.Asleep, SeenAt: s.clock()}
	if body.Phase != "" {
		phase, err := state.ParsePhase(body.Phase)
		if err != nil {
			return 0, nil, refuse(http.StatusBadRequest, "invalid phase: use IDLE, PREP or ACTIVE")
		}
		p.Phase = phase
	}
	if body.Tier != "" {
		tier, err := state.ParseTier(body.Tier)
		if err != nil {
			return 0, nil, refuse(http.StatusBadRequest, "invalid tier: use normal, low_compute, critical or dead")
		}
		p.Tier = tier
	}
	if len(p.Callsign) > MaxCallsign || strings.ContainsFunc(p.Callsign, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return 0, nil, refuse(http.StatusBadRequest, "callsign is longer than %d bytes or not printable", MaxCallsign)
	}
	if body.Wake != nil && isOldWake(handle, *body.Wake) {
		*body.Wake = ""
	}
	if body.Wake != nil && *body.Wake != "" {
		if err := checkWake(handle, *body.Wake); err != nil {
			return 0, nil, err
		}
	}

	if err := s.publish(p, body.Wake, caller != ""); err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, s.persist(false)
}

func (s *Server) publish(p Presence, wake *string, proven bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.ledger.agents[p.Handle]
	if !known && len(s.ledger.agents) >= maxAgents/share(proven) {
		return refuse(http.StatusServiceUnavailable, "the registry is full")
	}
	p.Wake = old.Wake
	if wake != nil {
		p.Wake = *wake
	}
	s.change(record{Presence: &p})
	return nil
}

// getOnline lists the agents seen within OnlineFor, sorted by handle, without
// their wake addresses.
func (s *Server) getOnline(http.ResponseWriter, *http.Request, string) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := onlineList{Agents: presenceList{}}
	for _, p := range s.ledger.agents {
		if s.isOnline(p) {
			p.Wake = ""
			list.Agents = append(list.Agents, p)
		}
	}
	order.Sort(list.Agents, func(a, b Presence) int { return strings.Compare(a.Handle, b.Handle) })
	return http.StatusOK, list, nil
}

// getStatus answers with the health of the mesh. It needs no token.
func (s *Server) getStatus(http.ResponseWriter, *http.Request, string) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Halted: s.ledger.halted, Waiting: s.ledger.count}
	for _, p := range s.ledger.agents {
		if s.isOnline(p) {
			status.Online++
		}
	}
	return http.StatusOK, status, nil
}

func (s *Server) postHalt(_ http.ResponseWriter, _ *http.Request, caller string) (int, any, error) {
	return s.switchHalt(true, callHalt, caller)
}

func (s *Server) postGo(_ http.ResponseWriter, _ *http.Request, caller string) (int, any, error) {
	return s.switchHalt(false, callGo, caller)
}

func (s *Server) switchHalt(halted bool, call pacedCall, caller string) (int, any, error) {
	if err := s.setHalted(halted, call, caller); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]bool{"halted": halted}, s.persist(true)
}

// setHalted sets HALT for all agents and ends their long polls.
func (s *Server) setHalted(halted bool, call pacedCall, caller string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.pace(call, caller, caller != ""); err != nil {
		return err
	}
	s.change(record{Halted: &halted})
	for handle := range s.waiters {
		s.notify(handle)
	}
	return nil
}

func (s *Server) isOnline(p Presence) bool {
	return s.now().Sub(p.SeenAt) < s.options.OnlineFor
}

// markSeen sets the time at which a registered agent read its mailbox. It makes no record:
// after a restart, the next poll sets the time again.
func (s *Server) markSeen(handle string) {
	if p, ok := s.ledger.agents[handle]; ok {
		p.SeenAt = s.clock()
		s.ledger.agents[handle] = p
	}
}
