package mail_test

import (
	"slices"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
)

// TestUnparsedHeader checks that a mail with a header that the server cannot parse comes in by its
// beginning, with the scan that finds it, and delays no other mail.
func TestUnparsedHeader(t *testing.T) {
	for name, answer := range map[string]string{
		"empty":    "* 1 FETCH (UID %d RFC822.SIZE 90 BODY[HEADER] {0}\r\n)",
		"NIL":      "* 1 FETCH (UID %d RFC822.SIZE 90 BODY[HEADER] NIL)",
		"left out": "* 1 FETCH (UID %d RFC822.SIZE 90)",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWithholding(t)
			first, unparsed, last := w.put("@goulard3120 one"), w.put("@goulard3120 two"), w.put("@goulard3120 three")
			w.lie(always, about(unparsed, atHeader(answer)))
			l := w.scan()
			wantUIDs(t, "taken", uids(l), []uint32{first, unparsed, last})
			if len(l.Failed) > 0 {
				t.Errorf("failed %+v", l.Failed)
			}
			w.wantSettled()
		})
	}
}

// TestUnparsedHeaderBeforeFailing checks that a mail with an empty header does not wait for mails
// that always break the connection.
func TestUnparsedHeaderBeforeFailing(t *testing.T) {
	w := newWithholding(t)
	bad := []uint32{w.put("@goulard3120 bad"), w.put("@goulard3120 bad too")}
	lie := atHeader("* 1 FETCH (UID %d RFC822.SIZE 90 BODY[HEADER] {0}\r\n)")
	w.lie(always, func(uid uint32, body bool) string {
		if slices.Contains(bad, uid) {
			return mailtest.HangUp
		}
		return lie(uid, body)
	})
	for range bad {
		w.scan()
	}
	w.now = w.now.Add(time.Hour) // both are due
	unparsed := w.put("@goulard3120 unparsed")
	wantUIDs(t, "taken", uids(w.scan()), []uint32{unparsed})
	w.tellTruth()
	w.now = w.now.Add(time.Hour)
	wantUIDs(t, "at last", uids(w.scan()), bad)
}

// TestMailWithoutHeaderIsSkipped checks that a scan skips a mail that begins with an empty line.
// Anybody can send one, so it must not count as withheld by the server.
func TestMailWithoutHeaderIsSkipped(t *testing.T) {
	w := newWithholding(t)
	w.Put("\r\nno header at all\r\n", w.now)
	w.lie(always, atHeader("* 1 FETCH (UID %d RFC822.SIZE 20 BODY[HEADER] {0}\r\n)"))
	if l := w.scan(); len(l.Messages)+len(l.Failed) > 0 {
		t.Errorf("taken %v, failed %+v", uids(l), l.Failed)
	}
	w.wantSettled()
}
