package simulator

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/testkit/mailtest"
)

// This file plays IMAP servers that misbehave: that cannot hand out one mail, that
// forget mails in an answer, or that say that all is well and send nothing.

// ills are the ways in which a server fails to hand out one mail. Each strikes its
// header or its body: "body no".
var ills = []string{"no", "bad", "break", "omit", "empty", "nil", "bodiless"}

// illness is the failure of one mail, until a moment of the servers' clock.
type illness struct {
	part, what string
	until      time.Time
	polls      map[int]bool // the outermost processes that it struck
	counted    int          // those of them that were polls which nothing else disturbed
}

// fallIll makes a mail one that the server cannot hand out for a while. ill names
// the part and the way, as in "body no".
func (w *World) fallIll(l *incomingMail, ill string, lasts time.Duration) {
	part, what, _ := strings.Cut(ill, " ")
	l.ill = &illness{part: part, what: what, until: w.clock.servers().Add(lasts), polls: map[int]bool{}}
}

// headless reports whether the header comes empty. Such a mail is taken all the same,
// by how it begins.
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

// isIll reports whether the server cannot hand out the mail now. The caller must
// hold mu.
func (r *record) isIll(l *incomingMail) bool {
	return l.ill != nil && r.world.clock.servers().Before(l.ill.until)
}

// strikes returns how an answer about a mail fails now, or "".
func (r *record) strikes(uid uint32, part string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.mailByUID(uid)
	if l == nil || !r.isIll(l) || l.ill.part != part {
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
		for _, u := range l.uids {
			if u == uid {
				return l
			}
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

// unruly returns an answer as the server gives it, which may be none. end says that
// the connection breaks after it.
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
	case nextUID.Match(a[0]) && w.down("imap-stale") && !w.clock.daysOff(): // mail is searched for by its day
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

// nextAnswers reads one answer, and all that the server has sent with it, and
// returns what the client is to see. end is set if the connection ends there.
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
