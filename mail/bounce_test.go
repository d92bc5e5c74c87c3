package mail_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// bounceReport returns a report of RFC 3464 about the mail with this id.
func bounceReport(id, action string) string {
	return fmt.Sprintf("From: MAILER-DAEMON@mx.example.com\nTo: %s\nSubject: Undelivered\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n"+
		"--b\n\nsorry\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; operator@example.com\nAction: %s\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 no such user\n\n"+
		"--b\nContent-Type: message/rfc822\n\nFrom: %s\nTo: operator@example.com\nMessage-ID: %s\n\nhello\n--b--\n", filter.Own, action, filter.Own, id)
}

// storyBounces checks that a scan reads the reports about our mail among other reports, without
// storing or marking them, and counts a report about a mail that only resembles ours.
func storyBounces(t *testing.T, h host) {
	b, mails := mailboxOf(h), mailsByUID{}
	l := mustScan(t, b, state.Cursor{}, 10, mails.keep)
	ours := ownID("reply.t1", "hello")
	h.append(bounceReport(strings.ToUpper(ours), "failed"), false)
	h.append(bounceReport(ownID("reply.t2", "hello"), "delayed"), false)
	h.append(bounceReport(ownID("reply.t3", "hello"), "delivered"), false)
	h.append(bounceReport("<reply.t9.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.goulard3120@example.org>", "failed"), false)
	h.append(bounceReport(idsOf("dorlange3120", filter.Own).Make("reply.t4", "hello"), "failed"), false)
	h.append(bounceReport("<x@example.net>", "failed"), false)
	h.append(strings.Replace(bounceReport(ours, "failed"), "delivery-status", "disposition-notification", 1), false)
	h.append(strings.Replace(bounceReport(ours, "failed"), "To: "+filter.Own, "To: somebody@example.com", 1), false)
	h.append(letter("@goulard3120 hello"), false)
	l = mustScan(t, b, l.Cursor, 10, mails.keep)
	if len(l.Messages) != 1 || len(l.Returned) != 2 || l.Forged != 1 || len(l.Cursor.Reports) != 0 {
		t.Fatalf("%d messages, %d forged, reports left %v: %+v", len(l.Messages), l.Forged, l.Cursor.Reports, l.Returned)
	}
	lost, late := l.Returned[0], l.Returned[1]
	if lost.Effect != "reply.t1" || lost.Delayed || lost.To != "operator@example.com" || !strings.Contains(lost.Reason, "550 no such user") || lost.Key == "" || lost.At.IsZero() {
		t.Errorf("lost: %+v", lost)
	}
	if late.Effect != "reply.t2" || !late.Delayed {
		t.Errorf("delayed: %+v", late)
	}
	if l = mustScan(t, b, l.Cursor, 10, mails.keep); len(l.Returned) != 0 {
		t.Errorf("read again: %+v", l.Returned)
	}
}

// TestReportFlood checks that a scan fetches the beginnings of at most ten bodies of many forged
// reports, first of those that name a mail of ours.
func TestReportFlood(t *testing.T) {
	var bodies atomic.Int64
	h, _ := memoryHost(t, mailtest.Options{OnFetch: func(_ net.Conn, set imap.NumSet, o *imap.FetchOptions) error {
		if _, body := bodyRequest(set, o); body {
			bodies.Add(1)
			if p := o.BodySection[0].Partial; p == nil || p.Size > 256<<10 {
				t.Errorf("asked for %+v", p)
			}
		}
		return nil
	}})
	b := mailboxOf(h)
	l := mustScan(t, b, state.Cursor{}, 10, discard)
	for i := range 150 {
		h.append(bounceReport(fmt.Sprintf("<%d@example.net>", i), "failed"), false)
	}
	ours := ownID("reply.t1", "hello")
	h.append("In-Reply-To: "+ours+"\n"+bounceReport(ours, "failed"), false)
	l = mustScan(t, b, l.Cursor, 10, discard)
	if bodies.Load() != 10 || len(l.Returned) != 1 || len(l.Cursor.Reports) != 90 {
		t.Errorf("%d bodies, returned %+v, %d wait", bodies.Load(), l.Returned, len(l.Cursor.Reports))
	}
	for len(l.Cursor.Reports) > 0 {
		l = mustScan(t, b, l.Cursor, 10, discard)
	}
	if bodies.Load() != 100 {
		t.Errorf("%d bodies in all", bodies.Load())
	}
}

// TestBrokenReportIsSkipped checks that a scan skips a report that the server refuses, and one that
// breaks the connection of three scans. The next report is read.
func TestBrokenReportIsSkipped(t *testing.T) {
	for name, tt := range map[string]struct {
		fault func(net.Conn) error
		scans int
	}{
		"refused": {func(net.Conn) error { return &imap.Error{Type: imap.StatusResponseTypeNo, Text: "corrupt"} }, 0},
		"hung up": {func(c net.Conn) error { c.Close(); return nil }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var bad atomic.Uint32
			h, _ := memoryHost(t, mailtest.Options{OnFetch: func(c net.Conn, set imap.NumSet, o *imap.FetchOptions) error {
				if uids, body := bodyRequest(set, o); body && uids.Contains(imap.UID(bad.Load())) {
					return tt.fault(c)
				}
				return nil
			}})
			b := mailboxOf(h)
			cur := mustScan(t, b, state.Cursor{}, 10, discard).Cursor
			bad.Store(h.append(bounceReport(ownID("reply.t1", "hello"), "failed"), false))
			h.append(bounceReport(ownID("reply.t2", "hello"), "failed"), false)
			for n := range tt.scans {
				l, err := scan(t, b, cur, 10, discard)
				if err == nil {
					t.Fatalf("scan %d: no error", n)
				}
				cur = l.Cursor
			}
			l := mustScan(t, b, cur, 10, discard)
			if len(l.Returned) != 1 || l.Returned[0].Effect != "reply.t2" || len(l.Cursor.Reports) != 0 {
				t.Errorf("%+v, reports left %v", l.Returned, l.Cursor.Reports)
			}
		})
	}
}

// TestReportInBacklog checks that the search in a large backlog includes mail of mail servers.
func TestReportInBacklog(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	b := mailboxOf(h)
	l := mustScan(t, b, state.Cursor{}, 10, discard)
	for range 1100 {
		h.append("From: news@example.net\nSubject: x\n\nx\n", true)
	}
	h.append(bounceReport(ownID("reply.t1", "hello"), "failed"), false)
	l = mustScan(t, b, l.Cursor, 10, discard)
	if len(l.Returned) != 1 {
		t.Errorf("%+v", l.Returned)
	}
}

// storyBounceRenumbered checks that a scan finds a report in a renumbered mailbox.
func storyBounceRenumbered(t *testing.T, h host) {
	if h.renumber == nil {
		t.Skip("the server cannot renumber a mailbox")
	}
	b := mailboxOf(h)
	l := mustScan(t, b, state.Cursor{}, 10, discard)
	h.renumber()
	h.append(bounceReport(ownID("reply.t1", "hello"), "failed"), false)
	if l = mustScan(t, b, l.Cursor, 10, discard); len(l.Returned) != 1 {
		t.Errorf("%+v", l.Returned)
	}
}
