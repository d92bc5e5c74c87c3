package simulator

import (
	"regexp"
	"slices"
	"strings"

	"agentstateloop/state"
)

// These checks hold what is promised of mail that the server cannot hand out, and of
// the mail behind it (docs/design.md, "Keys and the cursor").

// reading are the outages in which a poll cannot read all mail.
var reading = []string{"imap", "password", "imap-password", "imap-hollow", "imap-sparse", "imap-blank", "imap-stale"}

// checkProgress checks, after a poll that nothing disturbed, that no mail is held up by
// others.
func (w *World) checkProgress() {
	if slices.ContainsFunc(reading, w.down) {
		return
	}
	known := w.known()
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	ill := w.record.broken
	for _, l := range w.record.incoming {
		if l.ill == nil {
			continue
		}
		ill++
		looksLikeNone := l.ill.part == "head" && l.ill.what == "omit"
		if l.ill.polls[w.record.outer] && !looksLikeNone && !l.ill.headless() {
			l.ill.counted++
		}
	}
	for _, l := range w.record.incoming {
		if len(l.uids) == 0 || l.gone || l.passed || l.ill != nil && !l.ill.headless() || l.fate == ignored || known.has(l) {
			continue
		}
		if l.chances++; l.chances > patience(ill) {
			w.violate("1", "%s (mail %s) did not come in, in %d polls that nothing disturbed; %d mails could not be handed out, or broke off", l.marker, l.kind, l.chances, ill)
		}
	}
}

// brokenOff records that a fault struck while the mailbox was read: the mail that was
// being read is tried again after a pause.
func (r *record) brokenOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken++
}

// patience returns in how many undisturbed polls a mail must have come in, if so many
// others cannot be handed out. Each may break the connection once before it is last.
func patience(ill int) int { return 2 + 2*ill }

// tellings match the three notices about a mail that cannot be fetched.
var tellings = map[string]*regexp.Regexp{
	"first": regexp.MustCompile(`lists a mail that it does not hand out`),
	"later": regexp.MustCompile(`has not handed out a mail for a day`),
	"ended": regexp.MustCompile(`The mail that I could not fetch`),
}

var mailKey = regexp.MustCompile(`mail:[0-9a-f]+\.\d+\.\d+`)

// checkTellings checks that the operator hears of a mail that the server cannot hand
// out: once after some failures, once after a day, and once when it is over.
func (w *World) checkTellings(h history) {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	told := map[string]map[string]int{} // by key, and what
	for _, o := range w.record.mails {
		text := strings.Join(strings.Fields(o.text), " ")
		for what, match := range tellings {
			if !match.MatchString(text) {
				continue
			}
			for _, key := range mailKey.FindAllString(text, -1) {
				if told[key] == nil {
					told[key] = map[string]int{}
				}
				told[key][what]++
				w.count.happened("the operator heard about a mail that cannot be fetched: " + what)
			}
		}
	}
	recovered := w.record.cursorHurt || slices.ContainsFunc(h.lines, func(l line) bool { return l.Kind == "recovery" })
	for key, of := range told {
		for what, n := range of {
			if n > 1+h.renumbered(key) && !recovered {
				w.violate("1", "the operator heard %d times that %s cannot be fetched: %s", n, key, what)
			}
		}
	}
	for _, l := range w.record.incoming {
		if l.ill == nil || l.ill.counted < enough*len(l.uids) || recovered || len(l.keys) != len(l.uids) {
			continue
		}
		if !h.names("fetch", l) && !h.names("ended", l) {
			w.violate("1", "%s (mail %s) failed in %d polls that nothing disturbed, and the operator was not told", l.marker, l.kind, l.ill.counted)
		}
	}
}

// renumbered returns how often the operator was told that a mail is not tried any more
// because its number is gone. A server with a stale UIDNEXT says so of a mail that is
// there: that it fails is news again.
func (h history) renumbered(key string) (n int) {
	for _, l := range h.lines {
		if l.Kind == "fetch" && l.What == "ended" && l.Key == key && strings.Contains(l.Reason, "not tried any more under this key") {
			n++
		}
	}
	return n
}

// enough is how many failures of a mail, under each UID that it has, the operator must
// have heard of.
const enough = 4

// names reports whether a line of that kind is about a mail.
func (h history) names(kind state.LineKind, mail *incomingMail) bool {
	return slices.ContainsFunc(h.lines, func(l line) bool { return l.Kind == kind && mail.hasKey(l.Key+`"`) })
}
