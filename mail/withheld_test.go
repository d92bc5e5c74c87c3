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

// withholding is a scripted server with its mailbox, and the scanner's cursor and clock.
type withholding struct {
	*mailtest.Scripted
	t   *testing.T
	box mail.Mailbox
	now time.Time
	cur state.Cursor

	taken map[string]bool // keys
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

// scan scans once, a minute after the scan before.
func (w *withholding) scan() mail.Scan {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	w.Do(func(*mailtest.Scripted) {})
	l, err := scan(w.t, w.box, w.cur, 10, shelf{}.keep)
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

// rests fails unless no mail is pending and a scan only asks for the headers of new mail.
func (w *withholding) rests() {
	w.t.Helper()
	if l := w.scan(); len(l.Messages) != 0 {
		w.t.Errorf("taken twice: %v", uids(l))
	}
	if len(w.cur.Owed)+len(w.cur.Unseen)+len(w.cur.Failures) != 0 || !w.cur.Complete.Equal(w.now) {
		w.t.Errorf("not at rest: %+v", w.cur)
	}
	if !onlyAhead(w.Commands, w.cur) {
		w.t.Errorf("an empty scan asks %q", w.Commands)
	}
}

// withheld lists ways to withhold the header or the body of a mail in one session.
var withheld = map[string]struct {
	lie         func(uid uint32, body bool) string
	empty       bool // the FETCH of the header seems to find nothing
	bodyIsTruth bool
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
	return func(uid uint32, body bool) string { return fillIn(answer, uid, !body) }
}

func atEach(answer string) func(uint32, bool) string {
	return func(uid uint32, _ bool) string { return fillIn(answer, uid, true) }
}

func atBody(answer string) func(uint32, bool) string {
	return func(uid uint32, body bool) string { return fillIn(answer, uid, body) }
}

func fillIn(answer string, uid uint32, now bool) string {
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
	for name, way := range withheld {
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			before, bad, behind := w.put("@goulard3120 one"), w.put("@goulard3120 two"), w.put("@goulard3120 three")
			w.Do(func(s *mailtest.Scripted) {
				sessions := s.Sessions
				s.Lie = func(session int, uid uint32, body bool) string {
					if session > sessions+1 || uid != bad {
						return ""
					}
					return way.lie(uid, body)
				}
			})
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
			w.rests()
		})
	}
}

// TestWithheldForLong checks that a mail which a server shows, and does not hand out,
// is never passed, however long that lasts.
func TestWithheldForLong(t *testing.T) {
	for name, way := range withheld {
		if way.empty {
			continue // two sessions agree that it is not there
		}
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			bad, behind := w.put("@goulard3120 two"), w.put("@goulard3120 three")
			w.Do(func(s *mailtest.Scripted) {
				s.Lie = func(_ int, uid uint32, body bool) string {
					if uid != bad {
						return ""
					}
					return way.lie(uid, body)
				}
			})
			var got []uint32
			for range 8 {
				got = append(got, uids(w.scan())...)
			}
			wantUIDs(t, "the other", got, []uint32{behind})
			f := w.cur.Failures[bad]
			if !slices.Equal(w.cur.Owed, []uint32{bad}) || f.Tries < 3 || f.Reason == "" || !f.Next.After(w.now) {
				t.Errorf("after 8 minutes %+v", w.cur)
			}
			w.Do(func(s *mailtest.Scripted) { s.Lie = nil })
			if l := w.scan(); len(l.Messages) != 0 || len(w.Commands) != 0 {
				t.Errorf("asked before it is due: %q", w.Commands)
			}
			w.now = w.now.Add(6 * time.Hour)
			l := w.scan()
			wantUIDs(t, "at last", uids(l), []uint32{bad})
			if len(l.Ended) != 1 || l.Ended[0].Gone || l.Ended[0].Another || l.Ended[0].Failure.Tries != f.Tries {
				t.Errorf("ended %+v", l.Ended)
			}
			w.rests()
		})
	}
}

