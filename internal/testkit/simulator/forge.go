package simulator

import (
	"slices"
	"time"
)

// This file plays programs that write into our mailbox over NATS in the name of a peer. The tests
// of mesh/natsmesh try how a signature can be wrong; here a forgery has no valid signature.

// forgeries are the kinds of forgeries. The result is in brackets.
//
//	unsigned  a message in a peer's name (kept)
//	relay     a request to mail the operator (kept)
//	nudge     (no phase moves)
//	report    an answer to a question of ours (the question stays open)
//	usurped   a message with the id of one that the peer then sends (kept, and answered)
//	twins     two peers use one id, and both have signed (both answered)
//	replayed  a peer's signed message is posted once more (known, but after a week: kept)
//	flood     a peer sends seven messages at once (all answered)
var forgeries = weighted[string]{
	{6, "unsigned"}, {1, "relay"}, {2, "nudge"}, {2, "report"}, {3, "usurped"}, {2, "twins"}, {5, "replayed"}, {1, "flood"},
}

// forge posts a forgery.
func (w *World) forge(s Step) {
	n := w.nats
	if n == nil {
		return
	}
	w.count.happened("forged over NATS: " + s.Kind)
	switch s.Kind {
	case "nudge":
		n.post(n.nudge(peers[0]), false)
	case "report": // in the name of the agent that was asked
		if m, id := w.record.reportOn(s.N, false); m != nil {
			m["message"] = "the answer to " + id + ", which is forged"
			n.post(m, false)
		}
	case "usurped":
		m, p := w.letterOf(s, peers[0])
		p.correlation = "forged-" + p.marker
		m["id"], m["correlation_id"] = n.newID("taken"), p.correlation
		id, taken := n.post(m, false)
		w.expect(s, p, id, taken)
		genuine, p := w.letterOf(s, peers[0])
		genuine["id"] = m["id"]
		p.correlation, p.fate = m["id"].(string), answered
		id, taken = n.post(genuine, true)
		w.expect(s, p, id, taken)
	case "twins":
		id := n.newID("twin")
		for _, peer := range peers {
			m, p := w.letterOf(s, peer)
			p.correlation, p.fate = "twin-"+p.marker, answered
			m["id"], m["correlation_id"] = id, p.correlation
			_, taken := n.post(m, true)
			w.expect(s, p, peer+":"+id, taken)
		}
	case "replayed":
		w.replay(s)
	case "flood":
		s.Wish = "answer"
		for range 7 {
			m, p := w.letterOf(s, peers[s.N%2])
			p.fate = answered
			id, taken := n.post(m, true)
			w.expect(s, p, id, taken)
		}
	default:
		m, p := w.letterOf(s, peers[0])
		if s.Kind == "relay" {
			m["kind"], p.kind = "relay", "whisper"
		}
		id, taken := n.post(m, false)
		w.expect(s, p, id, taken)
	}
}

// replay posts a peer's signed message once more. After a week its signature is too old.
func (w *World) replay(s Step) {
	n := w.nats
	n.mu.Lock()
	if len(n.letters) == 0 {
		n.mu.Unlock()
		return
	}
	l := n.letters[s.N%len(n.letters)]
	n.mu.Unlock()
	if w.clock.servers().Sub(l.At) > 7*24*time.Hour {
		w.count.happened("an old message was replayed over NATS")
		l.Proven = false
	}
	n.put(l)
}

// CarrierOf returns the carrier of the mesh in the story of a seed.
func CarrierOf(seed int64) string { return pickOne(newGenerator(seed, 60), "", OverNATS) }

// natsSites are the points of the mesh over NATS in place of those over HTTP.
var natsSites = map[string]string{
	"mesh POST message": "nats send", "mesh DELETE mailbox": "nats ack", "mesh PUT registry": "nats register", "mesh GET registry": "nats take",
	"mesh GET mailbox": "nats take",
}

// natsPoints are the points at which the mesh over NATS can go wrong.
var natsPoints = []string{
	"nats send", "nats send", "nats send", "nats send answer", "nats send answer", "nats send answer", "nats take", "nats take", "nats take answer", "nats take answer",
	"nats ack", "nats ack", "nats ack answer", "nats register", "nats register answer", "nats announce", "nats announce answer", "nats put", "nats put answer",
	"agent end", "agent end", // while its effects are under way
}

// overNATS changes the steps of a story so that its mesh is over NATS.
func overNATS(seed int64, steps []Step) []Step {
	g := newGenerator(seed, 61)
	var all []Step
	for _, s := range steps {
		s = s.overNATS()
		if g.chance(2) && s.mayFail() {
			s.Faults = append(slices.Clone(s.Faults), g.natsFault())
		}
		all = append(all, s)
		if g.chance(6) {
			all = append(all, Step{Do: Forge, Kind: pickWeighted(g, forgeries), N: g.IntN(100), Wish: pickOne(g, wishes...)})
		}
		if g.chance(12) {
			all = append(all, g.natsOutage())
		}
	}
	return all
}

// mayFail reports whether the step starts a process that faults strike.
func (s Step) mayFail() bool {
	return slices.Contains([]Deed{Wait, Poll, Turns, Tell, Ring, Halt, Go, Stop, Transition, Release, Outbox, Event, Outside}, s.Do)
}

// overNATS returns the step with the names that the mesh has over NATS.
func (s Step) overNATS() Step {
	if s.Do == Outage && s.Kind == "http" {
		s.Kind = "nats"
	}
	s.Faults, s.Inside = faultsOverNATS(s.Faults), faultsOverNATS(s.Inside)
	return s
}

func faultsOverNATS(faults []Fault) []Fault {
	faults = slices.Clone(faults)
	for i, f := range faults {
		if site := natsSites[f.Site]; site != "" {
			faults[i].Site = site
		}
		if f.Then != nil {
			then := f.Then.overNATS()
			faults[i].Then = &then
		}
	}
	return faults
}

// natsFault returns a fault of the mesh over NATS.
func (g generator) natsFault() Fault {
	f := Fault{Site: pickOne(g, natsPoints...), At: g.IntN(pickWeighted(g, weighted[int]{{4, 1}, {2, 3}}))}
	f.What = pickWeighted(g, weighted[What]{
		{10, Crash}, {6, CrashLate}, {3, Power}, {6, Fail}, {8, Lost}, {3, Half}, {1, Stall}, {3, Cut}, {4, Twice}, {4, Meanwhile},
	})
	if f.What == Meanwhile {
		then := pickOne(g, Step{Do: Outage, Kind: "nats-late", N: 2}, Step{Do: Forge, Kind: pickWeighted(g, forgeries), N: g.IntN(100), Wish: "answer"},
			Step{Do: MeshHalt, Kind: "off"}, Step{Do: Poll}, Step{Do: Report, Kind: "answer", N: g.IntN(100)}, Step{Do: Report, Kind: "twice", N: g.IntN(100)})
		f.Then = &then
	}
	return f
}

// natsOutage returns an outage of the mesh, or a HALT or GO.
func (g generator) natsOutage() Step {
	return pickWeighted(g, weighted[Step]{
		{5, Step{Do: Outage, Kind: "box-full", N: 1 + g.IntN(4)}}, {3, Step{Do: Outage, Kind: "nats-late", N: 1 + g.IntN(4)}}, {2, Step{Do: Outage, Kind: "halt-stale", N: 1 + g.IntN(4)}}, {1, Step{Do: MeshHalt, Kind: "on"}}, {1, Step{Do: MeshHalt, Kind: "off"}},
	})
}
