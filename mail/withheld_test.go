package mail_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// These tests scan a server that withholds mail that it has.

// withholding is a startServer server with its mailbox, and the scanner's cursor and clock.
type withholding struct {
	*mailtest.Scripted
	t   *testing.T
	box mail.Mailbox
	now time.Time
	cur state.Cursor

	taken map[string]bool // keys of the mails that came in
}

func newWithholding(t *testing.T) *withholding {
	w := &withholding{Scripted: mailtest.StartScripted(t), t: t, now: noon, taken: map[string]bool{}}
	w.box = plainMailbox(w.Addr)
	w.box.Now = func() time.Time { return w.now }
	w.box.Known = func(key string) bool { return w.taken[key] }
	w.put("nobody is called")
	w.scan()
	return w
}

// put adds an unread mail of the operator.
func (w *withholding) put(subject string) uint32 { return w.Put(letter(subject), w.now) }

// expunge removes a mail.
func (w *withholding) expunge(uid uint32) { w.Do(func(s *mailtest.Scripted) { delete(s.Mails, uid) }) }

// always is a number of sessions that no test reaches.
const always = 1000

// lie replaces the answers to FETCH in this number of sessions from now on.
func (w *withholding) lie(sessions int, lie func(uid uint32, body bool) string) {
	w.Do(func(s *mailtest.Scripted) {
		last := s.Sessions + sessions
		s.Lie = func(session int, uid uint32, body bool) string {
			if session > last {
				return ""
			}
			return lie(uid, body)
		}
	})
}

// answer replaces the answer to each command that contains word.
func (w *withholding) answer(word, answer string) {
	w.Do(func(s *mailtest.Scripted) {
		s.Answer = func(_ int, command string) string {
			if strings.Contains(command, word) {
				return answer
			}
			return ""
		}
	})
}

// emptySearch is the answer to a SEARCH without a result.
const emptySearch = "* SEARCH\r\nTAG OK done\r\n"

// renumber empties the mailbox and changes its UIDVALIDITY.
func (w *withholding) renumber() {
	w.Do(func(s *mailtest.Scripted) {
		s.Validity, s.Next = 8, 1
		clear(s.Mails)
	})
}

// tellTruth ends lie and answer.
func (w *withholding) tellTruth() {
	w.Do(func(s *mailtest.Scripted) { s.Lie, s.Answer = nil, nil })
}

// scan scans once, a minute after the scan before.
func (w *withholding) scan() mail.Scan {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	w.Do(func(*mailtest.Scripted) {})
	l, err := scan(w.t, w.box, w.cur, 10, discard)
	if err != nil {
		w.t.Logf("scan: %v", err)
	}
	w.cur = l.Cursor
	for _, m := range l.Messages {
		w.taken[m.Key] = true
	}
	if uint32(w.cur.Next) > 1 && len(w.cur.Owed) > 0 && w.cur.Owed[len(w.cur.Owed)-1] >= w.cur.Next {
		w.t.Errorf("owed beyond the cursor: %+v", w.cur)
	}
	for _, u := range w.cur.Owed {
		if w.cur.Unseen.Contains(u) {
			w.t.Errorf("UID %d is owed and unseen: %+v", u, w.cur)
		}
	}
	return l
}

// wantSettled fails if a mail is pending, or if a scan asks for more than the headers of new mail.
func (w *withholding) wantSettled() {
	w.t.Helper()
	if l := w.scan(); len(l.Messages) != 0 {
		w.t.Errorf("taken twice: %v", uids(l))
	}
	if len(w.cur.Owed)+len(w.cur.Unseen)+len(w.cur.Failures) != 0 || !w.cur.Complete.Equal(w.now) {
		w.t.Errorf("not settled: %+v", w.cur)
	}
	if !onlyAhead(w.Commands, w.cur) {
		w.t.Errorf("an empty scan asks %q", w.Commands)
	}
}

