package trust

import (
	"bufio"
	"strings"
	"testing"

	"agentstateloop/mail/message"
)

func TestSoleAuthor(t *testing.T) {
	for _, tt := range []struct{ header, lenient, gate string }{
		{"From: a@b.cd\r\n\r\n", "a@b.cd", ""},
		{"From: a@b.cd\r\n\r\n", "x@b.cd", GateFrom}, // the two parsers must agree
		{"From: a@b.cd\r\nFrom: a@b.cd\r\n\r\n", "a@b.cd", GateFrom},
		{"X-Y: a@b.cd\r\n\r\n", "", GateFrom},
		{"From: a@b.cd\r\nX\r\n\r\n", "a@b.cd", GateTrust},
	} {
		_, from, gate, reason := soleAuthor([]byte(tt.header), message.Header{From: tt.lenient})
		if gate != tt.gate || (gate == "") != (reason == "") || gate == "" && from != tt.lenient {
			t.Errorf("%q, %q: %q, gate %q (%s), want %q", tt.header, tt.lenient, from, gate, reason, tt.gate)
		}
	}
}

// TestAuthBlock checks which fields count as the server's: the topmost ones with its id, up to the
// first other field.
func TestAuthBlock(t *testing.T) {
	field := func(id, result string) string { return "Authentication-Results: " + id + "; " + result + "\r\n" }
	for name, tt := range map[string]struct{ header, want string }{
		"one":                    {field("mx", "spf=pass"), "mx; spf=pass"},
		"two":                    {field("mx", "spf=pass") + field("MX", "dkim=pass"), "mx; spf=pass | MX; dkim=pass"},
		"below other fields":     {"A: b\r\n" + field("mx", "spf=pass"), "mx; spf=pass"},
		"behind another id":      {field("mx", "spf=pass") + field("other", "none") + field("mx", "dkim=pass"), "mx; spf=pass"},
		"behind another field":   {field("mx", "spf=pass") + "A: b\r\n" + field("mx", "dkim=pass"), "mx; spf=pass"},
		"behind OpenDKIM's mark": {field("mx", "spf=pass") + "DKIM-Filter: x\r\n" + field("mx", "dkim=pass"), "mx; spf=pass | mx; dkim=pass"},
		"another id first":       {field("other", "none") + field("mx", "dkim=pass"), ""},
	} {
		block, reason := authBlock(message.Fields([]byte(tt.header+"\r\n")), "mx")
		if got := strings.Join(block, " | "); got != tt.want || (got == "") != (reason != "") {
			t.Errorf("%s: %q, %q; want %q", name, got, reason, tt.want)
		}
	}
}

// TestJudgeBodyWithoutSignatures checks that a mail without the signatures that its header was
// judged by is rejected.
func TestJudgeBodyWithoutSignatures(t *testing.T) {
	f := Filter{Verify: VerifyDKIM, Resolver: "127.0.0.1:1"}
	read := func() (*bufio.Reader, error) {
		return bufio.NewReader(strings.NewReader("From: op@example.com\r\n\r\nhello\r\n")), nil
	}
	for _, head := range []HeaderVerdict{{}, {proofs: []proof{{at: 0}}}} {
		if v, err := f.JudgeBody(t.Context(), head, read); err != nil || v.Gate != GateTrust || v.Reason == "" {
			t.Errorf("%d proofs of the header: %+v, %v", len(head.proofs), v, err)
		}
	}
}

// TestServerProofs checks the precedence of the server's results: a submission by the operator,
// then a signature, then SPF if the server names no signature.
func TestServerProofs(t *testing.T) {
	const from = "op@example.com"
	signed, spf := "dkim=pass header.d=example.com header.s=s1; ", "spf=pass smtp.mailfrom="+from
	f := Filter{Handle: "agent", Own: "agent@example.org", AllowSPF: true}
	fields := message.Fields([]byte(orderHeader(dkimField("example.com"), arrivalTime)))
	for name, tt := range map[string]struct {
		results   string
		submitted bool
		all       bool // the whole mail counts, not only its signed part
	}{
		"a submission":             {signed + spf, true, true},
		"a signature before SPF":   {signed + spf, false, false},
		"SPF without a signature":  {spf, false, true},
		"a signature without SPF":  {strings.TrimSuffix(signed, "; "), false, false},
		"a submission without any": {"none", true, true},
	} {
		results, err := authResults("mx; " + tt.results)
		if err != nil {
			t.Fatal(err)
		}
		proofs, reason := f.serverProofs(serverVerdict{results: results, submitted: tt.submitted}, fields, from)
		if reason != "" || len(proofs) != 1 || proofs[0].covers[0].all != tt.all {
			t.Errorf("%s: %+v, %s", name, proofs, reason)
		}
	}
	if proofs, reason := new(Filter).serverProofs(serverVerdict{}, fields, from); reason == "" {
		t.Errorf("nothing proves it: %+v", proofs)
	}
}
