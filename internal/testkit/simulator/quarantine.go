package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// releases counts how often a person has released or dropped a rejected item. maybe counts commands
// that were killed or failed, and may have released it.
type releases struct {
	sure, maybe, dropped int
}

func (l releases) touched() bool { return l.sure+l.maybe > 0 }

// within reports whether n answers agree with the releases.
func (l releases) within(n int) bool { return n >= l.sure && n <= l.sure+l.maybe }

// release releases or drops an item of the quarantine.
func (w *World) release(s Step) error {
	var keys []string
	w.run("inbox list", nil, func(_ context.Context, a *cycle.Agent) error {
		items, err := a.View().Quarantined()
		for _, item := range items {
			keys = append(keys, item.Key)
		}
		return err
	})
	key, entry := w.record.quarantined(keys, s.N)
	if entry == nil {
		return nil
	}
	already := false
	err, killed := w.run("inbox "+s.Kind, s.Faults, func(ctx context.Context, a *cycle.Agent) (err error) {
		if s.Kind == "drop" {
			return a.Expel(ctx, key, "by hand")
		}
		already, err = a.Release(ctx, key, state.ByHand)
		return err
	})
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	switch {
	case s.Kind == "drop":
		entry.dropped++
	case killed || err != nil:
		entry.maybe++
	case !already:
		entry.sure++
		w.count.happened("an item of the quarantine was released")
	}
	return err
}

// quarantined selects one of the rejected items that are in quarantine.
func (r *record) quarantined(keys []string, n int) (key string, entry *releases) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	entries := map[string]*releases{}
	add := func(end string, entry *releases) {
		for _, key := range keys {
			if strings.HasSuffix(key, end) {
				found, entries[key] = append(found, key), entry
			}
		}
	}
	for _, l := range r.incoming {
		for _, end := range l.keys {
			if l.fate == kept {
				add(end, &l.releases)
			}
		}
	}
	for _, p := range r.meshMessages {
		if p.fate == kept && p.kind != "whisper" {
			add(":"+p.id, &p.releases)
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	key = found[n%len(found)]
	return key, entries[key]
}

// checkQuarantine checks that each rejected item is in quarantine, with the reason. A folder
// without a reason was left by a crash.
func (w *World) checkQuarantine(h history) {
	files, _ := filepath.Glob(filepath.Join(w.stateDir(), "quarantine", "*", "verdict.json"))
	var there [][]byte
	for _, file := range files {
		var verdict struct{ Key, Gate, Reason string }
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &verdict) != nil || verdict.Key == "" || verdict.Gate == "" || verdict.Reason == "" {
			w.violate("4", "%s lacks the gate or the reason: %q, %v", file, text, err)
		}
		for _, name := range []string{"message.eml", "message.json"} {
			if data, err := os.ReadFile(filepath.Join(filepath.Dir(file), name)); err == nil {
				there = append(there, data)
			}
		}
	}
	holds := func(evidence []byte) bool {
		return slices.ContainsFunc(there, func(data []byte) bool { return bytes.Contains(data, evidence) })
	}
	answers, reports := replies(w.record.mails, "reply"), replies(w.record.reports, "report")
	hurt := w.lostByDamage(h) // after its release
	for _, l := range w.record.incoming {
		if l.fate == kept && l.dropped == 0 && !l.excused() && !l.isAmong(hurt) && len(answers[l.id])+w.record.otherReplies(h, l) == 0 && !h.undeliverable(replyKind) && !holds(l.raw) {
			w.violate("4", "%s was rejected, but is not in quarantine", l)
		}
	}
	for _, p := range w.record.meshMessages {
		if p.fate == kept && p.dropped == 0 && len(reports[p.correlation]) == 0 && !h.sharesTurn(":"+p.id) && !holds([]byte(p.marker)) {
			w.violate("4", "%s was rejected, but is not in quarantine", p)
		}
	}
}

// authserv is the name of the mail server, and refuted the header that it adds to
// forged mail in the operator's name.
const (
	authserv = "mx.example.org"
	refuted  = "Authentication-Results: " + authserv + "; dkim=none; dmarc=fail header.from=example.com\n"
)

// proof returns the header of a mail that the operator's provider signed. The signature covers
// fields and is valid.
func proof(fields ...string) string {
	return mailtest.Verdict(authserv, "example.com") + "\n" + mailtest.Signature("example.com", fields...) + "\n"
}

// signed are the fields that most providers sign. typed are those of a provider that also signs how
// the body is read.
var (
	signed = []string{"From", "To", "Subject", "Date"}
	typed  = append(signed[:4:4], "Content-Type", "Content-Transfer-Encoding")
)

// challenge is a mail that asks the operator whether another mail is theirs.
type challenge struct {
	id, token string
	about     string // the marker of the other mail
}

