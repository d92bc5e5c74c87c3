package mail

import (
	"strings"
	"testing"

	"agentstateloop/mail/message"
)

var testFilter = Filter{
	Handle: "goulard3120", Operators: []string{"Operator@Example.com", "second@exämple.net"},
	Own: "artificer3120@example.org", MaxSize: 1000, Require: "from",
}

func judge(raw string) (bool, string, string) {
	return testFilter.gate(message.ParseHeader([]byte(raw)), int64(len(raw)))
}

func TestCallsign(t *testing.T) {
	for subject, want := range map[string]bool{
		"@goulard3120":                               true,
		"Re: @goulard3120 status?":                   true,
		"hey @Goulard3120, wake up":                  true,
		"(@goulard3120)":                             true,
		"@goulard3120.":                              true,
		"@goulard3120: go":                           true,
		"@goulard3120-- please":                      true,
		"@dorlange3120 and @goulard3120":             true,
		"x@goulard3120 @goulard3120":                 true,
		"=?utf-8?q?Gr=C3=BC=C3=9Fe_=40goulard3120?=": true,
		"=?utf-8?b?QGdvdWxhcmQzMTIw?=":               true,
		"=?x-no-such?q?=40goulard3120?=":             true,
		"":                                           false,
		"goulard3120":                                false,
		"@goulard31200":                              false,
		"@goulard312":                                false,
		"@goulard3120-dev":                           false,
		"@goulard3120_":                              false,
		"@goulard3120é":                              false,
		"x@goulard3120":                              false,
		"é@goulard3120":                              false,
		"@ goulard3120":                              false,
	} {
		mine, _, _ := judge("From: operator@example.com\nSubject: " + subject + "\n\n")
		if mine != want {
			t.Errorf("subject %q: mine = %v, want %v", subject, mine, want)
		}
	}
}

func TestSender(t *testing.T) {
	for from, want := range map[string]bool{
		"operator@example.com":                                   true,
		"OPERATOR@EXAMPLE.COM":                                   true,
		"The Operator <operator@example.com>":                    true,
		`"Operator, The" <operator@example.com>`:                 true,
		"Operator, Jr. <operator@example.com>":                   true, // not quoted as it should be
		"=?x-no-such?q?=FF?= <operator@example.com>":             true,
		"operator@example.com (home)":                            true,
		"<operator@example.com>":                                 true,
		"Two <second@xn--exmple-cua.net>":                        true,
		"noperator@example.com":                                  false,
		"operator@example.com.evil.net":                          false,
		"operator@example.community":                             false,
		`"operator@example.com" <evil@example.net>`:              false,
		"operator@example.com <evil@example.net>":                false,
		"evil@example.net (operator@example.com)":                false,
		"=?utf-8?q?operator=40example.com?= <evil@example.net>":  false,
		"=?utf-8?q?=3Coperator=40example.com=3E?= evil@evil.net": false,
		"<evil@example.net> operator@example.com":                false,
		"": false,
	} {
		mine, gate, _ := judge("From: " + from + "\nSubject: @goulard3120\n\n")
		if mine != want || gate != "" {
			t.Errorf("From %q: mine = %v, want %v; gate %q", from, mine, want, gate)
		}
	}
}

func TestAnswerNeedsNoCallsign(t *testing.T) {
	made := func(handle, address string) string {
		return message.IDs{Handle: handle, Address: address}.Make("reply.t1", "hm")
	}
	own := made("goulard3120", "artificer3120@example.org")
	for field, want := range map[string]bool{
		"In-Reply-To: " + own:                                               true,
		"References: <x@example.com>\n " + own:                              true,
		"In-Reply-To: <x@example.com> " + own:                               true,
		"In-Reply-To: " + made("dorlange3120", "artificer3120@example.org"): false,
		"In-Reply-To: " + made("goulard3120", "x@example.net"):              false,
		"In-Reply-To: <goulard3120@example.org>":                            false,
	} {
		if mine, gate, _ := judge("From: operator@example.com\nSubject: Re: hm\n" + field + "\n\n"); mine != want || gate != "" {
			t.Errorf("%s: mine = %v, want %v; gate %q", field, mine, want, gate)
		}
	}
	if mine, _, _ := judge("From: x@example.com\nSubject: Re: hm\nIn-Reply-To: " + own + "\n\n"); mine {
		t.Error("a stranger's answer is for us")
	}
}

