package simulator

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentstateloop/state"
)

// credentialTexts match the messages about a credential: the alarm to the keymaster,
// the blocker to the operator, and the recovery to both.
var credentialTexts = map[string]*regexp.Regexp{
	"alarm":    regexp.MustCompile(`The login (\S+) of @\S+ has been refused since (\S+ \S+) UTC`),
	"blocker":  regexp.MustCompile(`The login (\S+) of @\S+ was refused .*?, since (\S+ \S+) UTC`),
	"recovery": regexp.MustCompile(`The login (\S+) of @\S+ works again\. It had been refused since (\S+ \S+) UTC`),
}

// credentialMessage is one message about a credential.
type credentialMessage struct {
	what, name, since string // since: to the minute
	who               string // the receiver: operator or keymaster
	id                string // id of the mail or mesh message
}

// credentialMessages returns all of them. A message to the operator goes by mail, or to a
// peer that is asked to mail the operator.
func (r *record) credentialMessages() (all []credentialMessage) {
	collect := func(who string, o *outgoing) {
		text := o.words()
		for _, what := range sortedKeys(credentialTexts) {
			for _, m := range credentialTexts[what].FindAllStringSubmatch(text, -1) {
				all = append(all, credentialMessage{what, m[1], m[2], who, o.id})
			}
		}
	}
	for _, id := range sortedKeys(r.mails) {
		collect("operator", r.mails[id])
	}
	for _, id := range sortedKeys(r.reports) {
		switch o := r.reports[id]; {
		case o.kind == "relay":
			collect("operator", o)
		case o.kind != "report": // a report may quote anything
			collect("keymaster", o)
		}
	}
	return all
}

// checkCredentialMessages checks that the keymaster and the operator get at most one
// message about each outage, and one about its end (docs/design.md, "Credentials").
func (w *World) checkCredentialMessages(h history) {
	outages := h.outages()
	heard := map[string][]string{}
	all := w.record.credentialMessages()
	for _, s := range all {
		since := max(outages.ever[s.name+" "+s.since], 1)
		if w.clock.wasSetBack() {
			since = outages.ever[s.name] // an outage may have another begin, also that of the next one
		}
		for outage, most := range map[string]int{s.name: outages.ever[s.name], s.name + " " + s.since: since} {
			key := s.what + " of " + outage + " to the " + s.who
			if heard[key] = append(heard[key], s.id); len(heard[key]) > most {
				w.violate("credentials", "%s: %v", key, heard[key])
			}
		}
		w.count.happened("reported: " + s.what + " to the " + s.who)
	}
	for _, s := range all { // everyone who was informed of an outage was informed of its end
		if s.what != "alarm" && s.what != "blocker" || !outages.over[s.name+" "+s.since] {
			continue
		}
		heard := slices.ContainsFunc(all, func(other credentialMessage) bool {
			return other.what == "recovery" && other.who == s.who && other.name == s.name && (other.since == s.since || w.clock.wasSetBack())
		})
		if !heard && !h.undeliverable("notice") && !h.undeliverable("relay") {
			w.violate("credentials", "the %s was informed that %s is refused since %s, but not that it works again", s.who, s.name, s.since)
		}
		w.count.happened("the end of an outage had to be reported to the " + s.who)
	}
}

// secrets must not appear in anything that we keep or send.
var secrets = []string{password, wrongPassword, meshTokens[handle], wrongToken}

// checkSecrets checks that no secret is in the state directory or in a sent message.
func (w *World) checkSecrets(history) {
	filepath.WalkDir(w.stateDir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		data, _ := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(data, []byte(secret)) {
				w.violate("secrets", "%s contains a secret", path)
			}
		}
		return nil
	})
	for id, o := range w.record.sent() {
		for _, secret := range secrets {
			if strings.Contains(o.text, secret) {
				w.violate("secrets", "%s contains a secret", id)
			}
		}
	}
}

// checkRelays checks that each relay request of a proven peer was mailed once to our operator,
// unless it exceeded the limit of six in an hour.
func (w *World) checkRelays(h history) {
	for _, p := range w.record.meshMessages {
		if p.fate != relayed {
			continue
		}
		n := 0
		for _, o := range w.record.mails {
			if o.kind == "relayed" && strings.Contains(o.text, p.marker) {
				n++
			}
		}
		if n == 1 || n == 0 && (h.undeliverable("relayed") || h.says("note", p.id, "not passed on")) {
			continue
		}
		w.violate("credentials", "%s, which had to be relayed, was mailed %d times", p.marker, n)
	}
}

// These checks hold the rules in docs/design.md, "Credentials". The network shows whether a
// credential was refused. By the end of an undisturbed poll with a refusal, the keymaster must have
// been informed, and by the end of the third such poll the operator, if a channel was free of
// trouble.

