package simulator

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// What an outage of a credential must lead to (DESIGN 10). Whether a credential
// was refused is seen on the wire: in a poll from which nothing else distracted,
// the keymaster must have heard of it by the poll's end, and the operator by the
// end of the third, by a way that was open.

// refusedBy says whether a server's answer refuses a credential.
func refusedBy(protocol string, answer []byte) (name string, ok bool) {
	switch protocol {
	case "imap":
		return "imap", bytes.Contains(answer, []byte("AUTHENTICATIONFAILED"))
	case "smtp":
		return "smtp", bytes.HasPrefix(answer, []byte("535 "))
	}
	return "mesh", bytes.HasPrefix(answer, []byte("HTTP/1.1 401 "))
}

// refuse notes that a server has refused a credential of the process.
func (p *process) refuse(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = append(p.refused, name)
}

// longestTrouble is for how long a way may be out of use after a failure: what
// was to be sent there backs off, for an hour at most.
const longestTrouble = 65 * time.Minute

// troubled notes that something was in the way of sending: "mesh" or "smtp".
func (w *World) troubled(ways ...string) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, way := range ways {
		w.record.lastTrouble[way] = w.clock.servers()
	}
}

// isFree says whether a way was free of trouble for long enough.
func (r *record) isFree(way string) bool {
	at, ever := r.lastTrouble[way]
	return !ever || r.world.clock.servers().Sub(at) > longestTrouble
}

// observedOutage is an outage that polls were witnesses of.
type observedOutage struct {
	begin, recoveries int // its line in the history; how often the state was recovered
	polls             int
}

// undisturbed says whether nothing happened to the process that could excuse it.
func (p *process) undisturbed(took time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name == "poll" && p.world.depth() == 1 && p.strikes == p.world.strikeCount() && !p.interrupted && took < networkTimeout
}

// checkOutageReported holds an undisturbed poll, in which a credential was refused,
// against who has heard of it.
func (w *World) checkOutageReported(p *process, took time.Duration) {
	if took >= networkTimeout {
		w.troubled("mesh", "smtp") // a busy machine: who knows which server was too slow
	}
	p.mu.Lock()
	refused := slices.Compact(slices.Sorted(slices.Values(p.refused)))
	p.mu.Unlock()
	if len(refused) == 0 || !p.undisturbed(took) || w.clock.skewed() != 0 {
		return
	}
	h, err := w.readHistory()
	if err != nil {
		return
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	now := h.outages()
	mesh := w.record.isFree("mesh") && !now.fails("mesh")
	operator := w.record.isFree("smtp")
	if now.fails("smtp") {
		operator = mesh // he is mailed by a peer, then
	}
	for _, name := range refused {
		begin, fails := now.begun[name]
		if !fails {
			continue
		}
		o := w.record.observedOutages[name]
		if o == nil || o.begin != begin || o.recoveries != now.recoveries {
			o = &observedOutage{begin: begin, recoveries: now.recoveries}
			w.record.observedOutages[name] = o
		}
		o.polls++
		if now.halted || w.clock.wasSetBack() {
			continue
		}
		since := minute(h.lines[begin].At)
		heard := func(what, who string) bool {
			return slices.ContainsFunc(w.record.credentialMessages(), func(s credentialMessage) bool {
				return s.what == what && s.who == who && s.name == name && s.since == since
			})
		}
		if mesh && now.alarms < maxAlarms {
			w.count.happened("an outage had to be told to the keymaster")
			if !heard("alarm", "keymaster") {
				w.violate("credentials", "%s is refused since %s, for %d polls, and the keymaster has not heard of it", name, since, o.polls)
			}
		}
		if operator && o.polls >= 3 {
			w.count.happened("an outage had to be told to the operator")
			if !heard("blocker", "operator") {
				w.violate("credentials", "%s is refused since %s, for %d polls, and the operator has not heard of it", name, since, o.polls)
			}
		}
	}
}

// maxAlarms is how many the keymaster hears at most within an hour.
const maxAlarms = 6

// outages is what the history tells of the credentials that fail.
type outages struct {
	begun      map[string]int // the line with which each began that is not over
	recoveries int            // of the state
	alarms     int            // ever
	halted     bool
}

func (o outages) fails(name string) bool { _, fails := o.begun[name]; return fails }

func (h history) outages() outages {
	o := outages{begun: map[string]int{}}
	halted := map[string]bool{}
	for i, l := range h.lines {
		switch {
		case l.Kind == "credential" && l.What == "failed":
			o.begun[l.From] = i
		case l.Kind == "credential":
			delete(o.begun, l.From)
		case l.Kind == "recovery":
			o.recoveries++
		case l.Kind == "effect" && l.Effect != nil && l.Effect.Kind == "alarm":
			o.alarms++
		case l.Kind == "halt":
			halted[l.From] = l.What == "halt"
		}
	}
	o.halted = halted["here"] || halted["mesh"]
	return o
}

// checkRecoveries: who heard of an outage has heard of its end.
func (w *World) checkRecoveries(h history, all []credentialMessage) {
	over, last := map[string]bool{}, map[string]string{}
	for _, l := range h.lines {
		switch {
		case l.Kind == "credential" && l.What == "failed":
			last[l.From] = minute(l.At)
		case l.Kind == "credential" && l.What == "recovered":
			over[l.From+" "+last[l.From]] = true
		}
	}
	for _, s := range all {
		who, told := s.who, s.what == "alarm" || s.what == "blocker"
		if !told || !over[s.name+" "+s.since] {
			continue
		}
		heard := slices.ContainsFunc(all, func(other credentialMessage) bool {
			return other.what == "recovery" && other.who == who && other.name == s.name && (other.since == s.since || w.clock.wasSetBack())
		})
		if !heard && !h.undeliverable("notice") && !h.undeliverable("relay") {
			w.violate("credentials", "the %s has heard that %s is refused since %s, and not that it works again", who, s.name, s.since)
		}
		w.count.happened("the end of an outage had to be told to the " + who)
	}
}

// minute is how a time is told.
func minute(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") }

// wayOf is the way of sending that a point is on, "" for others.
func wayOf(site string) string {
	switch {
	case strings.HasPrefix(site, "mesh "):
		return "mesh"
	case strings.HasPrefix(site, "smtp "):
		return "smtp"
	}
	return ""
}
