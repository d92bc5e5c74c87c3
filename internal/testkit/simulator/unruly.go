package simulator

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// This file plays IMAP servers that misbehave: they cannot hand out one mail, forget mails in an
// answer, or say that all is well and send no mail.

// ills are the failures of a server with one mail. Each strikes its header or its body: "body no".
var ills = []string{"no", "bad", "break", "omit", "empty", "nil", "bodiless"}

// illness is that the server cannot hand out a mail until a moment of the servers' clock.
type illness struct {
	part, what string
	until      time.Time
	polls      map[int]bool // the outermost processes that it struck
	counted    int          // undisturbed polls among them
}

// headless reports whether the header comes empty. The agent takes such a mail all the same, by the
// beginning of its text.
func (i *illness) headless() bool {
	return i.part == "head" && (i.what == "empty" || i.what == "nil" || i.what == "bodiless")
}

// recoverAll ends every illness.
func (w *World) recoverAll() {
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	for _, l := range w.record.incoming {
		if l.ill != nil {
			l.ill.until = time.Time{}
		}
	}
}

// strikes returns the failure of an answer about a mail now, or "".
func (r *record) strikes(uid uint32, part string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.mailByUID(uid)
	if l == nil || l.ill == nil || l.ill.part != part || !r.world.clock.servers().Before(l.ill.until) {
		return ""
	}
	l.ill.polls[r.outer] = true
	r.world.count.happened("a server could not hand out a mail: " + l.ill.part + " " + l.ill.what)
	return l.ill.what
}

// omit records that an answer in this session has left out a mail. After a second
// session the program may believe that the mail is gone, and then only a sweep can
// find it; but a mail whose body does not come stays owed.
func (r *record) omit(uid uint32, part string, session *link) {
	if part == "body" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.mailByUID(uid)
	if l == nil {
		return
	}
	if l.omitted != nil && l.omitted != session {
		l.passed = true
	}
	l.omitted = session
}

// mailByUID returns the mail that has this UID now. The caller must hold mu.
func (r *record) mailByUID(uid uint32) *incomingMail {
	for _, l := range r.incoming {
		if slices.Contains(l.uids, uid) {
			return l
		}
	}
	return nil
}

// asked records the FETCH or SEARCH that the next answers belong to.
func (l *link) asked(words []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetching, l.denies = "", ""
	for _, word := range words[1:min(3, len(words))] {
		switch strings.ToUpper(word) {
		case "FETCH", "SEARCH", "SELECT", "EXAMINE":
			l.fetching = strings.ToUpper(word)
		}
	}
}

// unruly returns an answer as the server gives it; nil drops it. end is set if the connection
// breaks after it.
func (l *link) unruly(a mailtest.Answer) (told mailtest.Answer, end bool) {
	w := l.proxy.slot.world
	l.mu.Lock()
	fetching, denies := l.fetching, l.denies
	l.mu.Unlock()
	if fetching == "FETCH" && denies != "" {
		if refused, ok := a.Refused(denies); ok {
			return refused, false
		}
	}
	switch {
	case fetching == "FETCH" && a.UID() != 0:
		return l.unrulyFetch(a)
	case fetching == "SEARCH" && w.down("imap-blank") && isSearch(a):
		w.count.happened("a SEARCH was answered with nothing")
		for _, uid := range a.Found() {
			w.record.omit(uid, "", l)
		}
		return nil, false
	case nextUID.Match(a[0]) && w.down("imap-stale") && !w.clock.daysOff(): // the agent searches for mail by its day
		w.count.happened("UIDNEXT was stale")
		return mailtest.Answer{nextUID.ReplaceAllFunc(a[0], stale)}, false
	}
	return a, false
}

var nextUID = regexp.MustCompile(`(?i)\[UIDNEXT (\d+)\]`)

func isSearch(a mailtest.Answer) bool {
	return bytes.HasPrefix(a[0], []byte("* SEARCH")) || bytes.HasPrefix(a[0], []byte("* ESEARCH"))
}

// stale returns the UIDNEXT of a moment ago.
func stale(text []byte) []byte {
	n, _ := strconv.Atoi(string(nextUID.FindSubmatch(text)[1]))
	return fmt.Appendf(nil, "[UIDNEXT %d]", max(1, n-2))
}

