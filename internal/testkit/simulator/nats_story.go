package simulator

import (
	"math/rand/v2"
	"slices"
)

// CarrierOf returns what carries the mesh in the story of a seed. It is drawn apart, so that
// the steps of a seed over HTTP are what they were before.
func CarrierOf(seed int64) string {
	g := generator{rand.New(rand.NewPCG(uint64(seed), 60))}
	return pickOne(g, "", OverNATS)
}

// natsSites are the points of the mesh over NATS that stand for those over HTTP.
var natsSites = map[string]string{
	"mesh POST message": "nats send", "mesh DELETE mailbox": "nats ack", "mesh PUT registry": "nats register", "mesh GET registry": "nats take",
	"mesh GET mailbox": "nats take",
}

// natsPoints are the points at which the mesh over NATS can go wrong.
var natsPoints = []string{
	"nats send", "nats send", "nats send", "nats send answer", "nats send answer", "nats send answer", "nats take", "nats take", "nats take answer", "nats take answer",
	"nats ack", "nats ack", "nats ack answer", "nats register", "nats register answer", "nats announce", "nats announce answer", "nats put", "nats put answer",
	"agent end", "agent end", // what it has begun is under way
}

// overNATS changes the steps of a story so that its mesh is over NATS. What it adds is
// drawn apart.
func overNATS(seed int64, steps []Step) []Step {
	g := generator{rand.New(rand.NewPCG(uint64(seed), 61))}
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
