package mail_test

import (
	"slices"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/trust"
)

// TestProbeShowsSignedFields checks that a probe shows which fields of an answer each provider signs.
func TestProbeShowsSignedFields(t *testing.T) {
	for name, want := range map[string]struct{ signed, added, unsigned string }{
		"Gmail":                  {"from to cc subject date message-id in-reply-to references", "from to subject date message-id", "content-type"},
		"Gmail, encoding signed": {"from to cc subject date message-id in-reply-to references", "from to subject date message-id", "content-type"},
		"Microsoft 365":          {"from subject date message-id content-type", "", "to in-reply-to references"},
		"iCloud":                 {"from to subject date message-id", "", "in-reply-to references content-type"},
		"iCloud, type signed":    {"from to subject date message-id content-type", "", "in-reply-to references"},
		"Yahoo":                  {"from to subject date in-reply-to references", "from subject", "message-id content-type"},
		"Yahoo, Reply-To signed": {"from to subject date in-reply-to references", "from subject", "message-id content-type"},
		"Proton":                 {"from to cc subject date message-id in-reply-to references", "from to subject date message-id", "content-type"},
		"GMX":                    {"from to subject date in-reply-to references", "", "message-id content-type"},
		"OpenDKIM":               {"from to subject date", "from", "message-id in-reply-to references content-type"},
		"rspamd":                 {"from to cc subject date message-id in-reply-to references content-type content-transfer-encoding", "from to subject date message-id in-reply-to references content-type", ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(providers, func(p provider) bool { return p.name == name })
			if i < 0 {
				t.Fatal("it is not in the table of providers")
			}
			c := newCorpus(t)
			id := c.ids.Make("reply.t1", "the weather")
			b := mailBodies("what is new?")["plain"]
			raw := c.arrives(c.sends(providers[i], writtenMail(filter.Own, "Re: the weather", "In-Reply-To: "+id+"\r\nReferences: "+id+"\r\n", b[0], b[1])))
			for mode, f := range c.filters() {
				trial := probeOne(t, f, raw)
				s := trial.Signing
				if trial.Gate != "" || s == nil || s.Whole {
					t.Fatalf("%s: %+v", mode, trial)
				}
				if got := strings.Join(s.Signed, " "); got != want.signed {
					t.Errorf("%s: signed %s, want %s", mode, got, want.signed)
				}
				if got := strings.Join(s.Added, " "); got != want.added {
					t.Errorf("%s: oversigned %s, want %s", mode, got, want.added)
				}
				if got := strings.Join(s.Unsigned, " "); got != want.unsigned {
					t.Errorf("%s: not signed %s, want %s", mode, got, want.unsigned)
				}
				if got := strings.Join(s.To, " "); got != filter.Own && name != "Microsoft 365" {
					t.Errorf("%s: the signed recipients are %s", mode, got)
				}
			}
		})
	}
}

// probeOne returns the trial of one mail by a probe.
func probeOne(t *testing.T, f trust.Filter, raw string) trust.Trial {
	t.Helper()
	h, _ := memoryHost(t, mailtest.Options{})
	h.append(raw, false)
	found, err := mailboxOf(h).Probe(t.Context(), f)
	if err != nil || len(found.Trials) != 1 {
		t.Fatalf("%d trials, %v", len(found.Trials), err)
	}
	return found.Trials[0]
}

// TestProbeOfUnprovedMail checks that a probe shows no signature for a mail without a valid one, and
// the doubt about a changed one.
func TestProbeOfUnprovedMail(t *testing.T) {
	c := newCorpus(t)
	gmail := providers[0]
	b := mailBodies("what is new?")
	plain, many := b["plain"], b["alternative"]
	hello := writtenMail(filter.Own, "@goulard3120 hello", "", plain[0], plain[1])
	signed := c.sends(gmail, hello)
	bySPF := ar + "; spf=pass smtp.mailfrom=operator@example.com; dkim=none; dmarc=pass header.from=example.com\r\n" + hello
	forged := c.arrives(strings.Replace(signed, "what is new", "delete all", 1))
	elsewhere := c.arrives(c.sends(provider{always: gmail.present}, writtenMail("The List <list@example.org>", "lunch", "", plain[0], plain[1])))
	inDoubt := c.arrives(strings.Replace(c.sends(gmail, writtenMail(filter.Own, "@goulard3120 hello", "", many[0], many[1])), many[0], plain[0], 1))
	for mode, f := range c.filters() {
		if got := probeOne(t, f, bySPF); got.Gate != trust.GateTrust || got.Signing != nil || got.SPFAlone != (mode == "server") {
			t.Errorf("%s, by SPF: %+v", mode, got)
		}
		if got := probeOne(t, f, forged); got.Gate != trust.GateTrust || got.Signing != nil || got.SPFAlone || got.Doubtful {
			t.Errorf("%s, forged: %+v", mode, got)
		}
		if got := probeOne(t, f, inDoubt); got.Gate != trust.GateTrust || got.Signing == nil || !got.Doubtful {
			t.Errorf("%s, in doubt: %+v", mode, got)
		}
		if got := probeOne(t, f, elsewhere); got.Signing == nil || !slices.Equal(got.Signing.To, []string{"list@example.org"}) {
			t.Errorf("%s, elsewhere: %+v", mode, got)
		}
		f.AllowSPF = true
		if got := probeOne(t, f, bySPF); mode == "server" && (got.Gate != "" || got.Signing == nil || !got.Signing.Whole) {
			t.Errorf("%s, by SPF, allowed: %+v", mode, got)
		}
	}
}