// waysToWithhold lists ways to withhold the header or the body of a mail in one session.
var waysToWithhold = map[string]struct {
	lie   func(uid uint32, body bool) string
	empty bool // the FETCH of the header seems to find no mail
}{
	"no answer to the header":    {lie: atHeader(mailtest.Nothing), empty: true},
	"an empty header":            {lie: atEach("* 1 FETCH (UID %d RFC822.SIZE 90 BODY[HEADER] {0}\r\n)")},
	"a header that is NIL":       {lie: atEach("* 1 FETCH (UID %d RFC822.SIZE 90 BODY[HEADER] NIL)")},
	"no header, no size":         {lie: atEach("* 1 FETCH (UID %d)")},
	"an empty mail":              {lie: atEach("* 1 FETCH (UID %d RFC822.SIZE 0 BODY[HEADER] {0}\r\n)")},
	"a header under another UID": {lie: atHeader("* 1 FETCH (UID 9%d RFC822.SIZE 90 BODY[HEADER] {4}\r\nA: b)"), empty: true},
	"no answer to the body":      {lie: atBody(mailtest.Nothing)},
	"an empty body":              {lie: atBody("* 1 FETCH (UID %d BODY[] {0}\r\n)")},
	"a body that is NIL":         {lie: atBody("* 1 FETCH (UID %d BODY[] NIL)")},
	"an empty quoted body":       {lie: atBody("* 1 FETCH (UID %d BODY[] \"\")")},
	"the flags for the body":     {lie: atBody("* 1 FETCH (UID %d FLAGS (\\Seen))")},
	"a body under another UID":   {lie: atBody("* 1 FETCH (UID 9%d BODY[] {4}\r\nA: b)")},
	"hung up at the header":      {lie: atHeader(mailtest.HangUp)},
	"hung up at the body":        {lie: atBody(mailtest.HangUp)},
}

func atHeader(answer string) func(uint32, bool) string {
	return func(uid uint32, body bool) string { return answerIf(answer, uid, !body) }
}

func atEach(answer string) func(uint32, bool) string {
	return func(uid uint32, _ bool) string { return answerIf(answer, uid, true) }
}

func atBody(answer string) func(uint32, bool) string {
	return func(uid uint32, body bool) string { return answerIf(answer, uid, body) }
}

// about limits a lie to one mail.
func about(mail uint32, lie func(uint32, bool) string) func(uint32, bool) string {
	return func(uid uint32, body bool) string {
		if uid != mail {
			return ""
		}
		return lie(uid, body)
	}
}

// answerIf returns the answer for a mail if now, and otherwise the request for the true answer.
func answerIf(answer string, uid uint32, now bool) string {
	if now && strings.Contains(answer, "%d") {
		return fmt.Sprintf(answer, uid)
	}
	if now {
		return answer
	}
	return ""
}

// TestWithheldForOneSession checks that a mail that one session withholds in any way comes in with
// a later one, and does not delay its neighbours.
func TestWithheldForOneSession(t *testing.T) {
	for name, way := range waysToWithhold {
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			before, bad, behind := w.put("@goulard3120 one"), w.put("@goulard3120 two"), w.put("@goulard3120 three")
			w.lie(1, about(bad, way.lie))
			first := w.scan()
			broke := strings.Contains(name, "hung up")
			if failed := len(first.Failed) > 0; failed == way.empty && !broke {
				t.Errorf("failed %+v", first.Failed)
			}
			got := uids(first)
			if complete := w.cur.Complete.Equal(w.now); complete == way.empty && !broke {
				t.Errorf("read to its end: %v, cursor %+v", complete, w.cur)
			}
			for range 3 {
				got = append(got, uids(w.scan())...)
			}
			slices.Sort(got)
			wantUIDs(t, "taken", got, []uint32{before, bad, behind})
			w.wantSettled()
		})
	}
}

// TestWithheldForLong checks that a mail which a server lists but does not deliver is never
// skipped, even after many scans.
func TestWithheldForLong(t *testing.T) {
	for name, way := range waysToWithhold {
		if way.empty {
			continue // two sessions agree that the mail is gone
		}
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			bad, behind := w.put("@goulard3120 two"), w.put("@goulard3120 three")
			w.lie(always, about(bad, way.lie))
			var got []uint32
			for range 8 {
				got = append(got, uids(w.scan())...)
			}
			wantUIDs(t, "the other", got, []uint32{behind})
			f := w.cur.Failures[bad]
			if !slices.Equal(w.cur.Owed, []uint32{bad}) || f.Tries < 3 || f.Reason == "" || !f.Next.After(w.now) {
				t.Errorf("after 8 minutes %+v", w.cur)
			}
			w.tellTruth()
			if l := w.scan(); len(l.Messages) != 0 || len(w.Commands) != 0 {
				t.Errorf("asked before it is due: %q", w.Commands)
			}
			w.now = w.now.Add(6 * time.Hour)
			l := w.scan()
			wantUIDs(t, "at last", uids(l), []uint32{bad})
			if len(l.Ended) != 1 || l.Ended[0].Gone || l.Ended[0].Another || l.Ended[0].Failure.Tries != f.Tries {
				t.Errorf("ended %+v", l.Ended)
			}
			w.wantSettled()
		})
	}
}

