package mail_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// flights splits the commands of a conversation into flights. A flight is everything that is sent
// before the next response.
func flights(conversation string) (all [][]string) {
	answered := true
	for line := range strings.Lines(conversation) {
		tag, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		command, _, _ := strings.Cut(rest, " (")
		switch {
		case command == "LOGOUT": // of the session before
			continue
		case tag == "I1" && command == "ID":
			continue // with the login
		case !slices.Contains([]string{"L1", "T1", "T2", "T3"}, tag) || strings.HasPrefix(rest, "OK"):
			answered = true
			continue
		}
		if answered {
			all = append(all, nil)
		}
		answered = false
		name, _, _ := strings.Cut(command, " \"")
		all[len(all)-1] = append(all[len(all)-1], name)
	}
	return all
}

// TestRoundTripsOfAPoll counts the flights of a poll after TCP and TLS: one without new mail, and
// two with new mail. The poll does not wait for the responses to the mark and to LOGOUT.
func TestRoundTripsOfAPoll(t *testing.T) {
	tr := newTrace()
	h, _ := memoryHost(t, mailtest.Options{Trace: tr})
	h.append(letter("@goulard3120 known"), true)
	b := mailboxOf(h)
	cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
	poll := func() (got mail.Scan, sent [][]string) {
		before := len(tr.String())
		b.Ahead = cur
		s, err := b.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, err = s.Scan(t.Context(), cur, filter, 10, discard); err != nil {
			t.Fatal(err)
		}
		sent = flights(tr.String()[before:])
		s.Close()
		cur = got.Cursor
		return got, sent
	}
	ahead := func() string { return fmt.Sprintf("UID FETCH %d:%d", cur.Next, cur.Next+15) }

	first := []string{"LOGIN", "SELECT INBOX", ahead()}
	if _, sent := poll(); !slices.EqualFunc(sent, [][]string{first}, slices.Equal) {
		t.Errorf("nothing new: %q", sent)
	}
	one := h.append(letter("@goulard3120 one"), false)
	want := [][]string{first, {fmt.Sprintf("UID FETCH %d", one)}}
	if got, sent := poll(); !slices.EqualFunc(sent, want, slices.Equal) || !slices.Equal(uids(got), []uint32{one}) {
		t.Errorf("one new: %q, got %v", sent, uids(got))
	}
	first[2] = ahead()
	h.append(letter("somebody else's", "operator@example.com", "shop@example.net"), false)
	if _, sent := poll(); !slices.EqualFunc(sent, [][]string{first}, slices.Equal) {
		t.Errorf("mail of others: %q", sent)
	}
	for range 40 {
		h.append(letter("@goulard3120 many"), false)
	}
	got, _ := poll()
	if got, _ := poll(); len(got.Messages) != 10 {
		t.Errorf("%d after a limit", len(got.Messages))
	}
	if len(got.Messages) != 10 {
		t.Errorf("%d of many", len(got.Messages))
	}
}

// TestMarkDoesNotWait checks that the request to mark a mail arrives although the
// connection is closed before the server has answered it.
func TestMarkDoesNotWait(t *testing.T) {
	closed, stored := make(chan bool), make(chan bool, 8)
	h, _ := memoryHost(t, mailtest.Options{OnStore: func(imap.NumSet, *imap.StoreFlags) { <-closed; stored <- true }})
	uid := h.append(letter("@goulard3120 one"), false)
	s, err := mailboxOf(h).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Mark([]uint32{uid}, nil)
	s.Close()
	close(closed)
	<-stored
	wantUIDs(t, "unseen", uids(mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)), nil)
}

// TestMarksArriveAtDovecot checks the same with a real server, many times.
func TestMarksArriveAtDovecot(t *testing.T) {
	h := dovecotHost(t, mailtest.StartDovecot(t))
	m := mailboxOf(h)
	for range 20 {
		h.append(letter("@goulard3120 one"), false)
	}
	for _, uid := range uids(mustScan(t, m, state.Cursor{}, 30, discard)) {
		s, err := m.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Mark([]uint32{uid}, nil)
		s.Close()
	}
	var left []uint32
	for range 100 { // the last mark may still be in transit
		if left = uids(mustScan(t, m, state.Cursor{}, 30, discard)); len(left) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond) // Dovecot does not announce a completed STORE
	}
	t.Errorf("not marked: %v", left)
}

