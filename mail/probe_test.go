package mail_test

import (
	"slices"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

func storyProbe(t *testing.T, h host) {
	h.append(letter("weather", "operator@example.com", "anna@example.net"), false)
	h.append("Authentication-Results: mx.evil.example; dmarc=pass header.from=example.com\r\n"+letter("@goulard3120 forged"), false)
	h.append(pass+signature+datedLetter("to somebody else"), false)
	h.append(pass+signature+datedLetter("@goulard3120 proved"), false)

	found, err := mailboxOf(h).Probe(t.Context(), trusting())
	if err != nil {
		t.Fatal(err)
	}
	if found.Mails != 4 || len(found.Caps) == 0 || found.Newest.IsZero() {
		t.Errorf("%d mails, capabilities %q, the newest of %v", found.Mails, found.Caps, found.Newest)
	}
	if want := []string{"mx.example.org", "mx.example.org", "mx.evil.example", ""}; !slices.Equal(found.AuthservIDs, want) {
		t.Errorf("stamps %q, want %q", found.AuthservIDs, want)
	}
	var got []string
	for _, tr := range found.Trials {
		got = append(got, strings.TrimSpace(map[bool]string{true: "for us "}[tr.ForUs]+tr.Gate))
	}
	if want := []string{"for us", "", "for us trust"}; !slices.Equal(got, want) {
		t.Errorf("trials %q, want %q: %+v", got, want, found.Trials)
	}

	// A baseline would skip a mail that the probe had marked as seen.
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)
	if len(l.Messages) != 2 {
		t.Errorf("after the probe %d of 2 mails are unread", len(l.Messages))
	}
}

// TestProbeIsReadOnly checks that a probe opens the mailbox read-only, and uses PEEK.
func TestProbeIsReadOnly(t *testing.T) {
	tr := newTrace()
	h, _ := memoryHost(t, mailtest.Options{Trace: tr})
	h.append(letter("@goulard3120"), false)
	if _, err := mailboxOf(h).Probe(t.Context(), trusting()); err != nil {
		t.Fatal(err)
	}
	commands := tr.String()
	for _, wrong := range []string{"SELECT", "STORE", "BODY[", "APPEND", "EXPUNGE"} {
		for line := range strings.Lines(commands) {
			if strings.HasPrefix(line, "T") && strings.Contains(line, wrong) {
				t.Errorf("a probe said %q", line)
			}
		}
	}
	if !strings.Contains(commands, "EXAMINE") || !strings.Contains(commands, "BODY.PEEK[") {
		t.Errorf("neither EXAMINE nor PEEK in:\n%s", commands)
	}
}

func TestProbeVerifiesSignatures(t *testing.T) {
	d := newSigningDomain(t)
	h, _ := memoryHost(t, mailtest.Options{})
	h.append(datedLetter("@goulard3120 unsigned"), false)
	h.append(sign(t, d.Signer, datedLetter("@goulard3120 signed")), false)
	found, err := mailboxOf(h).Probe(t.Context(), verifying(d.dns))
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Trials) != 2 || found.Trials[0].Gate != "" || found.Trials[1].Gate != trust.GateTrust {
		t.Errorf("trials %+v", found.Trials)
	}
}

func TestProbeOfAnEmptyMailbox(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	found, err := mailboxOf(h).Probe(t.Context(), trusting())
	if err != nil || found.Mails != 0 || len(found.Trials) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestProbeSender(t *testing.T) {
	server, s := startSink(t, mailtest.Options{})
	auth, err := server.ProbeSender(t.Context())
	if err != nil || !strings.Contains(auth, "PLAIN") {
		t.Errorf("%q, %v", auth, err)
	}
	server.Secret = fixedSecret("wrong")
	_, err = server.ProbeSender(t.Context())
	if c, ok := state.CredentialFailure(err); !ok || c.Name != "smtp" {
		t.Errorf("with a wrong password: %v", err)
	}
	if len(s.Sent()) != 0 {
		t.Error("a probe sent mail")
	}
}
