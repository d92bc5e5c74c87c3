package mail_test

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// trusting returns a filter that trusts the server mx.example.org.
func trusting(change ...func(*trust.Filter)) trust.Filter {
	f := filter
	f.Operators = []string{"operator@example.com", "Second <not read>", "bücher@exämple.net", "op@mail.example.com"}
	f.Require, f.AuthservID = trust.RequireDMARC, "mx.example.org"
	for _, c := range change {
		c(&f)
	}
	return f
}

// These are parts of the mails in the table. The server puts its fields on top. It reports the
// signature as verified, so the mails need no valid one.
const (
	ar   = "Authentication-Results: mx.example.org"
	pass = ar + "; dkim=pass header.d=example.com header.s=s1 header.b=c2lnbmVk; dmarc=pass header.from=example.com\r\n"
	op   = "From: operator@example.com\r\n"

	signature = "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=s1;\r\n h=from:to:subject:date:message-id; bh=aGFzaA==; b=c2lnbmVkIGJ5\r\n IHRoZW0=\r\n"

	// foreign marks mail for somebody else, which a scan skips.
	foreign = "not ours"
	// unreadable marks mail that may be foreign or meet any gate, because servers read such a
	// header in different ways.
	unreadable = "any gate"
)

// call is the rest of the header of a mail to the agent, signed by the operators' domains.
var call = "Subject: @goulard3120 do it\r\nDate: " + time.Now().Format(time.RFC1123Z) + "\r\n" +
	signature + strings.Replace(signature, "example.com", "xn--exmple-cua.net", 1)

// addSignatures adds valid signatures to the results of the server, which begin with its first field.
func addSignatures(header string) string {
	i := strings.Index(header, ar)
	if i < 0 || strings.Contains(header, "dkim=pass") {
		return header
	}
	return header[:i] + ar + "; dkim=pass header.d=example.com; dkim=pass header.d=xn--exmple-cua.net header.s=s1\r\n" + header[i:]
}

