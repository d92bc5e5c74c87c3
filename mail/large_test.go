package mail_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// fetchLarge fetches one large mail in a separate session.
func fetchLarge(t testing.TB, b mail.Mailbox, cur state.Cursor, uid uint32, keep mail.Keep) (mail.Scan, error) {
	t.Helper()
	s, err := b.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.FetchLarge(t.Context(), cur, uid, filter, keep)
}

// A scan leaves a large mail to FetchLarge and fetches the others. While the large mail is owed,
// the mailbox does not count as completely read. A renumbered mailbox would be read again from the
// time before the large mail.
func storyLarge(t *testing.T, h host) {
	b := mailboxOf(h)
	b.Large = 10 << 10
	cur := mustScan(t, b, state.Cursor{}, 10, shelf{}.keep).Cursor
	cur.Complete = noon.AddDate(0, 0, -3)
	first := h.append(letter("@goulard3120 one"), false)
	raw := longLetter("@goulard3120 two", 50<<10)
	large := h.append(raw, true)
	foreign := h.append(longLetter("somebody else's", 50<<10), true)
	last := h.append(letter("@goulard3120 three"), false)

	mails := shelf{}
	for range 2 {
		got := mustScan(t, b, cur, 10, mails.keep)
		cur = got.Cursor
		wantUIDs(t, "owed", cur.Owed, []uint32{large})
		wantUIDs(t, "large", cur.Large, []uint32{large})
		if cur.Next != last+1 || !cur.Complete.Equal(noon.AddDate(0, 0, -3)) {
			t.Errorf("the cursor is %+v", cur)
		}
	}
	if len(mails) != 2 || mails[first] == "" || mails[foreign] != "" {
		t.Errorf("kept: %d mails", len(mails))
	}
	got, err := fetchLarge(t, b, cur, large, mails.keep)
	if err != nil || mails[large] != raw || len(got.Messages) != 1 || len(got.Cursor.Owed)+len(got.Cursor.Large) > 0 {
		t.Errorf("%d bytes, %d mails, %+v, %v", len(mails[large]), len(got.Messages), got.Cursor, err)
	}
	cur.Owed, cur.Large = nil, nil
	if cur = mustScan(t, b, cur, 10, mails.keep).Cursor; !cur.Complete.Equal(noon) {
		t.Errorf("the cursor is %+v", cur)
	}
	cur.Validity++
	if _, err := fetchLarge(t, b, cur, large, mails.keep); !errors.Is(err, mail.ErrOtherMailbox) {
		t.Errorf("renumbered: %v", err)
	}
}

// Bodies are fetched together as long as they are small together.
func TestBodiesAtOnce(t *testing.T) {
	tr := newTrace()
	h, _ := memoryHost(t, mailtest.Options{Trace: tr})
	b := mailboxOf(h)
	b.Addr, b.TLS = h.plain, mail.TLSNone
	var want []uint32
	for range 4 {
		want = append(want, h.append(longLetter("@goulard3120 hello", 400<<10), false))
	}
	wantUIDs(t, "taken", uids(mustScan(t, b, state.Cursor{}, 10, shelf{}.keep)), want)
	if n := strings.Count(tr.String(), "BODY.PEEK[]"); n != 2 {
		t.Errorf("%d commands for four mails of 400 KB", n)
	}
}

// A mail that is far larger than its server had said, and that does not come, is
// large from then on.
func TestLargeMailReportedAsSmall(t *testing.T) {
	for _, size := range []string{"50000", "500"} {
		b := plainMailbox(lyingServer(t, lie{"body", func(w io.Writer, _ string) {
			io.WriteString(w, "* 1 FETCH (UID 5 BODY[] {"+size+"}\r\nSubject: @goul")
			w.(net.Conn).Close()
		}}))
		b.Large = 10 << 10
		got, err := scan(t, b, state.Cursor{Mailbox: b.ID(), Validity: 7, Next: 3}, 10, shelf{}.keep)
		cur := got.Cursor
		if err == nil || !slices.Equal(cur.Owed, []uint32{5}) || cur.Failures[5].Tries != 1 || (len(cur.Large) == 1) != (size == "50000") {
			t.Errorf("%s bytes: %v, the cursor is %+v", size, err, cur)
		}
	}
}

// What breaks off in the middle of a large mail is a failure of it, unless it is we
// who end it.
func TestTornLargeMail(t *testing.T) {
	b := plainMailbox(lyingServer(t, lie{"body", func(w io.Writer, _ string) {
		io.WriteString(w, "* 1 FETCH (UID 5 BODY[] {50000}\r\nSubject: @goul")
		w.(net.Conn).Close()
	}}))
	cur := state.Cursor{Mailbox: b.ID(), Validity: 7, Next: 6, Owed: []uint32{4, 5}, Large: []uint32{5}}
	got, err := fetchLarge(t, b, cur, 5, shelf{}.keep)
	if c := got.Cursor; err == nil || len(got.Messages) > 0 || c.Failures[5].Tries != 1 || !slices.Equal(c.Owed, []uint32{5}) || !slices.Equal(c.Large, []uint32{5}) {
		t.Errorf("%v, %d mails, the cursor is %+v", err, len(got.Messages), c)
	}
}
