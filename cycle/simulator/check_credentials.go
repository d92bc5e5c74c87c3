package simulator

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// credentialTexts are what is said of a credential: that it is refused, to the keymaster;
// the blocker, to the operator; that it works again, to whom that concerns.
var credentialTexts = map[string]*regexp.Regexp{
	"alarm":    regexp.MustCompile(`Credential (\S+) of @\S+ has been refused since (\S+ \S+) UTC`),
	"blocker":  regexp.MustCompile(`Credential blocker: (\S+) of @\S+ was refused .*?, since (\S+ \S+) UTC`),
	"recovery": regexp.MustCompile(`Credential (\S+) of @\S+ works again\. It had been refused since (\S+ \S+) UTC`),
}

// credentialMessage is one thing that was said of a credential.
type credentialMessage struct {
	what, name, since string // since: to the minute
	who               string // operator or keymaster
	id                string // of the mail or message
}

// credentialMessages are all that were said, by mail, or by a peer who is asked to mail the
// operator.
func (r *record) credentialMessages() (all []credentialMessage) {
	hear := func(who string, o *outgoing) {
		text := strings.Join(strings.Fields(o.text), " ")
		for _, what := range sortedKeys(credentialTexts) {
			for _, m := range credentialTexts[what].FindAllStringSubmatch(text, -1) {
				all = append(all, credentialMessage{what, m[1], m[2], who, o.id})
			}
		}
	}
	for _, id := range sortedKeys(r.mails) {
		hear("operator", r.mails[id])
	}
	for _, id := range sortedKeys(r.reports) {
		switch o := r.reports[id]; {
		case o.kind == "relay":
			hear("operator", o)
		case o.kind != "report": // which may quote anything
			hear("keymaster", o)
		}
	}
	return all
}

// checkCredentialMessages: of each outage of a credential the keymaster hears once, the
// operator once, and either once when it is over (DESIGN 10).
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
		// A clock that was set back moves the begin of an outage.
		for outage, most := range map[string]int{s.name: outages[s.name], s.name + " " + s.since: max(outages[s.name+" "+s.since], 1)} {
			key := s.what + " of " + outage + " to the " + s.who
			if heard[key] = append(heard[key], s.id); len(heard[key]) > most {
				w.violate("credentials", "%s: %v", key, heard[key])
			}
		}
		w.count.happened("told: " + s.what + " to the " + s.who)
	}
	w.checkRecoveries(h, all)
}

// secrets may stand nowhere but where they belong.
var secrets = []string{password, wrongPassword, meshTokens[handle], wrongToken}

// checkSecrets: no secret is in what we keep, nor in what we send.
func (w *World) checkSecrets() {
	filepath.WalkDir(w.stateDir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		data, _ := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(data, []byte(secret)) {
				w.violate("secrets", "%s holds one", path)
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
					w.violate("secrets", "%s holds one", id)
				}
			}
		}
	}
}

// checkRelays: what a proven peer asked us to pass on is mailed once, to our
// operator, unless it was the seventh in an hour.
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
		w.violate("credentials", "%s, which was to be passed on, was mailed %d times", p.marker, n)
	}
}
