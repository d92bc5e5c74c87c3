package simulator

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// credentialTexts match the messages about a credential: the alarm to the keymaster,
// the blocker to the operator, and the recovery to both.
var credentialTexts = map[string]*regexp.Regexp{
	"alarm":    regexp.MustCompile(`Credential (\S+) of @\S+ has been refused since (\S+ \S+) UTC`),
	"blocker":  regexp.MustCompile(`Credential blocker: (\S+) of @\S+ was refused .*?, since (\S+ \S+) UTC`),
	"recovery": regexp.MustCompile(`Credential (\S+) of @\S+ works again\. It had been refused since (\S+ \S+) UTC`),
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
		text := strings.Join(strings.Fields(o.text), " ")
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
	outages := map[string]int{} // by name, and by name and minute
	for _, l := range h.lines {
		if l.Kind == "credential" && l.What == "failed" {
			outages[l.From]++
			outages[l.From+" "+minute(l.At)]++
		}
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	heard := map[string][]string{}
	all := w.record.credentialMessages()
	for _, s := range all {
		since := max(outages[s.name+" "+s.since], 1)
		if w.clock.wasSetBack() {
			since = outages[s.name] // an outage may have got another begin, also that of the next one
		}
		for outage, most := range map[string]int{s.name: outages[s.name], s.name + " " + s.since: since} {
			key := s.what + " of " + outage + " to the " + s.who
			if heard[key] = append(heard[key], s.id); len(heard[key]) > most {
				w.violate("credentials", "%s: %v", key, heard[key])
			}
		}
		w.count.happened("reported: " + s.what + " to the " + s.who)
	}
	w.checkRecoveries(h, all)
}

// secrets must not appear in anything that we keep or send.
var secrets = []string{password, wrongPassword, meshTokens[handle], wrongToken}

// checkSecrets checks that no secret is in the state directory or in what we sent.
func (w *World) checkSecrets() {
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
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, sent := range []map[string]*outgoing{w.record.mails, w.record.reports} {
		for id, o := range sent {
			for _, secret := range secrets {
				if strings.Contains(o.text, secret) {
					w.violate("secrets", "%s contains a secret", id)
				}
			}
		}
	}
}

// checkRelays checks that what a proven peer asked us to relay was mailed once to
// our operator, unless it exceeded the limit of six in an hour.
func (w *World) checkRelays(h history) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
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