// onlyAhead reports whether commands consist of the prefetch of new headers.
func onlyAhead(commands []string, cur state.Cursor) bool {
	return len(commands) == 1 && strings.HasPrefix(commands[0], fmt.Sprintf("UID FETCH %d:%d (", cur.Next, cur.Next+15))
}

// TestEmptyFetchAnswers checks that no new mail is skipped if the server answers a FETCH with OK and
// no mail or only some. A second session asks once for mail that seems to be gone.
func TestEmptyFetchAnswers(t *testing.T) {
	w := newWithholding(t)
	var all []uint32
	for i := range 5 {
		all = append(all, w.put(fmt.Sprint("@goulard3120 ", i)))
	}
	w.answer("FETCH", "TAG OK nothing there\r\n")
	if l := w.scan(); len(l.Messages) != 0 || w.cur.Next != all[4]+1 || w.cur.Unseen.Count() != 5 || len(w.cur.Unseen) != 1 {
		t.Errorf("cursor %+v", w.cur)
	}
	w.tellTruth()
	w.expunge(all[1])
	more := w.put("@goulard3120 more")
	wantUIDs(t, "taken in order", uids(w.scan()), []uint32{all[0], all[2], all[3], all[4], more})
	if len(w.Commands) != 3 { // the headers of both sets, and their bodies
		t.Errorf("asked %q", w.Commands)
	}
	w.wantSettled()

	expunged := w.put("@goulard3120 gone")
	w.expunge(expunged)
	if w.scan(); !w.cur.Unseen.Contains(expunged) {
		t.Errorf("gone after one session: %+v", w.cur)
	}
	if w.scan(); len(w.Commands) != 1 || !strings.HasPrefix(w.Commands[0], fmt.Sprintf("UID FETCH %d:%d ", expunged, expunged+1+15)) {
		t.Errorf("the second session was asked %q", w.Commands)
	}
	w.wantSettled()
}

// TestGapsAreAskedForOnce checks that UIDs missing between shown ones are requested once more, even
// if the limit or an error ended the scan between them.
func TestGapsAreAskedForOnce(t *testing.T) {
	w := newWithholding(t)
	var all []uint32
	for i := range 30 {
		all = append(all, w.put(fmt.Sprint("@goulard3120 ", i)))
	}
	w.lie(1, func(uid uint32, body bool) string { return answerIf(mailtest.Nothing, uid, !body && uid%2 == 0) })
	var got []uint32
	for range 6 {
		l := w.scan()
		if n := len(l.Messages); n > 10 {
			t.Errorf("%d at once", n)
		}
		got = append(got, uids(l)...)
	}
	slices.Sort(got)
	wantUIDs(t, "each once", got, all)
	w.wantSettled()
}

// TestEmptySearchAnswer checks that one empty search among very many new mails does not count, and
// that a jump of UIDNEXT by millions stays cheap.
func TestEmptySearchAnswer(t *testing.T) {
	for name, answer := range map[string]string{"nothing": emptySearch, "no answer": "TAG OK done\r\n", "other UIDs": "* SEARCH 1\r\nTAG OK done\r\n"} {
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			uid := w.put("@goulard3120 among millions")
			w.Do(func(s *mailtest.Scripted) { s.Next = 4_000_000_000 })
			w.answer("SEARCH", answer)
			if w.scan(); w.cur.Next != 4_000_000_000 || len(w.cur.Unseen) != 1 || !w.cur.Unseen.Contains(uid) {
				t.Errorf("cursor %+v", w.cur)
			}
			w.tellTruth()
			wantUIDs(t, "the second session", uids(w.scan()), []uint32{uid})
			w.wantSettled()
		})
	}
}

// TestSearchAndFetchDisagree checks that a mail in a search result without a FETCH response does not
// count as gone at once, and is not requested for ever.
func TestSearchAndFetchDisagree(t *testing.T) {
	w := newWithholding(t)
	uid := w.put("@goulard3120 among millions")
	w.Do(func(s *mailtest.Scripted) { s.Next = 5_000_000 })
	w.lie(2, about(uid, atEach(mailtest.Nothing)))
	var got []uint32
	for range 4 {
		got = append(got, uids(w.scan())...)
	}
	wantUIDs(t, "taken", got, []uint32{uid})
	w.wantSettled()

	expunged := w.put("@goulard3120 not there")
	w.Do(func(s *mailtest.Scripted) { s.Next = 9_000_000 })
	w.lie(always, about(expunged, atEach(mailtest.Nothing)))
	for range 3 {
		w.scan()
	}
	w.wantSettled()
}

