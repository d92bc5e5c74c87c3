package doctor

import (
	"net"
	"strings"
	"testing"

	"agentstateloop/mail"
	"agentstateloop/mail/trust"
)

// TestStampFindings checks the findings about the Authentication-Results of the last
// mails. A name is suggested only if all mails have it, because a sender can
// write any name.
func TestStampFindings(t *testing.T) {
	server := trust.Filter{Require: trust.RequireDMARC, AuthservID: "mx.example.org"}
	dkim := trust.Filter{Require: trust.RequireDMARC, Verify: trust.VerifyDKIM}
	asking := trust.Filter{Require: trust.RequireDMARC, AuthservID: "mx.example.org", Fallback: true}
	refused := []trust.Trial{{ForUs: true, Gate: trust.GateTrust, Reason: "the first field is not of it"}}
	resolver := trust.Filter{Require: trust.RequireDMARC, Verify: trust.VerifyDKIM, Resolver: "127.0.0.2:53"}
	down := &net.DNSError{Err: "i/o timeout", Name: "x._domainkey.example.org", Server: "127.0.0.1:53", IsTimeout: true}
	unanswered := []trust.Trial{{ForUs: true, Gate: trust.GateTrust, Reason: "r", NoAnswer: down}, {Gate: trust.GateTrust, NoAnswer: down}}
	good := []trust.Trial{{ForUs: true}, {}}
	for _, tt := range []struct {
		name   string
		filter trust.Filter
		trials []trust.Trial
		stamps []string
		level  Level
		want   string // of the first finding
		hint   string
	}{
		{"verified", server, good, nil, OK, "2 of your last 2 mails verified by mx.example.org", ""},
		{"verified, not addressed", server, good[1:], nil, OK, "put @goulard3120 in the subject", ""},
		{"verified by signature", dkim, good, nil, OK, "by a DKIM signature", ""},
		{"another name on all", server, refused, []string{"mx.other.net", "MX.other.net", "mx.other.net"}, Warn, "would be rejected", `set authserv_id = "mx.other.net"`},
		{"another name on too few", server, refused, []string{"mx.evil.net", "mx.evil.net"}, Warn, "would be rejected", `verify = "dkim"`},
		{"another name on some", server, refused, []string{"mx.evil.net", "", "mx.evil.net"}, Warn, "would be rejected", `verify = "dkim"`},
		{"our name, not passed", server, refused, []string{"mx.example.org", "mx.example.org", "mx.example.org"}, Warn, "would be rejected", "its verdict does not prove"},
		{"not verified, with fallback", asking, refused, []string{"mx.other.net", "MX.other.net", "mx.other.net"}, Warn, "until you confirm it", `set authserv_id = "mx.other.net"`},
		{"no signature", dkim, refused, []string{"x", "x", "x"}, Warn, "would be rejected", "must sign"},
		{"by SPF alone", server, []trust.Trial{{Gate: trust.GateTrust, SPFAlone: true}}, nil, Warn, "would be rejected", "allow_spf = true"},
		{"a body in doubt", server, []trust.Trial{{Gate: trust.GateTrust, Doubtful: true, Signing: &trust.Signing{}}}, nil, Warn, "would be rejected", "plain text"},
		{"to an alias", server, []trust.Trial{{Gate: trust.GateTrust, Signing: &trust.Signing{To: []string{"a@example.org", "b@example.net"}}}}, nil, Warn,
			"would be rejected", "put @goulard3120 in the subject; if a@example.org or b@example.net is an address of the agent, add it to aliases in [mail]"},
		{"a bounce", server, []trust.Trial{{Gate: trust.GateBounce, Reason: "r"}}, nil, Info, "would be rejected (bounce): r", "by hand"},
		{"the DNS is down", dkim, unanswered, nil, Error, "DNS does not answer, so the signatures of your mails cannot be verified: the name server of this machine (/etc/resolv.conf): lookup x._domainkey.example.org on 127.0.0.1:53: i/o timeout", "check the network and the name server"},
		{"the resolver is down", resolver, unanswered, nil, Error, "127.0.0.2:53, the resolver in [trust]: lookup x", "check the network"},
		{"no mail from the operator", server, nil, []string{"", ""}, Info, "none of the last mails is from you", "send the agent a mail"},
		{"not used", trust.Filter{Require: trust.RequireFrom}, good, nil, Skipped, "not used with", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := stampsCheck{filter: tt.filter, probe: mail.Probe{Trials: tt.trials, AuthservIDs: tt.stamps}, handle: "goulard3120"}
			got := c.findings()[0]
			if got.Level != tt.level || !strings.Contains(got.Text, tt.want) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("got %+v; want %s with %q, hint %q", got, tt.level, tt.want, tt.hint)
			}
		})
	}
}