func TestGate(t *testing.T) {
	const from = "From: operator@example.com\n"
	for _, tt := range []struct{ raw, gate, evidence string }{
		{from, "", ""},
		{from + "Auto-Submitted: no\n", "", ""},
		{from + "Auto-Submitted: No (a person)\n", "", ""},
		{from + "Precedence: first-class\n", "", ""},
		{from + "Return-Path: <operator@example.com>\n", "", ""},
		{from + "garbage without a colon\nAuto-Submitted: no\n", "", ""},
		{from + from, GateFrom, "2 From fields"},
		{from + "From: evil@example.net\n", GateFrom, "evil@example.net"},
		{from + "From: nobody\n", GateFrom, "2 From fields"},
		{"From: evil@example.net, operator@example.com\n", GateFrom, "2 addresses"},
		{"From: Friends: operator@example.com, evil@example.net;\n", GateFrom, "2 addresses"},
		{from + "X-AgentStateLoop: goulard3120\n", GateSelf, "X-AgentStateLoop"},
		{from + "Message-ID: <ack.x.goulard3120@example.org>\n", GateSelf, "Message-ID is ours"},
		{from + "Auto-Submitted: auto-replied\n", GateAuto, "auto-replied"},
		{from + "Auto-Submitted: no\nAuto-Submitted: auto-generated; x=y\n", GateAuto, "auto-generated"},
		{from + "Auto-Submitted: AUTO-NOTIFIED\n", GateAuto, "AUTO-NOTIFIED"},
		{from + "Auto-Submitted: (cron) Auto-Generated; owner=root\n", GateAuto, "(cron) Auto-Generated"},
		{from + "Precedence: (x) list\n", GateList, "list"},
		{from + "Return-Path: (null) <>\n", GateBounce, "Return-Path"},
		{from + "X-Autoreply: yes\n", GateAuto, "x-autoreply"},
		{from + "Precedence: auto_reply\n", GateAuto, "auto_reply"},
		{from + "Content-Type: multipart/report; report-type=delivery-status\n", GateBounce, "report"},
		{from + "Return-Path: <>\n", GateBounce, "Return-Path"},
		{from + "Precedence: Bulk\n", GateList, "Bulk"},
		{from + "List-Id: <dev.example.org>\n", GateList, "dev.example.org"},
		{from + "X-Filler: " + strings.Repeat("x", 1000) + "\n", GateSize, "the limit is 1000"},
	} {
		mine, gate, reason := judge(tt.raw + "Subject: @goulard3120\n\n")
		if !mine || gate != tt.gate || !strings.Contains(reason, tt.evidence) || strings.Contains(reason, "\n") {
			t.Errorf("%q: mine %v, gate %q (%s), want gate %q with %q", tt.raw, mine, gate, reason, tt.gate, tt.evidence)
		}
	}

	own := testFilter
	own.Operators = []string{own.Own}
	if mine, gate, _ := own.gate(message.ParseHeader([]byte("From: artificer3120@example.org\nSubject: @goulard3120\n\n")), 1); !mine || gate != GateSelf {
		t.Errorf("mail from our own address: %v, %q", mine, gate)
	}
	for _, require := range []string{"", "Challenge", "DMARC"} {
		f := testFilter
		f.Require = require
		if mine, gate, _ := f.gate(message.ParseHeader([]byte(from+"Subject: @goulard3120\n\n")), 1); !mine || gate != GateTrust {
			t.Errorf("require %q: %v, %q, want it refused", require, mine, gate)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("From: operator@example.com\r\nSubject: @goulard3120\r\n\r\n"))
	f.Add([]byte("From: \"a\\\" <operator@example.com>, =?utf-8?b?QA==?= <x@y>\nFrom: z\nSubject: =?utf-7?q?+AEA-?=\n"))
	f.Add([]byte("References: <<a@b>>\n\t<\x00>\nContent-Type: ;;;==\nPrecedence"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h := message.ParseHeader(raw)
		mine, gate, reason := testFilter.gate(h, int64(len(raw)))
		if !mine && gate != "" || (gate == "") != (reason == "") {
			t.Errorf("mine %v, gate %q, reason %q", mine, gate, reason)
		}
		if mine && !strings.Contains(strings.ToLower(string(raw)), "@") && !strings.Contains(string(raw), "=?") {
			t.Error("for us without an address")
		}
		for _, s := range append([]string{h.Subject, h.MessageID, h.InReplyTo, reason, h.Agent, h.ListID}, h.References...) {
			if strings.ContainsAny(s, "\r\n\x00") {
				t.Errorf("%q is not one line", s)
			}
		}
	})
}