// TestBrokenSecondSession checks that a connection that breaks while a second session asks for
// missing mail does not delay later mail.
func TestBrokenSecondSession(t *testing.T) {
	w := newWithholding(t)
	bad := w.Put(letter("of a stranger", "operator@example.com", "stranger@example.net"), w.now)
	w.lie(1, about(bad, atEach(mailtest.Nothing)))
	var got, want []uint32
	for i := range 6 {
		want = append(want, w.put(fmt.Sprint("@goulard3120 ", i)))
		got = append(got, uids(w.scan())...)
		w.lie(always, about(bad, atEach(mailtest.HangUp))) // from the second session on
	}
	wantUIDs(t, "the others", got, want)
	w.wantSettled()
}

// TestAnswersWithoutUID checks that a mail does not count as gone if the server sends its UID after
// the mail or not at all.
func TestAnswersWithoutUID(t *testing.T) {
	for name, answer := range map[string]string{
		"behind the mail": "* 1 FETCH (BODY[HEADER] {4}\r\nA: b UID %d)",
		"never":           "* 1 FETCH (BODY[HEADER] {4}\r\nA: b FLAGS (x%d))",
		"UID 0":           "* 1 FETCH (UID 0 BODY[HEADER] {4}\r\nA: b FLAGS (x%d))",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			uid := w.put("@goulard3120 one")
			w.lie(always, atHeader(answer))
			for range 5 {
				w.now = w.now.Add(time.Minute)
				if l, err := scan(t, w.box, w.cur, 10, discard); err == nil || l.Cursor.Next > uid || len(l.Cursor.Unseen)+len(l.Cursor.Failures) > 0 {
					t.Fatalf("cursor %+v, error %v", l.Cursor, err)
				} else {
					w.cur = l.Cursor
				}
			}
			w.tellTruth()
			wantUIDs(t, "at last", uids(w.scan()), []uint32{uid})
		})
	}
}

// TestFailingMailVanishes checks that a failing mail counts as gone when two sessions have not
// shown it.
func TestFailingMailVanishes(t *testing.T) {
	w := newWithholding(t)
	bad := w.put("@goulard3120 bad")
	w.lie(always, atBody(mailtest.Nothing))
	for range 4 {
		w.scan()
	}
	w.expunge(bad)
	w.now = w.now.Add(time.Hour)
	if l := w.scan(); len(l.Ended) != 0 || !slices.Equal(w.cur.Owed, []uint32{bad}) {
		t.Errorf("after one session: ended %+v, cursor %+v", l.Ended, w.cur)
	}
	if l := w.scan(); len(l.Ended) != 1 || !l.Ended[0].Gone {
		t.Errorf("after two: ended %+v, cursor %+v", l.Ended, w.cur)
	}
	w.wantSettled()
}

// TestFailingMailComesLast checks that a failing mail that is due for a retry does not delay newer
// mail.
func TestFailingMailComesLast(t *testing.T) {
	w := newWithholding(t)
	bad := w.put("@goulard3120 bad")
	w.lie(always, about(bad, atEach(mailtest.HangUp)))
	w.scan()
	for i := range 3 {
		w.now = w.now.Add(time.Hour)
		tries := w.cur.Failures[bad].Tries
		fresh := w.put(fmt.Sprint("@goulard3120 ", i))
		wantUIDs(t, "with the other one due", uids(w.scan()), []uint32{fresh})
		if w.cur.Failures[bad].Tries != tries+1 {
			t.Errorf("not tried: %+v", w.cur)
		}
	}
}

// TestRenumberedWhileFailing checks that a failing mail is found again in a renumbered mailbox,
// even if other mail came in long after it.
func TestRenumberedWhileFailing(t *testing.T) {
	for _, age := range []time.Duration{0, 3 * 24 * time.Hour, 90 * 24 * time.Hour} {
		t.Run(fmt.Sprint(age), func(t *testing.T) {
			w := newWithholding(t)
			raw := letter("@goulard3120 bad")
			bad := w.Put(raw, w.now)
			arrived := w.now
			w.lie(always, about(bad, atBody(mailtest.Nothing)))
			w.scan()
			w.now = w.now.Add(age)
			w.put("@goulard3120 behind")
			w.scan()
			w.tellTruth()
			w.renumber()
			again := w.Put(raw, arrived)
			l := w.scan()
			wantUIDs(t, "found again", uids(l), []uint32{again})
			if len(l.Ended) != 1 || !l.Ended[0].Another {
				t.Errorf("ended %+v", l.Ended)
			}
			if l := w.scan(); len(l.Messages) > 0 || len(w.Commands) != 1 {
				t.Errorf("the second look took %v and asked %q", uids(l), w.Commands)
			}
			w.wantSettled()
		})
	}
}

