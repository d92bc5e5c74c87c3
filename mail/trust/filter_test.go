package trust

import (
	"strings"
	"testing"

	"agentstateloop/mail/message"
)

var testFilter = Filter{
	Handle: "goulard3120", Operators: []string{"Operator@Example.com", "second@exämple.net"},
	Own: "artificer3120@example.org", MaxSize: 1000, Require: "from",
	IDKey: message.IDKey{Secret: []byte("sixteen bytes are")},
}

func judge(raw string) (bool, string, string) {
	return testFilter.Gate(message.ParseHeader([]byte(raw)), int64(len(raw)))
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
		"@goulard3120さん、状況は？":                        true,
		"東京の@goulard3120へ":                           true,
		"＠goulard3120 状況":                            true,
		"@goulard3120에게 묻는다":                         true,
		"@goulard3120เป็นอย่างไร":                    true,
		"@goulard3120តើ":                             true,
		"@goulard3120ー":                              true,
		"@goulard3120現在":                             true,
		"@goulard31203現在":                            false,
		"@goulard3120что":                            false,
		"@goulard3120ß":                              false,
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

func TestFromOperator(t *testing.T) {
	for from, want := range map[string]bool{
		"operator@example.com":                                   true,
		"OPERATOR@EXAMPLE.COM":                                   true,
		"The Operator <operator@example.com>":                    true,
		`"Operator, The" <operator@example.com>`:                 true,
		"Operator, Jr. <operator@example.com>":                   true, // missing quotes
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

// TestAbsenceNotes checks that an absence note without a field of automatic mail is recognized by
// its subject, and that the same subject on a new mail is an order.
func TestAbsenceNotes(t *testing.T) {
	for subject, want := range map[string]string{
		"Automatic reply: @goulard3120: done":      GateAuto,
		"Automatische Antwort: @goulard3120":       GateAuto,
		"Réponse automatique\u00a0: @goulard3120":  GateAuto,
		"自動返信： @goulard3120":                       GateAuto,
		"АВТОМАТИЧЕСКИЙ ОТВЕТ: @goulard3120":       GateAuto,
		"Re: Automatic reply: @goulard3120":        "",
		"@goulard3120 automatic reply: set one up": "",
	} {
		for field, gate := range map[string]string{"In-Reply-To: <x@example.org>\n": want, "": ""} {
			if mine, got, _ := judge("From: operator@example.com\nSubject: " + subject + "\n" + field + "\n"); !mine || got != gate {
				t.Errorf("%s, %s: ours %v, gate %q, want %q", subject, field, mine, got, gate)
			}
		}
	}
}

// TestMailOfSeveralAgents checks which of the agents that read one mailbox takes a mail of the
// operator, and that fields that somebody else added do not change that.
func TestMailOfSeveralAgents(t *testing.T) {
	ids := func(handle, address, key string) message.IDs {
		return message.IDs{Handle: handle, Address: address, IDKey: message.IDKey{Secret: []byte(key)}}
	}
	const own, key = "artificer3120@example.org", "sixteen bytes are"
	ours := ids("goulard3120", own, key)
	good := ours.Make("reply.t1", "hm")
	forged := map[string]string{
		"no MAC":               "<e1.goulard3120@example.org>",
		"no MAC, a known kind": "<reply.t1.goulard3120@example.org>",
		"another key":          ids("goulard3120", own, "another sixteen bytes").Make("reply.t1", "hm"),
		"no key":               message.IDs{Handle: "goulard3120", Address: own}.Make("reply.t1", "hm"),
		"another effect":       strings.Replace(good, ".t1.", ".t2.", 1),
		"another agent":        strings.Replace(ids("dorlange3120", own, key).Make("reply.t1", "hm"), "dorlange", "goulard", 1),
		"cut":                  good[:20] + ".goulard3120@example.org>",
		"another domain":       ids("goulard3120", "x@example.net", key).Make("reply.t1", "hm"),
		"a name alone":         "<goulard3120@example.org>",
		"a thread added":       strings.Replace(good, "reply.t1.", "reply.t1+abcdefgh.", 1),
		"another thread":       strings.Replace(ours.Make("reply.t1+abcdefgh", "hm"), "+abcdefgh", "+bcdefghi", 1),
		"a thread taken away":  strings.Replace(ours.Make("reply.t1+abcdefgh", "hm"), "+abcdefgh", "", 1),
	}
	fields := func(id string) []string {
		return []string{
			"In-Reply-To: " + id, "References: " + id, "References: <x@example.com>\n " + id, "In-Reply-To: <x@example.com> " + id,
			"References: " + strings.ToUpper(id) + " <y@example.com>",
		}
	}
	mine := func(subject, field string) bool {
		m, gate, reason := judge("From: operator@example.com\nSubject: " + subject + "\n" + field + "\n\n")
		if gate != "" {
			t.Errorf("%s, %s: gate %s: %s", subject, field, gate, reason)
		}
		return m
	}
	subjects := []string{"@dorlange3120 deploy", "Re: @dorlange3120: done", "deploy, @dorlange3120!", "Fwd: @dorlange3120", "lunch", "Re: hm", "x@goulard3120 @dorlange3120"}
	for _, subject := range subjects {
		for name, id := range forged {
			for _, field := range fields(id) {
				if mine(subject, field) {
					t.Errorf("%s: with %s it is ours", subject, field)
				}
				if !mine("@goulard3120 and "+subject, field) {
					t.Errorf("%s: with our callsign and an id of %s it is not ours", subject, name)
				}
			}
		}
		calls := strings.Contains(subject, " @dorlange") || strings.HasPrefix(subject, "@dorlange")
		for _, field := range fields(good) {
			if mine(subject, field) == calls {
				t.Errorf("%s: with %s ours is %v", subject, field, !calls)
			}
		}
		for _, field := range fields(ours.Make("reply.t1", subject)) {
			if !mine("Re: "+subject, field) && !strings.HasPrefix(subject, "Fwd:") {
				t.Errorf("%s: an answer in a thread of ours is not ours", subject)
			}
		}
	}
	if mine, _, _ := judge("From: x@example.com\nSubject: Re: hm\nIn-Reply-To: " + good + "\n\n"); mine {
		t.Error("a stranger's answer is for us")
	}
}

func TestGateVerdicts(t *testing.T) {
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
		{from + "Message-ID: " + testFilter.ids().Make("ack.x", "") + "\n", GateSelf, "Message-ID is ours"},
		{from + "Message-ID: <ack.x.goulard3120@example.org>\n", "", ""},
		{from + "Auto-Submitted: auto-replied\n", GateAuto, "auto-replied"},
		{from + "Auto-Submitted: no\nAuto-Submitted: auto-generated; x=y\n", GateAuto, "auto-generated"},
		{from + "Auto-Submitted: AUTO-NOTIFIED\n", GateAuto, "AUTO-NOTIFIED"},
		{from + "Auto-Submitted: (cron) Auto-Generated; owner=root\n", GateAuto, "(cron) Auto-Generated"},
		{from + "Precedence: (x) list\n", GateList, "list"},
		{from + "Return-Path: (null) <>\n", GateBounce, "Return-Path"},
		{from + "X-Autoreply: yes\n", GateAuto, "x-autoreply"},
		{from + "X-Auto-Response-Suppress: All\n", GateAuto, "x-auto-response-suppress"},
		{from + "X-Auto-Response-Suppress: DR, OOF, AutoReply\n", GateAuto, "OOF"},
		{from + "X-Auto-Response-Suppress: DR, RN\n", "", ""},
		{from + "X-MS-Exchange-Inbox-Rules-Loop: operator@example.com\n", GateAuto, "rules-loop"},
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
	if mine, gate, _ := own.Gate(message.ParseHeader([]byte("From: artificer3120@example.org\nSubject: @goulard3120\n\n")), 1); !mine || gate != GateSelf {
		t.Errorf("mail from our own address: %v, %q", mine, gate)
	}
	for _, require := range []string{"", "Challenge", "DMARC"} {
		f := testFilter
		f.Require = require
		if mine, gate, _ := f.Gate(message.ParseHeader([]byte(from+"Subject: @goulard3120\n\n")), 1); !mine || gate != GateTrust {
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
		mine, gate, reason := testFilter.Gate(h, int64(len(raw)))
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