// TestBrokenHeaderAhead checks that a prefetched header that the server refuses, or that breaks the
// connection, does not lose the mail.
func TestBrokenHeaderAhead(t *testing.T) {
	for name, breaks := range map[string]func(net.Conn) error{
		"refused":          func(net.Conn) error { return &imap.Error{Type: imap.StatusResponseTypeNo, Text: "no"} },
		"a broken session": func(c net.Conn) error { c.Close(); return nil },
	} {
		broken, fetches := true, 0
		h, _ := memoryHost(t, mailtest.Options{OnFetch: func(c net.Conn, set imap.NumSet, _ *imap.FetchOptions) error {
			if fetches++; broken {
				return breaks(c)
			}
			return nil
		}})
		b := mailboxOf(h)
		cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
		if _, err := scan(t, b, cur, 10, discard); (err == nil) != (name == "refused") {
			t.Errorf("%s, nothing new: %v", name, err)
		}
		uid := h.append(letter("@goulard3120 one"), false)
		got, err := scan(t, b, cur, 10, discard)
		if len(got.Messages) != 0 || fetches == 0 {
			t.Errorf("%s: %v, %v", name, uids(got), err)
		}
		if name == "a broken session" && (err == nil || got.Cursor.Failures[uid].Tries != 1) {
			t.Errorf("%s: %v, cursor %+v", name, err, got.Cursor)
		}
		broken = false
		b.Now = func() time.Time { return noon.Add(time.Hour) }
		got = mustScan(t, b, got.Cursor, 10, discard)
		wantUIDs(t, name, uids(got), []uint32{uid})
	}
}

// TestBrokenMailAheadDelaysNoOther checks that other mail comes in although the header of one mail
// always breaks the connection, also in a renumbered mailbox, and among so much new mail that no
// header is prefetched.
func TestBrokenMailAheadDelaysNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		before, behind int
		renumbered     bool
	}{
		"the first of two":        {0, 1, false},
		"renumbered":              {1, 1, true},
		"the first of very many":  {0, 1200, false},
		"renumbered, one of many": {3, 30, true},
	} {
		broken := uint32(0)
		h, _ := memoryHost(t, mailtest.Options{OnFetch: func(c net.Conn, set imap.NumSet, _ *imap.FetchOptions) error {
			if uids, ok := set.(imap.UIDSet); ok && broken != 0 && uids.Contains(imap.UID(broken)) {
				c.Close()
			}
			return nil
		}})
		h.append(letter("@goulard3120 known"), true)
		b := mailboxOf(h)
		cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
		if c.renumbered {
			h.renumber()
		}
		var want []uint32
		for range c.before {
			want = append(want, h.append(letter("@goulard3120 before"), false))
		}
		broken = h.append(letter("@goulard3120 broken"), false)
		for range c.behind {
			want = append(want, h.append(letter("@goulard3120 behind"), false))
		}
		received := map[uint32]bool{}
		for n := range 8 {
			b.Now = func() time.Time { return noon.Add(time.Duration(n) * time.Hour) } // after the pauses
			got, _ := scan(t, b, cur, 2000, discard)
			for _, u := range uids(got) {
				received[u] = true
			}
			cur = got.Cursor
		}
		for _, u := range want {
			if !received[u] {
				t.Fatalf("%s: %d of %d came; the cursor: %+v", name, len(received), len(want), cur)
			}
		}
	}
}

// TestPrefetchesOnlyInOrder checks that headers are prefetched only with a cursor in order.
func TestPrefetchesOnlyInOrder(t *testing.T) {
	tr := newTrace()
	h, _ := memoryHost(t, mailtest.Options{Trace: tr})
	h.append(letter("@goulard3120 one"), true)
	b := mailboxOf(h)
	cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
	for name, edit := range map[string]func(*state.Cursor){
		"owed":           func(c *state.Cursor) { c.Owed = []uint32{1} },
		"failing":        func(c *state.Cursor) { c.Failures = map[uint32]state.Failure{2: {Tries: 1}} },
		"to read again":  func(c *state.Cursor) { c.Reread = &state.Reread{} },
		"another":        func(c *state.Cursor) { c.Mailbox = "another" },
		"many not shown": func(c *state.Cursor) { c.Unseen = state.UIDRanges{{First: 1, Last: 5000}} },
		"at the end":     func(c *state.Cursor) { c.Next = 1<<32 - 3 },
		"none":           func(c *state.Cursor) { *c = state.Cursor{} },
	} {
		before := len(tr.String())
		b.Ahead = cur.Clone()
		edit(&b.Ahead)
		s, err := b.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sent := flights(tr.String()[before:]); !slices.EqualFunc(sent, [][]string{{"LOGIN", "SELECT INBOX"}}, slices.Equal) {
			t.Errorf("%s: %q", name, sent)
		}
		s.Close()
	}
}