// onlyAhead reports whether commands consist of the prefetch of new headers.
func onlyAhead(commands []string, cur state.Cursor) bool {
	return len(commands) == 1 && strings.HasPrefix(commands[0], fmt.Sprintf("UID FETCH %d:%d (", cur.Next, cur.Next+15))
}

// TestEmptyFetchAnswers checks that a FETCH of new mail that is answered OK, with nothing
// or only a part, passes none of it, and that of what is gone a second session is
// asked, once.
func TestEmptyFetchAnswers(t *testing.T) {
	w := newWithholding(t)
	var all []uint32
	for i := range 5 {
		all = append(all, w.put(fmt.Sprint("@goulard3120 ", i)))
	}
	w.Do(func(s *mailtest.Scripted) {
		s.Answer = func(_ int, command string) string {
			if strings.Contains(command, "FETCH") {
				return "TAG OK nothing there\r\n"
			}
			return ""
		}
	})
	if l := w.scan(); len(l.Messages) != 0 || w.cur.Next != all[4]+1 || w.cur.Unseen.Count() != 5 || len(w.cur.Unseen) != 1 {
		t.Errorf("cursor %+v", w.cur)
	}
	w.Do(func(s *mailtest.Scripted) { s.Answer = nil; delete(s.Mails, all[1]) })
	more := w.put("@goulard3120 more")
	wantUIDs(t, "taken in order", uids(w.scan()), []uint32{all[0], all[2], all[3], all[4], more})
	if len(w.Commands) != 3 { // the headers of both sets, and their bodies
		t.Errorf("asked %q", w.Commands)
	}
	w.rests()

	expunged := w.put("@goulard3120 gone")
	w.expunge(expunged)
	if w.scan(); !w.cur.Unseen.Contains(expunged) {
		t.Errorf("gone after one session: %+v", w.cur)
	}
	if w.scan(); len(w.Commands) != 1 || !strings.HasPrefix(w.Commands[0], fmt.Sprintf("UID FETCH %d:%d ", expunged, expunged+1+15)) {
		t.Errorf("the second session was asked %q", w.Commands)
	}
	w.rests()
}

// TestGapsAreAskedForOnce checks that UIDs missing between shown ones are requested once more, even
// if the limit or an error ended the scan between them.
func TestGapsAreAskedForOnce(t *testing.T) {
	w := newWithholding(t)
	var all []uint32
	for i := range 30 {
		all = append(all, w.put(fmt.Sprint("@goulard3120 ", i)))
	}
	w.Do(func(s *mailtest.Scripted) {
		first := s.Sessions + 1
		s.Lie = func(session int, uid uint32, body bool) string {
			return fillIn(mailtest.Nothing, uid, !body && uid%2 == 0 && session == first)
		}
	})
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
	w.rests()
}

// TestEmptySearchAnswer checks that a search among very many new mails is not
// believed at once, and that a jump of UIDNEXT by millions stays cheap.
func TestEmptySearchAnswer(t *testing.T) {
	for name, answer := range map[string]string{"nothing": "* SEARCH\r\nTAG OK done\r\n", "no answer": "TAG OK done\r\n", "other UIDs": "* SEARCH 1\r\nTAG OK done\r\n"} {
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			uid := w.put("@goulard3120 among millions")
			w.Do(func(s *mailtest.Scripted) {
				s.Next = 4_000_000_000
				s.Answer = func(_ int, command string) string {
					if strings.Contains(command, "SEARCH") {
						return answer
					}
					return ""
				}
			})
			if w.scan(); w.cur.Next != 4_000_000_000 || len(w.cur.Unseen) != 1 || !w.cur.Unseen.Contains(uid) {
				t.Errorf("cursor %+v", w.cur)
			}
			w.Do(func(s *mailtest.Scripted) { s.Answer = nil })
			wantUIDs(t, "the second session", uids(w.scan()), []uint32{uid})
			w.rests()
		})
	}
}

