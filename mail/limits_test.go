package mail_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// TestLimitsOnAServer checks the limits that need a mailbox.
func TestLimitsOnAServer(t *testing.T) {
	probed := func(t *testing.T, n int64, raw string) mail.Probe {
		h, _ := memoryHost(t, mailtest.Options{})
		for range n {
			h.append(raw, false)
		}
		found, err := mailboxOf(h).Probe(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	reported := func(t *testing.T, reports ...string) mail.Scan {
		h, _ := memoryHost(t, mailtest.Options{})
		b := mailboxOf(h)
		l := mustScan(t, b, state.Cursor{}, 10, discard)
		for _, raw := range reports {
			h.append(raw, false)
		}
		return mustScan(t, b, l.Cursor, 10, discard)
	}
	signing := newSigningDomain(t)
	limittest.Run(t, []limittest.Limit{
		{Const: "maxDepth", Max: 20, Within: func(t *testing.T, n int64) bool {
			top := t.TempDir()
			below := filepath.Join(top, strings.Repeat("x/", int(n)))
			if err := errors.Join(os.MkdirAll(below, 0o755), os.WriteFile(filepath.Join(below, "a.eml"), []byte("Subject: a\n\nx\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			mails, _ := readStored(t, top, nil)
			return len(mails) == 1
		}},
		{Const: "probeHeads", Max: 100, Within: func(t *testing.T, n int64) bool {
			return len(probed(t, n, "From: a@example.net\r\n\r\nhello\r\n").AuthservIDs) == int(n)
		}},
		{Const: "probeTrials", Max: 5, Within: func(t *testing.T, n int64) bool {
			return len(probed(t, n, letter("@goulard3120 hello")).Trials) == int(n)
		}},
		{Const: "probeMail", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			sized := func(body int64) string {
				return sign(t, signing.Signer, datedLetter("@goulard3120 hello")+strings.Repeat("x", int(body)))
			}
			raw := sized(n - int64(len(sized(0))))
			if len(raw) != int(n) {
				t.Fatalf("the mail has %d bytes, want %d", len(raw), n)
			}
			h, _ := memoryHost(t, mailtest.Options{})
			h.append(raw, false)
			found, err := mailboxOf(h).Probe(t.Context(), verifying(signing.dns))
			if err != nil || len(found.Trials) != 1 {
				t.Fatal(found, err)
			}
			return found.Trials[0].Gate == ""
		}},
		{Const: "reportsAtOnce", Max: 10, Within: func(t *testing.T, n int64) bool {
			reports := make([]string, n)
			for i := range reports {
				reports[i] = bounceReport("<x@example.net>", "failed")
			}
			return len(reported(t, reports...).Cursor.Reports) == 0
		}},
		{Const: "reportLength", Max: 256 << 10, Within: func(t *testing.T, n int64) bool { // the id of the mail ends with the last byte that is read
			id := ownID("reply.t1", "hello")
			raw := strings.ReplaceAll(bounceReport(id, "failed"), "\n", "\r\n")
			missing := int(n) - strings.LastIndex(raw, id) - len(id)
			raw = strings.Replace(raw, "sorry", "sorry"+strings.Repeat("!", missing), 1)
			return len(reported(t, raw).Returned) == 1
		}},
	})
}
