package simulator

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// words are what is said of a credential: that it is refused, to the keymaster;
// the blocker, to the operator; that it works again, to whom that concerns.
var words = map[string]*regexp.Regexp{
	"alarm":    regexp.MustCompile(`Credential (\S+) of @\S+ is refused since (\S+ \S+) UTC`),
	"blocker":  regexp.MustCompile(`Credential blocker: (\S+) of @\S+ was refused .*?, since (\S+ \S+) UTC`),
	"recovery": regexp.MustCompile(`Credential (\S+) of @\S+ works again\. It was refused since (\S+ \S+) UTC`),
}

// checkWords: of each outage of a credential the keymaster hears once, the
// operator once, by mail or by a peer who is asked to mail him, and either once
// when it is over (DESIGN 10).
func (w *World) checkWords(h history) {
	outages := map[string]int{} // by name, and by name and minute
	for _, l := range h.lines {
		if l.Kind == "credential" && l.What == "failed" {
			outages[l.From]++
			outages[l.From+" "+l.At.UTC().Format("2006-01-02 15:04")]++
		}
	}
	w.saw.mu.Lock()
	defer w.saw.mu.Unlock()
	heard := map[string][]string{}
	hear := func(who string, o *outgoing) {
		text := strings.Join(strings.Fields(o.text), " ")
		for what, pattern := range words {
			for _, m := range pattern.FindAllStringSubmatch(text, -1) {
				// A clock that was set back moves the begin of an outage.
				for outage, most := range map[string]int{m[1]: outages[m[1]], m[1] + " " + m[2]: max(outages[m[1]+" "+m[2]], 1)} {
					key := what + " of " + outage + " to the " + who
					if heard[key] = append(heard[key], o.id); len(heard[key]) > most {
						w.violate("credentials", "%s: %v", key, heard[key])
					}
				}
				w.count.some("told: " + what + " to the " + who)
			}
		}
	}
	for _, id := range sortedKeys(w.saw.mails) {
		hear("operator", w.saw.mails[id])
	}
	for _, id := range sortedKeys(w.saw.reports) {
		switch o := w.saw.reports[id]; {
		case o.kind == "relay":
			hear("operator", o)
		case o.kind != "report": // which may quote anything
			hear("keymaster", o)
		}
	}
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
	w.saw.mu.Lock()
	defer w.saw.mu.Unlock()
	for _, sent := range []map[string]*outgoing{w.saw.mails, w.saw.reports} {
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
	w.saw.mu.Lock()
	defer w.saw.mu.Unlock()
	for _, p := range w.saw.posts {
		if p.fate != relayed {
			continue
		}
		n := 0
		for _, o := range w.saw.mails {
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
