package mail_test

import (
	"fmt"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// BenchmarkEmptyPoll measures a whole poll without new mail, including TCP and TLS, by the number
// of mails in the mailbox. It counts only our bytes on the wire. Some of the time is the server's:
// it runs in this process and counts its mails at SELECT.
func BenchmarkEmptyPoll(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tr := newTrace()
			h, _ := memoryHost(b, mailtest.Options{Trace: tr})
			raw := letter("somebody else's", "operator@example.com", "shop@example.net")
			for range n {
				h.append(raw, true)
			}
			cur := mustScan(b, mailboxOf(h), state.Cursor{}, 10, discard).Cursor
			before := len(tr.String())
			for b.Loop() {
				emptyPoll(b, mailboxOf(h), cur)
			}
			b.ReportMetric(float64(len(tr.String())-before)/float64(b.N), "wire-B/op")
		})
	}
}

// BenchmarkEmptyPollDovecot is BenchmarkEmptyPoll with a real server.
func BenchmarkEmptyPollDovecot(b *testing.B) {
	server := mailtest.StartDovecot(b)
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := dovecotHost(b, server.Fresh(b))
			for range n {
				h.append(letter("somebody else's", "operator@example.com", "shop@example.net"), true)
			}
			m := mailboxOf(h)
			cur := mustScan(b, m, state.Cursor{}, 10, discard).Cursor
			for b.Loop() {
				emptyPoll(b, m, cur)
			}
		})
	}
}

func emptyPoll(b *testing.B, m mail.Mailbox, cur state.Cursor) {
	if l := mustScan(b, m, cur, 10, discard); len(l.Messages) != 0 {
		b.Fatal("not empty")
	}
}