func (l *link) unrulyFetch(a mailtest.Answer) (told mailtest.Answer, end bool) {
	w, uid := l.proxy.slot.world, a.UID()
	if w.down("imap-hollow") || w.down("imap-sparse") && uid%2 == 0 {
		w.count.happened("mails were missing in an answer that said OK")
		w.record.omit(uid, a.Part(), l)
		return nil, false
	}
	switch what := w.record.strikes(uid, a.Part()); what {
	case "no", "bad":
		l.mu.Lock()
		l.denies = strings.ToUpper(what)
		l.mu.Unlock()
		return nil, false
	case "break":
		all := a.Bytes()
		return mailtest.Answer{all[:len(all)/2]}, true
	case "omit":
		w.record.omit(uid, a.Part(), l)
		return nil, false
	case "empty":
		return a.WithBody("{0}\r\n"), false
	case "nil":
		return a.WithBody("NIL"), false
	case "bodiless":
		return a.WithBody(""), false
	}
	return a, false
}

// nextAnswers reads one answer and all buffered ones, and returns the bytes for the client. end is
// set at the end of the connection.
func (l *link) nextAnswers(r *bufio.Reader) (seen []byte, end bool) {
	for {
		a, err := mailtest.ReadAnswer(r)
		if err == nil {
			a, end = l.unruly(a)
		}
		seen = append(seen, a.Bytes()...)
		if err != nil || end {
			return seen, true
		}
		if r.Buffered() == 0 {
			return seen, false
		}
	}
}

// These checks hold the promises about mail that the server cannot hand out, and the mail behind it
// (docs/protocol.md, "Keys and the cursor").

// reading are the outages that keep some mail from a poll.
var reading = []string{"imap", "password", "imap-password", "imap-hollow", "imap-sparse", "imap-blank", "imap-stale"}

// checkProgress checks, after an undisturbed poll, that no mail is held up by others.
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
		if len(l.uids) == 0 || l.gone || l.passed || l.ill != nil && !l.ill.headless() || l.fate == ignored || l.isAmong(known) {
			continue
		}
		if l.chances++; l.chances > patience(ill) {
			w.violate("1", "%s did not come in, in %d polls that nothing disturbed; %d mails could not be handed out, or broke off", l, l.chances, ill)
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

// patience returns the number of undisturbed polls within which a mail must come in, if so many
// other mails cannot be handed out. Each may break the connection once.
func patience(ill int) int { return 2 + 2*ill }

// tellings match the three notices about a mail that cannot be fetched.
var tellings = map[string]*regexp.Regexp{
	"first": regexp.MustCompile(`lists mail that it does not deliver to me`),
	"later": regexp.MustCompile(`has not delivered the following mail to me for a day`),
	"ended": regexp.MustCompile(`The mail that I could not fetch`),
}

var mailKey = regexp.MustCompile(`mail:[0-9a-f]+\.\d+\.\d+`)

// checkTellings checks that the operator hears of a mail that the server cannot hand
// out: once after some failures, once after a day, and once when it is over.
func (w *World) checkTellings(h history) {
	recovered := w.record.cursorHurt || h.recovered
	told := map[string]int{} // by key and notice
	for _, o := range w.record.mails {
		text := o.words()
		for what, match := range tellings {
			if !match.MatchString(text) {
				continue
			}
			for _, key := range mailKey.FindAllString(text, -1) {
				w.count.happened("the operator heard about a mail that cannot be fetched: " + what)
				if told[key+what]++; told[key+what] > 1+h.renumbered(key) && !recovered {
					w.violate("1", "the operator heard %d times that %s cannot be fetched: %s", told[key+what], key, what)
				}
			}
		}
	}
	for _, l := range w.record.incoming {
		if l.ill == nil || l.ill.counted < enough*len(l.uids) || recovered || len(l.keys) != len(l.uids) {
			continue
		}
		if !h.any(func(line line) bool { return (line.Kind == "fetch" || line.Kind == "ended") && l.hasKey(line.Key) }) {
			w.violate("1", "%s failed in %d polls that nothing disturbed, and the operator was not told", l, l.ill.counted)
		}
	}
}

// renumbered returns how often the operator was told that a mail is given up because its number is
// gone. A server with a stale UIDNEXT, or one that shows an empty mailbox, causes that for a mail
// that is still there, whose failure then counts as new.
func (h history) renumbered(key string) (n int) {
	for _, l := range h.lines {
		if l.Kind == "fetch" && l.What == state.WordEnded && l.Key == key && strings.Contains(l.Reason, " any more") {
			n++
		}
	}
	return n
}

// enough is how many failures of a mail, under each UID that it has, the operator must
// have heard of.
const enough = 4