// forgeries are mails to an agent under require = "dmarc", each with the gate that rejects it. A
// mail with the gate "" comes in.
var forgeries = []struct{ name, header, gate string }{
	// Accepted mail.
	{"proved", pass + op + call, ""},
	{"as Gmail stamps it", "Delivered-To: a@example.org\r\nReceived: by 2002:a05:6a; Mon, 5 Jan 2026\r\nX-Received: by 2002:a\r\nARC-Seal: i=1; a=rsa-sha256; b=ab/cd==\r\n" +
		"ARC-Authentication-Results: i=1; mx.example.org;\r\n       dmarc=fail header.from=example.com\r\nReturn-Path: <operator@example.com>\r\nReceived-SPF: pass (google.com: domain of operator@example.com designates 192.0.2.1 as permitted sender) client-ip=192.0.2.1;\r\n" +
		ar + ";\r\n       dkim=pass header.i=@example.com header.s=s1 header.b=\"c2lnbmVkI\";\r\n       spf=pass (google.com: domain of operator@example.com designates 192.0.2.1 as permitted sender) smtp.mailfrom=operator@example.com;\r\n" +
		"       dmarc=pass (p=NONE sp=QUARANTINE dis=NONE) header.from=example.com\r\n" + op + call, ""},
	{"as Fastmail stamps it, the verdict in the third", ar + ";\r\n x-csa=none;\r\n x-me-sender=none;\r\n x-ptr=pass smtp.helo=mail-a.example.com\r\n policy.ptr=mail-a.example.com\r\n" +
		ar + ";\r\n bimi=skipped (DMARC Policy is not at enforcement)\r\n" +
		ar + ";\r\n arc=none (no signatures found);\r\n dkim=pass (2048-bit rsa key sha256) header.d=example.com\r\n header.i=@example.com header.b=c2lnbmVk header.a=rsa-sha256 header.s=s1\r\n x-bits=2048;\r\n" +
		" dmarc=pass policy.published-domain-policy=none\r\n policy.applied-disposition=none policy.evaluated-disposition=none\r\n (p=none,has-list-id=no,d=none,d.eval=none) policy.policy-from=p\r\n header.from=example.com;\r\n" +
		" iprev=pass smtp.remote-ip=2a00:1450:4864::1 (x.example.com);\r\n x-tls=pass smtp.version=TLSv1.3 smtp.bits=256/256\r\n" + op + call, ""},
	{"as OpenDMARC and OpenDKIM stamp it", ar + "; dmarc=pass (p=none dis=none) header.from=example.com\r\n" + ar + "; spf=pass smtp.mailfrom=operator@example.com\r\nDKIM-Filter: OpenDKIM Filter v2.11.0 mx.example.org 12\r\n" + ar + ";\r\n\tdkim=pass (2048-bit key) header.d=example.com\r\n" + op + call, ""},
	{"as Yahoo stamps it", ar + ";\r\n dkim=pass header.i=@example.com header.s=s1;\r\n spf=pass smtp.mailfrom=example.com;\r\n dmarc=pass(p=REJECT) header.from=example.com;\r\n" + op + call, ""},
	{"display name", pass + "From: The Operator <operator@example.com>\r\n" + call, ""},
	{"quoted name that holds another address", pass + "From: \"evil@example.net\" <operator@example.com>\r\n" + call, ""},
	{"name with a dot", pass + "From: O. P. Erator <operator@example.com>\r\n" + call, ""},
	{"comment behind the address", pass + "From: operator@example.com (me, at home)\r\n" + call, ""},
	{"nested comment that holds a result", ar + " (a (dmarc=fail;) \\) b) ; (x) dmarc (y) = (z) pass (w) header (v) . (u) from (t) = (s) example.com (r)\r\n" + op + call, ""},
	{"any case", "AUTHENTICATION-RESULTS: MX.Example.ORG; DKIM=Pass Header.D=Example.COM Header.S=S1; DMARC=Pass Header.From=EXAMPLE.com\r\nFROM: Operator@Example.COM\r\n" + call, ""},
	{"versions", ar + " 1; dmarc/1=pass header.from=example.com\r\n" + op + call, ""},
	{"quoted id", "Authentication-Results: \"mx.example.org\"; dkim=pass header.d=example.com; dmarc=pass header.from=example.com\r\n" + op + call, ""},
	{"quoted header.from", ar + "; dmarc=pass header.from=\"example.com\"\r\n" + op + call, ""},
	{"reason", ar + "; dmarc=pass reason=\"all; is = well\" header.from=example.com\r\n" + op + call, ""},
	{"folded in each blank", "Authentication-Results:\r\n mx.example.org\r\n\t;\r\n dkim\r\n =\r\n pass\r\n header.d\r\n =\r\n example.com;\r\n dmarc\r\n =\r\n pass\r\n header.from\r\n =\r\n example.com\r\n" + op + call, ""},
	{"IDN, its verdict as A-label", ar + "; dmarc=pass header.from=xn--exmple-cua.net\r\nFrom: bücher@exämple.net\r\n" + call, ""},
	{"IDN, its verdict as U-label", ar + "; dmarc=pass header.from=exämple.net\r\nFrom: bücher@xn--exmple-cua.net\r\n" + call, ""},
	{"a subdomain that is the operator's", ar + "; dmarc=pass header.from=mail.example.com\r\nFrom: op@mail.example.com\r\n" + call, ""},
	{"another server's field below", pass + "Authentication-Results: mx.example.net; dmarc=fail header.from=example.com\r\n" + op + call, ""},
	{"forged id below, but not side by side", pass + "Received: from evil\r\n" + pass + op + call, ""},
	{"an X- field above", "X-Authentication-Results: mx.example.org; dmarc=fail header.from=example.com\r\n" + pass + op + call, ""},
	{"two addresses that are in a comment", pass + "From: operator@example.com (evil@example.net, x@example.net)\r\n" + call, ""},

	// The server reports no result, or no good one.
	{"no stamp", op + call, trust.GateTrust},
	{"nothing found", ar + "; none\r\n" + op + call, trust.GateTrust},
	{"no dmarc", ar + "; spf=pass smtp.mailfrom=example.com; dkim=pass header.d=example.com\r\n" + op + call, trust.GateTrust},
	{"fail", ar + "; dmarc=fail header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"none", ar + "; dmarc=none header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"bestguesspass", ar + "; dmarc=bestguesspass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"temperror", ar + "; dmarc=temperror header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"passed is not pass", ar + "; dmarc=passed header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"pass with a long s", ar + "; dmarc=paſſ header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"xdmarc", ar + "; xdmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"another version of the method", ar + "; dmarc/2=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"another version of the field", ar + " 2; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"no header.from", ar + "; dmarc=pass\r\n" + op + call, trust.GateTrust},
	{"two header.from", ar + "; dmarc=pass header.from=example.net header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"two header.from, the first good", ar + "; dmarc=pass header.from=example.com header.from=example.net\r\n" + op + call, trust.GateTrust},
	{"header.from of another result", ar + "; dmarc=pass; spf=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"header.from is an address", ar + "; dmarc=pass header.from=operator@example.com\r\n" + op + call, trust.GateTrust},
	{"submission, which no setting allows", ar + "; auth=pass smtp.auth=operator@example.com\r\n" + op + call, trust.GateTrust},

	// The proof is for another domain.
	{"another domain", ar + "; dmarc=pass header.from=example.net\r\n" + op + call, trust.GateTrust},
	{"the domain above", ar + "; dmarc=pass header.from=example.com\r\nFrom: op@mail.example.com\r\n" + call, trust.GateTrust},
	{"a domain below", ar + "; dmarc=pass header.from=mail.example.com\r\n" + op + call, trust.GateTrust},
	{"a longer domain", ar + "; dmarc=pass header.from=example.com.evil.net\r\n" + op + call, trust.GateTrust},
	{"a look-alike in the verdict", ar + "; dmarc=pass header.from=exаmple.com\r\n" + op + call, trust.GateTrust}, // Cyrillic а
	{"full-width letters in the verdict", ar + "; dmarc=pass header.from=ｅxample.com\r\n" + op + call, trust.GateTrust},
	{"a dot too many", ar + "; dmarc=pass header.from=example.com.\r\n" + op + call, trust.GateTrust},

	// Contradicting results.
	{"two results in a field", ar + "; dmarc=fail header.from=example.com; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"two passes", ar + "; dmarc=pass header.from=example.com; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"one result in each of two fields", ar + "; dmarc=fail header.from=example.com\r\n" + pass + op + call, trust.GateTrust},
	{"another version next to it", ar + "; dmarc=pass header.from=example.com; dmarc/2=fail\r\n" + op + call, trust.GateTrust},

	// Results of another server.
	{"id forged below another server's", "Authentication-Results: mx.example.net; dmarc=fail header.from=example.com\r\n" + pass + op + call, trust.GateTrust},
	{"id forged below an empty one of the server", ar + "; none\r\nReceived: from evil\r\n" + pass + op + call, trust.GateTrust},
	{"a longer id", "Authentication-Results: mx.example.org.evil.net; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"a shorter id", "Authentication-Results: example.org; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"id in a comment", "Authentication-Results: (mx.example.org) evil.net; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"id in quotes with more", "Authentication-Results: \"mx.example.org; x\"; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"id of look-alike letters", "Authentication-Results: mx.eхample.org; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust}, // Cyrillic х
	{"no id, as Microsoft stamps it", "Authentication-Results: spf=pass (sender IP is 192.0.2.1)\r\n smtp.mailfrom=example.com; dkim=pass (signature was verified)\r\n header.d=example.com;dmarc=pass action=none\r\n header.from=example.com;compauth=pass reason=100\r\n" + op + call, trust.GateTrust},
	{"ARC only", "ARC-Authentication-Results: i=1; mx.example.org; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"X- only", "X-Authentication-Results: mx.example.org; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"Original- only", "Authentication-Results-Original: mx.example.org; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},

	// Smuggled results.
	{"in a quoted envelope sender", ar + "; spf=pass smtp.mailfrom=\"x; dmarc=pass header.from=example.com\"@evil.net\r\n" + op + call, trust.GateTrust},
	{"in a quoted envelope sender, with the verdict", ar + "; spf=none smtp.mailfrom=\"x; dmarc=pass header.from=example.com; \"@evil.net; dmarc=fail header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"behind an escaped quote", ar + "; spf=pass smtp.mailfrom=\"x\\\"; dmarc=pass header.from=example.com; y=\\\"\"@evil.net\r\n" + op + call, trust.GateTrust},
	{"in a comment", ar + "; spf=pass (evil; dmarc=pass header.from=example.com) smtp.mailfrom=evil.net\r\n" + op + call, trust.GateTrust},
	{"in a nested comment", ar + "; spf=pass (a (b) ; dmarc=pass header.from=example.com) smtp.mailfrom=evil.net\r\n" + op + call, trust.GateTrust},
	{"behind an escaped bracket", ar + "; spf=pass (a \\) ; dmarc=pass header.from=example.com) smtp.mailfrom=evil.net\r\n" + op + call, trust.GateTrust},
	{"a quote in a comment", ar + "; spf=pass (\" ) ; dmarc=fail header.from=example.com (\" ; dmarc=pass header.from=example.com )\r\n" + op + call, trust.GateTrust},
	{"in a reason", ar + "; dkim=fail reason=\"; dmarc=pass header.from=example.com\"\r\n" + op + call, trust.GateTrust},
	{"folded within quotes", ar + "; spf=pass smtp.mailfrom=\"x\r\n ; dmarc=pass header.from=example.com\"\r\n" + op + call, trust.GateTrust},
	{"an encoded word", ar + "; =?utf-8?q?dmarc=3Dpass_header.from=3Dexample.com?=\r\n" + op + call, trust.GateTrust},
	{"as a property", ar + "; spf=pass dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"as the id", "Authentication-Results: mx.example.org dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},

	// Malformed fields of the server are not trusted.
	{"open quote", ar + "; dmarc=pass header.from=example.com; spf=pass smtp.mailfrom=\"x\r\n" + op + call, trust.GateTrust},
	{"open comment", ar + "; dmarc=pass header.from=example.com (\r\n" + op + call, trust.GateTrust},
	{"bracket too many", ar + "; dmarc=pass header.from=example.com )\r\n" + op + call, trust.GateTrust},
	{"malformed field next to a good one", pass + ar + "; spf=\"pass\"\r\n" + op + call, trust.GateTrust},
	{"unreadable field next to a good one", pass + "Authentication-Results: \"\r\n" + op + call, trust.GateTrust},
	{"no result and no none", ar + "\r\n" + op + call, trust.GateTrust},
	{"quoted pass", ar + "; dmarc=\"pass\" header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"pass and more", ar + "; dmarc=pass.not header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"none and more", ar + "; none; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},
	{"empty result", ar + ";; dmarc=pass header.from=example.com\r\n" + op + call, trust.GateTrust},

	// Broken headers.
	{"NUL in From", pass + "From: operator@example.com\x00evil.net\r\n" + call, foreign},
	{"CR in the header", pass + "X-Y: a\rFrom: evil@example.net\r\n" + op + call, trust.GateTrust},
	{"CR CR LF for the end", pass + op + call + "\r\r\nFrom: evil@example.net\r\n", unreadable},
	{"line of blanks for the end", pass + op + call + " \r\nX-Y: z\r\n", trust.GateTrust},
	{"a line that is not a field", pass + "this is not a field\r\n" + op + call, unreadable},
	{"a From with a byte order mark before it", pass + "\ufeffFrom: evil@example.com\r\n" + op + call, unreadable},
	{"From with a blank before the colon", pass + "From : operator@example.com\r\n" + call, trust.GateTrust},
	{"begins with a continuation", " x\r\n" + pass + op + call, unreadable},
	{"a header that is too long", pass + op + call + "X-Y: " + strings.Repeat("x", 300<<10) + "\r\n", trust.GateTrust},
	{"a second From behind a long line", pass + op + call + "X-Y: " + strings.Repeat("x", 4096-5) + "\r\nFrom: evil@example.net\r\n", trust.GateFrom},

	// From has several addresses, or another one.
	{"two From fields", pass + op + "From: evil@example.net\r\n" + call, trust.GateFrom},
	{"two From fields, the first evil", pass + "From: evil@example.net\r\n" + op + call, trust.GateFrom},
	{"the same From twice", pass + op + op + call, trust.GateFrom},
	{"two addresses", pass + "From: operator@example.com, evil@example.net\r\n" + call, trust.GateFrom},
	{"group", pass + "From: Us: operator@example.com;\r\n" + call, trust.GateFrom},
	{"group of two", pass + "From: Us: operator@example.com, evil@example.net;\r\n" + call, trust.GateFrom},
	{"empty group", pass + "From: operator@example.com:;\r\n" + call, foreign},
	{"route", pass + "From: <@evil.net:operator@example.com>\r\n" + call, foreign},
	{"two angle addresses", pass + "From: <operator@example.com> <evil@example.net>\r\n" + call, trust.GateFrom},
	{"address before angle address", pass + "From: operator@example.com <evil@example.net>\r\n" + call, foreign},
	{"address behind angle address", pass + "From: <operator@example.com> evil@example.net\r\n" + call, trust.GateFrom},
	{"unquoted comma in the name", pass + "From: Operator, Jr. <operator@example.com>\r\n" + call, trust.GateFrom},
	{"comment in the address", pass + "From: operator(evil)@example.com\r\n" + call, trust.GateFrom},
	{"blank in the address", pass + "From: operator @example.com\r\n" + call, foreign},
	{"quoted local part", pass + "From: \"operator\"@example.com\r\n" + call, trust.GateFrom},
	{"open comment in From", pass + "From: operator@example.com (\r\n" + call, trust.GateFrom},
	{"open quote in From", pass + "From: \"x <operator@example.com>\r\n" + call, foreign},
	{"operator in the name only", pass + "From: \"operator@example.com\" <evil@example.com>\r\n" + call, foreign},
	{"operator encoded in the name", pass + "From: =?utf-8?q?operator=40example=2Ecom?= <evil@example.com>\r\n" + call, foreign},
	{"operator as an encoded address", pass + "From: =?utf-8?q?operator?=@example.com\r\n" + call, foreign},
	{"operator in a comment only", pass + "From: evil@example.com (operator@example.com)\r\n" + call, foreign},
	{"plus address", pass + "From: operator+x@example.com\r\n" + call, foreign},
	{"look-alike domain", ar + "; dmarc=pass header.from=xn--exmple-4nf.com\r\nFrom: operator@exаmple.com\r\n" + call, foreign}, // Cyrillic а
	{"look-alike local part", pass + "From: оperator@example.com\r\n" + call, foreign},                                          // Cyrillic о
	{"full-width domain", pass + "From: operator@ｅxample.com\r\n" + call, trust.GateFrom},
	{"composed by two characters", ar + "; dmarc=pass header.from=exämple.net\r\nFrom: bücher@exa\u0308mple.net\r\n" + call, trust.GateFrom},
	{"subdomain", pass + "From: operator@sub.example.com\r\n" + call, foreign},
	{"a longer domain in From", pass + "From: operator@example.com.evil.net\r\n" + call, foreign},
	{"Sender is not From", pass + "Sender: operator@example.com\r\nFrom: evil@example.com\r\n" + call, foreign},
	{"Resent-From is not From", pass + "Resent-From: operator@example.com\r\nFrom: evil@example.com\r\n" + call, foreign},
	{"Reply-To is not From", pass + "Reply-To: operator@example.com\r\nFrom: evil@example.com\r\n" + call, foreign},

	// The other gates apply to proved mail.
	{"proved, not called", pass + op + "Subject: lunch?\r\n", foreign},
	{"proved, by a machine", pass + op + call + "Auto-Submitted: auto-replied\r\n", trust.GateAuto},
	{"proved, to a list", pass + op + call + "List-Id: <x.example.com>\r\n", trust.GateList},
}

// judgeMails appends mails to the mailbox, scans it, and returns the messages by their mails. A mail
// for somebody else is not among them.
func judgeMails(t *testing.T, h host, f trust.Filter, mails []string) map[string]mail.Message {
	t.Helper()
	uids := map[uint32]string{}
	for _, m := range mails {
		uids[h.append(m, false)] = m
	}
	f.MaxSize = 4 << 20
	got := mailsByUID{}
	l, err := scanWith(t, mailboxOf(h), state.Cursor{}, f, 1000, got.keep)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]mail.Message{}
	for _, m := range l.Messages {
		found[uids[m.UID]] = m
		if m.Gate == "" && got[m.UID] != uids[m.UID] {
			t.Errorf("stored %q of %q", got[m.UID], uids[m.UID])
		}
	}
	for _, raw := range mails {
		if m, taken := found[raw]; taken {
			checkJudge(t, mailboxOf(h), f, raw, &m)
		} else {
			checkJudge(t, mailboxOf(h), f, raw, nil)
		}
	}
	return found
}

// gateOf returns the gate of a mail, or foreign.
func gateOf(found map[string]mail.Message, raw string) string {
	m, ok := found[raw]
	if !ok {
		return foreign
	}
	return m.Gate
}

func testForgeries(t *testing.T, h host) {
	var mails []string
	whole := func(i int) string {
		return addSignatures(forgeries[i].header) + fmt.Sprintf("Message-ID: <%d@example.com>\r\n\r\nhello\r\n", i)
	}
	for i := range forgeries {
		mails = append(mails, whole(i))
	}
	found := judgeMails(t, h, trusting(), mails)
	for i, f := range forgeries {
		m := found[whole(i)]
		got := gateOf(found, whole(i))
		if f.gate == unreadable && got != "" {
			continue
		}
		if got != f.gate {
			t.Errorf("%s: gate %q (%s), want %q", f.name, got, m.Reason, f.gate)
		}
		if (m.Gate == "") != (m.Reason == "") || strings.ContainsAny(m.Reason, "\r\n") || len(m.Reason) > 700 {
			t.Errorf("%s: reason %q", f.name, m.Reason)
		}
	}
	t.Logf("%d mails", len(forgeries))
}

// TestSameProvider checks auth=pass, which some providers write on mail between two of their
// customers.
func TestSameProvider(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	end := op + call + "\r\nhello\r\n"
	cases := map[string]string{
		pass + end: "",
		ar + "; auth=pass (plain) smtp.auth=operator@example.com\r\n" + end:                                                           "",
		ar + "; auth=pass smtp.auth=Operator@Example.com header.from=operator@example.com; dmarc=fail\r\n" + end:                      "",
		ar + "; auth=pass smtp.auth=evil@example.com\r\n" + end:                                                                       trust.GateTrust,
		ar + "; auth=pass smtp.auth=evil@example.com header.from=operator@example.com\r\n" + end:                                      trust.GateTrust,
		ar + "; auth=pass smtp.auth=operator\r\n" + end:                                                                               trust.GateTrust,
		ar + "; auth=pass\r\n" + end:                                                                                                  trust.GateTrust,
		ar + "; auth=pass smtp.mailfrom=operator@example.com\r\n" + end:                                                               trust.GateTrust,
		ar + "; auth=fail smtp.auth=operator@example.com\r\n" + end:                                                                   trust.GateTrust,
		ar + "; auth=pass smtp.auth=operator@example.com; auth=pass smtp.auth=operator@example.com\r\n" + end:                         trust.GateTrust,
		ar + "; spf=pass smtp.mailfrom=\"; auth=pass smtp.auth=operator@example.com\"\r\n" + end:                                      trust.GateTrust,
		"Authentication-Results: evil.net; auth=pass smtp.auth=operator@example.com\r\n" + end:                                        trust.GateTrust,
		ar + "; auth=pass smtp.auth=operator@example.com\r\n" + op + "From: evil@example.com\r\n" + call + "\r\nhello\r\n":            trust.GateFrom,
		"X-Y: z\r\n" + ar + "; auth/2=pass smtp.auth=operator@example.com\r\n" + end:                                                  trust.GateTrust,
		ar + "; auth=pass smtp.auth=op@mail.example.com\r\nFrom: op@mail.example.com\r\n" + call + "\r\nhello\r\n":                    "",
		ar + "; auth=pass smtp.auth=operator@example.com\r\nFrom: op@mail.example.com\r\n" + call + "\r\nhello\r\n":                   trust.GateTrust,
		ar + "; auth=pass reason=\"smtp.auth=operator@example.com\"\r\n" + end:                                                        trust.GateTrust,
		"X-Y: z\r\n" + ar + "; auth=pass smtp.auth=\"operator@example.com\"\r\n" + end:                                                "",
		"X-Y: z\r\n" + ar + "; auth=pass smtp.auth=\"operator@example.com evil\"\r\n" + end:                                           trust.GateTrust,
		"X-Y: z\r\n" + ar + "; auth=pass smtp.auth=operator@example.com smtp.auth=evil@example.com\r\n" + end:                         trust.GateTrust,
		"X-Y: z\r\nReceived: x\r\n" + ar + "; dmarc=none\r\n" + ar + "; auth=pass smtp.auth=operator@example.com\r\n" + end:           "",
		"X-Y: z\r\nReceived: x\r\n" + ar + "; dmarc=none\r\nX-Y: z\r\n" + ar + "; auth=pass smtp.auth=operator@example.com\r\n" + end: trust.GateTrust,
	}
	mails := slices.Collect(maps.Keys(cases))
	found := judgeMails(t, h, trusting(func(f *trust.Filter) { f.SameProvider = true }), mails)
	for raw, want := range cases {
		if got := gateOf(found, raw); got != want {
			t.Errorf("gate %q (%s), want %q for\n%s", got, found[raw].Reason, want, raw)
		}
	}
}

// TestEmptyAuthservID checks that an empty authserv_id trusts no server.
func TestEmptyAuthservID(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	mails := []string{
		pass + op + call + "\r\nhello\r\n",
		"Authentication-Results: ; dmarc=pass header.from=example.com\r\n" + op + call + "\r\nhello\r\n",
		"Authentication-Results: \"\"; dmarc=pass header.from=example.com\r\n" + op + call + "\r\nhello\r\n",
	}
	found := judgeMails(t, h, trusting(func(f *trust.Filter) { f.AuthservID = "" }), mails)
	for _, raw := range mails {
		if got := gateOf(found, raw); got != trust.GateTrust {
			t.Errorf("gate %q, want %q for\n%s", got, trust.GateTrust, raw)
		}
	}
}

// TestFetchedHeaderDecides checks that the header of the stored mail decides, not the header that
// the server reported before.
func TestFetchedHeaderDecides(t *testing.T) {
	for body, want := range map[string]string{
		pass + op + call: "",
		pass + "From: evil@example.com\r\n" + call:         trust.GateFrom,
		pass + op + "From: evil@example.com\r\n" + call:    trust.GateFrom,
		pass + op + "Subject: something else\r\n":          trust.GateFrom,
		pass + op + call + "Auto-Submitted: generated\r\n": trust.GateAuto,
		op + call: trust.GateTrust,
	} {
		body += "\r\nhello\r\n"
		addr := startServer(t, func(c net.Conn) {
			for tag, command := range commands(answerLogin(c, "* OK [UIDNEXT 6] x\r\n")) {
				if strings.Contains(command, "HEADER") {
					sendHeaders(c, tag, op+call+"\r\n", 5)
				} else if strings.HasPrefix(command, "UID FETCH") {
					sendBody(c, tag, 5, body)
				}
			}
		})
		b := plainMailbox(addr)
		l, err := scanWith(t, b, state.Cursor{Mailbox: b.ID(), Validity: 7, Next: 5}, trusting(), 10, discard)
		if err != nil || len(l.Messages) != 1 || l.Messages[0].Gate != want {
			t.Errorf("%+v, %v, want gate %q for\n%s", l.Messages, err, want, body)
		}
	}
}
