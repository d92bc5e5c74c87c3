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

// storyLarge checks that a scan leaves a large mail to FetchLarge and fetches the others. While the
// large mail is pending, the mailbox does not count as completely read, so a renumbered mailbox
// would be read again from the time before the large mail.
func storyLarge(t *testing.T, h host) {
	b := mailboxOf(h)
	b.Large = 10 << 10
	cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
	cur.Complete = noon.AddDate(0, 0, -3)
	first := h.append(letter("@goulard3120 one"), false)
	raw := longLetter("@goulard3120 two", 50<<10)
	large := h.append(raw, true)
	foreign := h.append(longLetter("somebody else's", 50<<10), true)
	last := h.append(letter("@goulard3120 three"), false)

	mails := mailsByUID{}
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
		t.Errorf("stored %d mails", len(mails))
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

// TestBodiesAtOnce checks that one command fetches several bodies if their sum is small.
func TestBodiesAtOnce(t *testing.T) {
	tr := newTrace()
	h, _ := memoryHost(t, mailtest.Options{Trace: tr})
	b := mailboxOf(h)
	b.Addr, b.TLS = h.plain, mail.TLSNone
	var want []uint32
	for range 4 {
		want = append(want, h.append(longLetter("@goulard3120 hello", 400<<10), false))
	}
	wantUIDs(t, "taken", uids(mustScan(t, b, state.Cursor{}, 10, discard)), want)
	if n := strings.Count(tr.String(), "BODY.PEEK[]"); n != 2 {
		t.Errorf("%d commands for four mails of 400 KB", n)
	}
}

// tornMailbox returns a mailbox whose server hangs up in the middle of a body of this size.
func tornMailbox(t *testing.T, size string) mail.Mailbox {
	return plainMailbox(lyingServer(t, lie{"body", func(w io.Writer, _ string) {
		io.WriteString(w, "* 1 FETCH (UID 5 BODY[] {"+size+"}\r\nSubject: @goul")
		w.(net.Conn).Close()
	}}))
}

// TestLargeMailReportedAsSmall checks that a torn mail counts as large from then on if it is far
// larger than its server had reported.
func TestLargeMailReportedAsSmall(t *testing.T) {
	for _, size := range []string{"50000", "500"} {
		b := tornMailbox(t, size)
		b.Large = 10 << 10
		got, err := scan(t, b, state.Cursor{Mailbox: b.ID(), Validity: 7, Next: 3}, 10, discard)
		cur := got.Cursor
		if err == nil || !slices.Equal(cur.Owed, []uint32{5}) || cur.Failures[5].Tries != 1 || (len(cur.Large) == 1) != (size == "50000") {
			t.Errorf("%s bytes: %v, the cursor is %+v", size, err, cur)
		}
	}
}

// TestTornLargeMail checks that a connection that breaks in a large mail counts against that mail.
func TestTornLargeMail(t *testing.T) {
	b := tornMailbox(t, "50000")
	cur := state.Cursor{Mailbox: b.ID(), Validity: 7, Next: 6, Owed: []uint32{4, 5}, Large: []uint32{5}}
	got, err := fetchLarge(t, b, cur, 5, discard)
	if c := got.Cursor; err == nil || len(got.Messages) > 0 || c.Failures[5].Tries != 1 || !slices.Equal(c.Owed, []uint32{5}) || !slices.Equal(c.Large, []uint32{5}) {
		t.Errorf("%v, %d mails, the cursor is %+v", err, len(got.Messages), c)
	}
}