// refusedBy reports whether a server's answer refuses a credential.
func refusedBy(protocol string, answer []byte) (name string, ok bool) {
	switch protocol {
	case "imap":
		return "imap", bytes.Contains(answer, []byte("AUTHENTICATIONFAILED"))
	case "smtp":
		return "smtp", bytes.HasPrefix(answer, []byte("535 "))
	}
	return "mesh", bytes.HasPrefix(answer, []byte("HTTP/1.1 401 "))
}

// refuse records that a server has refused a credential of the process.
func (p *process) refuse(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = append(p.refused, name)
	if name == "smtp" {
		w := p.world
		w.record.mu.Lock()
		defer w.record.mu.Unlock()
		w.record.deniedAt = w.clock.servers()
	}
}

// maxTrouble is how long a channel may be unused after a failure. Effects back
// off for an hour at most.
const maxTrouble = 65 * time.Minute

// troubled records that sending by a channel failed: "mesh" or "smtp".
func (w *World) troubled(ways ...string) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, way := range ways {
		w.record.lastTrouble[way] = w.clock.servers()
	}
}

// isFree reports whether a channel has been free of trouble for long enough.
func (r *record) isFree(way string) bool {
	at, ever := r.lastTrouble[way]
	return !ever || r.world.clock.servers().Sub(at) > maxTrouble
}

// observedOutage is an outage that polls have met.
type observedOutage struct {
	begin, recoveries int // its line in the history; the number of recoveries of the state before
	polls             int
}

// undisturbed reports whether the poll has no excuse: no fault, no other process and no delay.
func (p *process) undisturbed(took time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name == "poll" && p.world.depth() == 1 && p.strikes == p.world.strikes.Load() && !p.interrupted && took < networkTimeout
}

// checkOutageReported checks, after an undisturbed poll with a refused credential, that the
// keymaster and the operator were informed.
func (w *World) checkOutageReported(p *process, took time.Duration) {
	if took >= networkTimeout {
		w.troubled("mesh", "smtp") // the machine is busy; any server may have been too slow
	}
	p.mu.Lock()
	refused := slices.Compact(slices.Sorted(slices.Values(p.refused)))
	p.mu.Unlock()
	if len(refused) == 0 || !p.undisturbed(took) || w.clock.skewed() != 0 {
		return
	}
	h := w.readHistory()
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	now := h.outages()
	mesh := w.record.isFree("mesh") && !now.fails("mesh") && !w.paced(h)
	operator := w.record.isFree("smtp")
	if now.fails("smtp") {
		operator = mesh // a peer mails the operator in this case
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
		mustHear := func(what, who string) {
			w.count.happened("an outage had to be reported to the " + who)
			heard := slices.ContainsFunc(w.record.credentialMessages(), func(s credentialMessage) bool {
				return s.what == what && s.who == who && s.name == name && s.since == since
			})
			if !heard {
				w.violate("credentials", "%s has been refused since %s, for %d polls, and the %s was not informed", name, since, o.polls, who)
			}
		}
		if mesh && now.alarms < maxAlarms {
			mustHear("alarm", "keymaster")
		}
		if operator && o.polls >= 3 {
			mustHear("blocker", "operator")
		}
	}
}

// maxAlarms is the number of alarms that the keymaster gets at most within an hour.
const maxAlarms = 6

// outages lists the failures of credentials in the history.
type outages struct {
	begun      map[string]int  // the line at which each current outage began, by credential
	ever       map[string]int  // how many there were, by credential, and by credential and minute
	over       map[string]bool // those that have ended, by credential and minute
	recoveries int             // recoveries of the state
	alarms     int             // alarms ever queued
	halted     bool
}

func (o outages) fails(name string) bool { _, fails := o.begun[name]; return fails }

func (h history) outages() outages {
	o := outages{begun: map[string]int{}, ever: map[string]int{}, over: map[string]bool{}}
	halted := haltedBy{}
	for i, l := range h.lines {
		switch {
		case l.is("credential", state.WordFailed):
			o.begun[l.From] = i
			o.ever[l.From]++
			o.ever[l.From+" "+minute(l.At)]++
		case l.is("credential", state.WordRecovered) && o.fails(l.From):
			o.over[l.From+" "+minute(h.lines[o.begun[l.From]].At)] = true
			delete(o.begun, l.From)
		case l.Kind == "recovery":
			o.recoveries++
		case l.Kind == "effect" && l.Effect != nil && l.Effect.Kind == "alarm":
			o.alarms++
		}
		halted.read(l)
	}
	o.halted = halted.any()
	return o
}

// minute returns a time as the messages show it.
func minute(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") }

// channelOf returns the channel that a point belongs to, or "".
func channelOf(site string) string {
	switch {
	case strings.HasPrefix(site, "mesh "), strings.HasPrefix(site, "nats "):
		return "mesh"
	case strings.HasPrefix(site, "smtp "):
		return "smtp"
	}
	return ""
}