// TestSearchAndFetchDisagree checks that a mail in a search result without a FETCH response is
// neither taken for gone at once nor requested for ever.
func TestSearchAndFetchDisagree(t *testing.T) {
	w := newWithholding(t)
	uid := w.put("@goulard3120 among millions")
	w.Do(func(s *mailtest.Scripted) {
		s.Next = 5_000_000
		sessions := s.Sessions
		s.Lie = func(session int, u uint32, _ bool) string {
			if u == uid && session < sessions+3 {
				return mailtest.Nothing
			}
			return ""
		}
	})
	var got []uint32
	for range 4 {
		got = append(got, uids(w.scan())...)
	}
	wantUIDs(t, "taken", got, []uint32{uid})
	w.rests()

	expunged := w.put("@goulard3120 not there")
	w.Do(func(s *mailtest.Scripted) {
		s.Next = 9_000_000
		s.Lie = func(_ int, u uint32, _ bool) string { return fillIn(mailtest.Nothing, u, u == expunged) }
	})
	for range 3 {
		w.scan()
	}
	w.rests()
}

// TestBrokenSecondSession checks that a connection that ends while a second
// session is asked for what was not shown costs no later mail.
func TestBrokenSecondSession(t *testing.T) {
	w := newWithholding(t)
	bad := w.Put(letter("of a stranger", "operator@example.com", "stranger@example.net"), w.now)
	w.Do(func(s *mailtest.Scripted) {
		sessions := s.Sessions
		s.Lie = func(session int, u uint32, body bool) string {
			switch {
			case u != bad:
				return ""
			case session == sessions+1:
				return mailtest.Nothing
			}
			return mailtest.HangUp
		}
	})
	var got, want []uint32
	for i := range 6 {
		want = append(want, w.put(fmt.Sprint("@goulard3120 ", i)))
		got = append(got, uids(w.scan())...)
	}
	wantUIDs(t, "the others", got, want)
	w.rests()
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
			w.Do(func(s *mailtest.Scripted) {
				s.Lie = func(_ int, u uint32, body bool) string { return fillIn(answer, u, !body) }
			})
			for range 5 {
				w.now = w.now.Add(time.Minute)
				if l, err := scan(t, w.box, w.cur, 10, shelf{}.keep); err == nil || l.Cursor.Next > uid || len(l.Cursor.Unseen)+len(l.Cursor.Failures) > 0 {
					t.Fatalf("cursor %+v, error %v", l.Cursor, err)
				} else {
					w.cur = l.Cursor
				}
			}
			w.Do(func(s *mailtest.Scripted) { s.Lie = nil })
			wantUIDs(t, "at last", uids(w.scan()), []uint32{uid})
		})
	}
}

// TestFailingMailVanishes checks that a failing mail counts as gone when two sessions have not
// shown it.
func TestFailingMailVanishes(t *testing.T) {
	w := newWithholding(t)
	bad := w.put("@goulard3120 bad")
	w.Do(func(s *mailtest.Scripted) {
		s.Lie = func(_ int, uid uint32, body bool) string { return fillIn(mailtest.Nothing, uid, body) }
	})
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
	w.rests()
}

// TestFailingMailComesLast checks that a failing mail that is due for a retry does not delay newer
// mail.
func TestFailingMailComesLast(t *testing.T) {
	w := newWithholding(t)
	bad := w.put("@goulard3120 bad")
	w.Do(func(s *mailtest.Scripted) {
		s.Lie = func(_ int, uid uint32, _ bool) string { return fillIn(mailtest.HangUp, uid, uid == bad) }
	})
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
			w.Do(func(s *mailtest.Scripted) {
				s.Lie = func(_ int, uid uint32, body bool) string { return fillIn(mailtest.Nothing, uid, uid == bad && body) }
			})
			w.scan()
			w.now = w.now.Add(age)
			w.put("@goulard3120 behind")
			w.scan()
			w.Do(func(s *mailtest.Scripted) {
				s.Validity, s.Lie, s.Next = 8, nil, 1
				clear(s.Mails)
				s.Answer = func(_ int, command string) string {
					if strings.Contains(command, "SEARCH") {
						t.Log(command)
					}
					return ""
				}
			})
			again := w.Put(raw, arrived)
			l := w.scan()
			wantUIDs(t, "found again", uids(l), []uint32{again})
			if len(l.Ended) != 1 || !l.Ended[0].Another {
				t.Errorf("ended %+v", l.Ended)
			}
			if l := w.scan(); len(l.Messages) > 0 || len(w.Commands) != 1 {
				t.Errorf("the second look took %v and asked %q", uids(l), w.Commands)
			}
			w.rests()
		})
	}
}

