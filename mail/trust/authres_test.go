package trust

import (
	"fmt"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/message"
)

// format returns results in the notation of the tables below.
func format(results []authResult) string {
	var all []string
	for _, r := range results {
		s := r.method + "/" + r.version + "=" + r.value
		for _, p := range r.props {
			s += fmt.Sprintf(" %s=%q", p.name, p.value)
		}
		all = append(all, s)
	}
	return strings.Join(all, "; ")
}

func TestAuthResults(t *testing.T) {
	const bad = "malformed"
	for value, want := range map[string]string{
		// RFC 8601 appendix B.
		"example.org 1; none":                                                      "",
		"example.com; spf=pass smtp.mailfrom=example.net":                          `spf/=pass smtp.mailfrom="example.net"`,
		"example.com; auth=pass (cram-md5) smtp.auth=sender@example.net; spf=fail": `auth/=pass smtp.auth="sender@example.net"; spf/=fail`,
		"foo.example.net (foobar) 1 (baz); dkim (Because I like it) / 1 (One yay) = (wait for it) fail policy (A dot can go here) . (like that) expired (this surprised me) = (as I wasn't expecting it) 1362471462": `dkim/1=fail policy.expired="1362471462"`,
		"example.com; dkim=pass header.b=a+/b== reason=\"good; \\\"x\\\"\" header.i=@mail.example":                                                                                                                   `dkim/=pass header.b="a+/b==" reason="good; \"x\"" header.i="@mail.example"`,

		// Examples from real servers.
		"a.b; dmarc=pass(p=NONE) header.from=c.d;":            `dmarc/=pass header.from="c.d"`,
		"a.b; dmarc=pass action=none header.from=c.d":         `dmarc/=pass action="none" header.from="c.d"`,
		"a.b; x-ptr=pass policy.ptr=; spf=none":               `x-ptr/=pass policy.ptr=""; spf/=none`,
		"a.b; iprev=pass smtp.remote-ip=2a00::1 (x)":          `iprev/=pass smtp.remote-ip="2a00::1"`,
		"a.b; spf=pass smtp.mailfrom=\"x y\"@c.d":             `spf/=pass smtp.mailfrom="x y@c.d"`,
		"a.b; spf=pass smtp.mailfrom=<x@c.d> smtp.helo=[::1]": `spf/=pass smtp.mailfrom="<x@c.d>" smtp.helo="[::1]"`,
		"a.b; none=x":        `none/=x`,
		"a.b; NONE (at all)": "",

		"":                                  bad,
		"a.b":                               bad,
		"a.b;":                              bad,
		"a.b 2; none":                       bad,
		"a.b x; none":                       bad,
		"; none":                            bad,
		"a.b; none; spf=pass":               bad,
		"a.b; spf=pass; none":               bad,
		"a.b; none x":                       bad,
		"a.b; \"none\"":                     bad,
		"a.b;; spf=pass":                    bad,
		"a.b; spf":                          bad,
		"a.b; spf=":                         bad,
		"a.b; =pass":                        bad,
		"a.b; spf pass":                     bad,
		"a.b; \"spf\"=pass":                 bad,
		"a.b; spf=\"pass\"":                 bad,
		"a.b; spf=pa\"ss\"":                 bad,
		"a.b; spf=pass/1":                   bad,
		"a.b; spf/=pass":                    bad,
		"a.b; spf=pass x":                   bad,
		"a.b; spf=pass x.=y":                bad,
		"a.b; spf=pass .x=y":                bad,
		"a.b; spf=pass \"x\"=y":             bad,
		"a.b; spf=pass x=\"y":               bad,
		"a.b; spf=pass (x":                  bad,
		"a.b; spf=pass (x\\)":               bad,
		"a.b; spf=pass x)":                  bad,
		"a.b; spf=pass \\x=y":               bad,
		"a.b; spf=pass x=y\x01":             bad,
		"a.b; spf=pass (x\x00)":             bad,
		"a.b; spf=pass x=\"\xff\"":          bad,
		"a.b; spf=pass (\\":                 bad,
		"a.b; spf=pass x=\"\\":              bad,
		"a.b; dmärc=pass header.from=c.d":   bad,
		"a.b; spf=pass\r\n; dmarc=pass":     bad, // still folded
		"a.b" + strings.Repeat("(", 10_000): bad,
	} {
		got, err := authResults(value)
		switch {
		case (err != nil) != (want == bad):
			t.Errorf("%.100q: %q, %v, want %q", value, format(got), err, want)
		case err == nil && format(got) != want:
			t.Errorf("%.100q: %s, want %s", value, format(got), want)
		}
	}
}