var (
	tokenLine = regexp.MustCompile(`(?m)^YES (\S+)`)
	asksAbout = regexp.MustCompile(`(?m)^> .*?\b(M\d{3})\b`)
)

// challenges returns the challenges that were sent.
func (r *record) challenges() (list []challenge) {
	for _, id := range sortedKeys(r.mails) {
		o := r.mails[id]
		token, about := tokenLine.FindStringSubmatch(o.text), asksAbout.FindStringSubmatch(o.text)
		if o.kind == "challenge" && token != nil && about != nil {
			list = append(list, challenge{id, token[1], about[1]})
		}
	}
	slices.SortFunc(list, func(a, b challenge) int { return strings.Compare(a.about, b.about) }) // ids are random
	return list
}

// answers are the kinds of answers to a challenge. %[1]s is its token, %[2]s the
// marker of the answer.
var answers = map[string]struct {
	headers, text string
	fate          fate
	vouches       bool // the token proves the answer, once
}{
	"yes":     {"", "yes %[1]s\n", consents, true},
	"talk":    {"", "who is asking?\n%[2]s do=answer\n\n> YES %[1]s\n", kept, true},
	"guess":   {"", "YES abcdefghijklmnopqrstuvwxyz\n%[2]s %[1]s\n", consents, false},
	"auto":    {"Auto-Submitted: auto-replied\n", "YES %[1]s\n%[2]s do=answer\n", kept, false},
	"forward": {"", "YES\n%[2]s do=answer\n", kept, false},
}

// replyToChallenge answers a challenge. Only the token proves the answer.
func (w *World) replyToChallenge(s Step) error {
	w.record.mu.Lock()
	list := w.record.challenges()
	if len(list) == 0 {
		w.record.mu.Unlock()
		return nil
	}
	c := list[s.N%len(list)]
	if s.Kind == "yes" {
		for _, asked := range w.record.incoming {
			// A mail that was renumbered is another item, with a challenge of its own.
			if asked.marker == c.about && !slices.Contains(asked.said, c.token) {
				asked.token, asked.maybe = c.token, asked.maybe+1
				asked.said = append(asked.said, c.token)
			}
		}
	}
	w.record.mu.Unlock()
	kind := answers[s.Kind]
	l := w.record.newMail("answer "+s.Kind, kind.fate)
	if kind.vouches {
		l.token = c.token
	}
	if s.Kind == "talk" {
		l.maybe = 1
	}
	text, answered := fmt.Sprintf(kind.text, c.token, l.marker), c.id
	if s.Kind == "guess" {
		text = strings.ReplaceAll(text, c.token, "")
	}
	if s.Kind == "forward" || s.Kind == "guess" {
		answered = "something.else@example.com" // only the token could prove it, and it is missing
	}
	return w.deliver(l, 1, refuted+"From: "+operator+"\nSubject: Re: @"+handle+": did you write this?\nTo: "+address+"\n"+l.stamp()+
		"In-Reply-To: <"+answered+">\n"+kind.headers+"\n"+text)
}

// checkTokens checks that each token has released at most one mail: the mail in
// question, or an answer.
func (w *World) checkTokens(history) {
	reply := replies(w.record.mails, "reply")
	used := map[string][]string{}
	for _, l := range w.record.incoming {
		byHand := l.sure > 0 || l.fate == kept && l.maybe > 1
		if l.token == "" || l.fate != kept || byHand || len(reply[l.id]) == 0 {
			continue
		}
		w.count.happened("a token released a mail")
		if l.kind == "doubtful" || l.kind == "opened" {
			w.count.happened("a signed mail in doubt came in by YES")
		}
		if used[l.token] = append(used[l.token], l.marker+" ("+l.kind+")"); len(used[l.token]) > 1 {
			w.violate("4", "one token released %v", used[l.token])
		}
	}
}

// asksLater reports whether the operator is still to be asked about a mail.
func (h history) asksLater() bool {
	later := map[string]bool{}
	for _, l := range h.lines {
		switch {
		case l.Kind == "gate" && l.What == state.WordToAsk:
			later[l.Key] = true
		case l.Kind == "challenge":
			delete(later, l.Key)
		}
	}
	return len(later) > 0
}

// checkDoubts checks that the operator was asked about each signed mail that has two readings,
// whichever faults struck the polls.
func (w *World) checkDoubts(h history) {
	asked := map[string]bool{}
	for _, c := range w.record.challenges() {
		asked[c.about] = true
	}
	for _, l := range w.record.incoming {
		switch {
		case l.kind != "doubtful":
		case asked[l.marker]:
			w.count.happened("the operator was asked about a signed mail in doubt")
		case l.dropped == 0 && l.sure == 0 && !l.gone && !l.excused() && !l.touched() && !h.undeliverable("") && len(w.record.struck) == 0:
			w.violate("doubts", "nobody was asked about %s, which the operator had signed", l.marker)
		}
	}
}