// TestRenumberedWithEmptySearch checks that a mail is not passed because one session
// found nothing in a renumbered mailbox.
func TestRenumberedWithEmptySearch(t *testing.T) {
	w := newWithholding(t)
	raw := letter("@goulard3120 renumbered")
	w.Do(func(s *mailtest.Scripted) {
		s.Validity, s.Next = 8, 1
		clear(s.Mails)
		s.Answer = func(_ int, command string) string {
			if strings.Contains(command, "SEARCH") {
				return "* SEARCH\r\nTAG OK done\r\n"
			}
			return ""
		}
	})
	missed := w.Put(raw, w.now)
	wantUIDs(t, "by the session that found nothing", uids(w.scan()), nil)
	w.Do(func(s *mailtest.Scripted) { s.Answer = nil; s.Mails[missed].Seen = true })
	wantUIDs(t, "by the next one", uids(w.scan()), []uint32{missed})
	w.rests()
}

// TestUIDNextFalls checks that mail that waits for a second session, and failing mail, is not
// forgotten if UIDNEXT falls and rises again.
func TestUIDNextFalls(t *testing.T) {
	w := newWithholding(t)
	bad, hidden := w.put("@goulard3120 bad"), w.put("@goulard3120 hidden")
	for range 3 {
		w.Put(letter("nobody"), w.now)
	}
	w.Do(func(s *mailtest.Scripted) {
		s.Lie = func(_ int, uid uint32, body bool) string {
			return fillIn(mailtest.Nothing, uid, uid == bad && body || uid == hidden)
		}
	})
	w.scan()
	next := w.cur.Next
	w.Do(func(s *mailtest.Scripted) { s.Next = next - 1 })
	w.scan()
	if !slices.Contains(w.cur.Owed, bad) || w.cur.Failures[bad].Tries == 0 {
		t.Errorf("cursor %+v", w.cur)
	}
	w.Do(func(s *mailtest.Scripted) { s.Next, s.Lie = next, nil })
	w.now = w.now.Add(time.Hour)
	var got []uint32
	for range 3 {
		got = append(got, uids(w.scan())...)
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, []uint32{bad, hidden}) && !slices.Equal(got, []uint32{bad}) {
		t.Errorf("got %v", got)
	}
	w.rests()
}

// TestWithoutUIDNext checks that only shown mail is passed if a server has no UIDNEXT.
func TestWithoutUIDNext(t *testing.T) {
	w := newWithholding(t)
	one, two := w.put("@goulard3120 one"), w.put("@goulard3120 two")
	w.Do(func(s *mailtest.Scripted) {
		s.Next = 0
		sessions := s.Sessions
		s.Lie = func(session int, uid uint32, body bool) string {
			return fillIn(mailtest.Nothing, uid, uid == one && session == sessions+1)
		}
	})
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
	taken := map[string]bool{}
	w.box.Known = func(key string) bool { return taken[key] }
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
		l := w.scan()
		for _, m := range l.Messages {
			taken[m.Key] = true
		}
		got = append(got, uids(l)...)
		if len(w.cur.Unseen) > 200 {
			t.Errorf("%d ranges", len(w.cur.Unseen))
		}
	}
	wantUIDs(t, "each once", got, want)
	w.rests()
}

// TestUIDsNearTheEnd checks the largest UIDs.
func TestUIDsNearTheEnd(t *testing.T) {
	w := newWithholding(t)
	w.Do(func(s *mailtest.Scripted) { s.Next = math.MaxUint32 - 1 })
	uid := w.put("@goulard3120 last")
	w.scan()
	w.scan()
	if w.cur.Next != math.MaxUint32 || len(w.cur.Unseen) != 0 {
		t.Errorf("cursor %+v, mail %d", w.cur, uid)
	}
}