func TestAuthserv(t *testing.T) {
	for value, want := range map[string]string{
		"mx.google.com; none":           "mx.google.com",
		" (a) mx.google.com (b) 1; x":   "mx.google.com",
		"\"mx.google.com\"; none":       "mx.google.com",
		"mx.google.com; \"not closed":   "mx.google.com", // the rest is ignored
		"spf=pass (sender IP); dkim=x":  "spf=pass",
		"mx.google.com\"; dmarc=pass\"": "mx.google.com; dmarc=pass",
	} {
		if got, err := authserv(value); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", value, got, err, want)
		}
	}
	for _, value := range []string{"", " ", "(x)", "; x", "\"", "(", "\x00", `""`} {
		if got, err := authserv(value); err == nil {
			t.Errorf("%q: %q, want an error", value, got)
		}
	}
}

// FuzzAuthResults checks that the parser never panics and that quoted text and comments never
// produce a result.
func FuzzAuthResults(f *testing.F) {
	for _, s := range []string{
		"mx.google.com; dmarc=pass (p=NONE) header.from=example.com",
		"a.b; spf=pass smtp.mailfrom=\"x; dmarc=pass header.from=c.d\"@e.f",
		"a.b (c (d) \\) ; dmarc=pass) 1; none", "a.b; dkim / 1 = fail policy . x = 1;",
		"\"a\\\"b\" ; x=y reason=\"\\\\\" z=", "a.b; spf=pass ((\";)\") ; dmarc=pass header.from=c.d",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		results, err := authResults(value)
		if _, idErr := authserv(value); idErr != nil && err == nil {
			t.Errorf("%q: results without an authserv-id", value)
		}
		if err != nil {
			return
		}
		plain := mailtest.OutsideQuotes(value)
		if n := strings.Count(plain, ";"); len(results) > n {
			t.Errorf("%q: %d results, and %d semicolons outside quotes and comments", value, len(results), n)
		}
		// Each method and its value occur in this order outside quotes and comments.
		rest := strings.ToLower(plain)
		for _, r := range results {
			for _, word := range []string{";", r.method, "=", r.value} {
				_, after, ok := strings.Cut(rest, word)
				if !ok {
					t.Fatalf("%q: %s does not occur outside quotes and comments", value, format(results))
				}
				rest = after
			}
		}
	})
}

// FuzzServerProof checks that quoted text and comments prove nothing.
func FuzzServerProof(f *testing.F) {
	f.Add("x; dmarc=pass header.from=example.com")
	f.Add("\\\"; dmarc=pass header.from=example.com; \\")
	f.Add(") ; dmarc=pass header.from=example.com (")
	f.Add("\" ; dmarc=pass header.from=example.com ; x=y reason=\"")
	f.Fuzz(func(t *testing.T, evil string) {
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(evil)
		commented := strings.NewReplacer(`\`, `\\`, `(`, `\(`, `)`, `\)`).Replace(evil)
		for _, value := range []string{
			"a.b; spf=pass smtp.mailfrom=\"" + quoted + "\"@c.d",
			"a.b; spf=pass smtp.mailfrom=\"" + quoted + "\"@c.d; dmarc=fail header.from=example.com",
			"a.b; spf=pass (" + commented + ") smtp.mailfrom=c.d",
			"a.b (" + commented + "); none",
			"a.b; dmarc=fail reason=\"" + quoted + "\" header.from=example.com",
		} {
			server := Filter{AuthservID: "a.b", SameProvider: true, AllowSPF: true}
			if _, reason := server.serverVerdict([]message.Field{{Name: "authentication-results", Value: value}}, "op@example.com"); reason == "" {
				t.Errorf("proved by %q", value)
			}
		}
	})
}