// TestRenumberedWithEmptySearch checks that a mail in a renumbered mailbox is not skipped because
// of one empty search.
func TestRenumberedWithEmptySearch(t *testing.T) {
	w := newWithholding(t)
	raw := letter("@goulard3120 renumbered")
	w.renumber()
	w.answer("SEARCH", emptySearch)
	missed := w.Put(raw, w.now)
	wantUIDs(t, "by the session with the empty search", uids(w.scan()), nil)
	w.tellTruth()
	w.Do(func(s *mailtest.Scripted) { s.Mails[missed].Seen = true })
	wantUIDs(t, "by the next one", uids(w.scan()), []uint32{missed})
	w.wantSettled()
}

// TestUIDNextFalls checks that pending and failing mail is not forgotten if UIDNEXT falls and rises
// again.
func TestUIDNextFalls(t *testing.T) {
	w := newWithholding(t)
	bad, hidden := w.put("@goulard3120 bad"), w.put("@goulard3120 hidden")
	for range 3 {
		w.Put(letter("nobody"), w.now)
	}
	w.lie(always, func(uid uint32, body bool) string {
		return answerIf(mailtest.Nothing, uid, uid == bad && body || uid == hidden)
	})
	w.scan()
	next := w.cur.Next
	w.Do(func(s *mailtest.Scripted) { s.Next = next - 1 })
	w.scan()
	if !slices.Contains(w.cur.Owed, bad) || w.cur.Failures[bad].Tries == 0 {
		t.Errorf("cursor %+v", w.cur)
	}
	w.tellTruth()
	w.Do(func(s *mailtest.Scripted) { s.Next = next })
	w.now = w.now.Add(time.Hour)
	var got []uint32
	for range 3 {
		got = append(got, uids(w.scan())...)
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, []uint32{bad, hidden}) && !slices.Equal(got, []uint32{bad}) {
		t.Errorf("got %v", got)
	}
	w.wantSettled()
}

// TestUnshownMailWithoutUIDNext checks that the cursor passes only shown mail if a server has no
// UIDNEXT.
func TestUnshownMailWithoutUIDNext(t *testing.T) {
	w := newWithholding(t)
	one, two := w.put("@goulard3120 one"), w.put("@goulard3120 two")
	w.Do(func(s *mailtest.Scripted) { s.Next = 0 })
	w.lie(1, about(one, atEach(mailtest.Nothing)))
	wantUIDs(t, "first", uids(w.scan()), []uint32{two})
	wantUIDs(t, "second", uids(w.scan()), []uint32{one})
	if w.scan(); w.cur.Next != two+1 || len(w.cur.Unseen) != 0 {
		t.Errorf("cursor %+v", w.cur)
	}
}

// TestManyGapsStaySmall checks that the cursor of a mailbox with gaps everywhere stays small and
// that no settled mail is taken twice for that.
func TestManyGapsStaySmall(t *testing.T) {
	w := newWithholding(t)
	var want []uint32
	for i := range 900 {
		uid := w.put(fmt.Sprint("nobody ", i))
		if i%3 > 0 {
			w.expunge(uid)
		} else if i%90 == 0 {
			w.Do(func(s *mailtest.Scripted) { s.Mails[uid].Raw = letter("@goulard3120 among gaps") })
			want = append(want, uid)
		}
	}
	var got []uint32
	for range 6 {
		got = append(got, uids(w.scan())...)
		if len(w.cur.Unseen) > 200 {
			t.Errorf("%d ranges", len(w.cur.Unseen))
		}
	}
	wantUIDs(t, "each once", got, want)
	w.wantSettled()
}

func TestLargestUIDs(t *testing.T) {
	w := newWithholding(t)
	w.Do(func(s *mailtest.Scripted) { s.Next = math.MaxUint32 - 1 })
	uid := w.put("@goulard3120 last")
	w.scan()
	w.scan()
	if w.cur.Next != math.MaxUint32 || len(w.cur.Unseen) != 0 {
		t.Errorf("cursor %+v, mail %d", w.cur, uid)
	}
}
