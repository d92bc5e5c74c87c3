package mail_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
)

// isMalformed reports whether the header of a mail breaks the strict rules.
func isMalformed(raw string) bool {
	header, _, _ := strings.Cut(raw, "\r\n\r\n")
	_, err := message.StrictFields([]byte(header + "\r\n\r\n"))
	return err != nil
}

// checkJudge fails unless Judge decides about a mail as the scan did that took m, or that did not
// take the mail if m is nil. Every mail of the tests of the gates comes here.
func checkJudge(t *testing.T, box mail.Mailbox, f trust.Filter, raw string, m *mail.Message) {
	t.Helper()
	kept := ""
	var taken mail.Message
	judge := box.NewJudge(f)
	at, key := noon, "mail:x.1.1"
	if m != nil {
		at, key = m.At, m.Key
	}
	v, err := judge.Mail(t.Context(), key, []byte(raw), int64(len(raw)), at, func(m *mail.Message, raw io.Reader) error {
		data, err := io.ReadAll(raw)
		taken, kept = *m, string(data)
		return err
	})
	switch {
	case err != nil:
		t.Errorf("judge: %v; mail %q", err, raw)
	case m == nil && isMalformed(raw): // the memory server shows no such header
	case m == nil && (v.Addressee.Mine || kept != ""):
		t.Errorf("judge takes a mail that the scan did not take: %+v; mail %q", v.Addressee, raw)
	case m == nil:
	case !v.Addressee.Mine || v.Beyond || v.Unproven != nil:
		t.Errorf("judge does not take it: %+v; mail %q", v, raw)
	default:
		want := *m
		want.UID, want.Seen, want.Answered = 0, false, false
		if got, want := fmt.Sprintf("%+v", taken), fmt.Sprintf("%+v", want); got != want {
			t.Errorf("judge decides\n%s\nand the scan\n%s\nabout %q", got, want, raw)
		}
		if m.Gate == "" && kept != raw {
			t.Errorf("judge hands %q to keep, of %q", kept, raw)
		}
		if v.Evidence.Proved != (f.Require == trust.RequireDMARC && (m.Gate == "" || m.Doubtful)) {
			t.Errorf("gate %q, evidence %+v", m.Gate, v.Evidence)
		}
	}
}
