package message

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// ourID is the id of the returned mail, and otherID an id that its header refers to.
const ourID, otherID = "<reply.t0123.abcdefghijklmnopqrstuvwxyz234567.goulard3120@example.com>", "<ack.77.abcdefghijklmnopqrstuvwxyz234567.goulard3120@example.com>"

// returnedHeader is the header of the returned mail.
const returnedHeader = "Return-Path: <agent@example.com>\nFrom: goulard3120 <agent@example.com>\nTo: op@example.org\nSubject: Re: hello\nReferences: " + otherID + "\nMessage-ID:\n " + ourID + "\nAuto-Submitted: auto-replied\n"

// dsn returns a report of RFC 3464 with a text, the machine-readable fields, and the returned mail
// with its type.
func dsn(header, text, status, returnedType, returned string) string {
	parts := "--b\nContent-Type: text/plain\n\n" + text + "\n"
	if status != "" {
		parts += "--b\nContent-Type: message/delivery-status\n\n" + status + "\n"
	}
	if returned != "" {
		parts += "--b\nContent-Type: " + returnedType + "\n\n" + returned + "\n"
	}
	return "To: agent@example.com\n" + header + "MIME-Version: 1.0\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n" + parts + "--b--\n"
}

// reportCases are reports that follow the documentation of each server.
var reportCases = []struct {
	name, raw string
	want      string // "failed", "delayed", "" for neither
	to        string
	reason    string // a part of it
	id        string // "" for none
}{
	{"Postfix", dsn("From: MAILER-DAEMON@mx.example.com (Mail Delivery System)\nSubject: Undelivered Mail Returned to Sender\nAuto-Submitted: auto-replied\n",
		"I'm sorry to have to inform you that your message could not\nbe delivered to one or more recipients.",
		"Reporting-MTA: dns; mx.example.com\nX-Postfix-Queue-ID: 4F\n\nFinal-Recipient: rfc822; op@example.org\nOriginal-Recipient: rfc822;op@example.org\nAction: failed\nStatus: 5.1.1\nRemote-MTA: dns; mx.example.org\nDiagnostic-Code: smtp; 550 5.1.1 <op@example.org>: Recipient\n    address rejected",
		"message/rfc822", returnedHeader+"\nbody"), "failed", "op@example.org", "Recipient address rejected", ourID},
	{"Postfix, the header alone", dsn("From: MAILER-DAEMON@mx.example.com\n", "x", "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; op@example.org\nAction: failed\nStatus: 5.4.4", "text/rfc822-headers", returnedHeader),
		"failed", "op@example.org", "5.4.4", ourID},
	{"Postfix, delayed", dsn("From: MAILER-DAEMON@mx.example.com\nSubject: Delayed Mail (still being retried)\n", "THIS IS A WARNING ONLY",
		"Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; op@example.org\nAction: delayed\nStatus: 4.4.1\nDiagnostic-Code: X-Postfix; connection refused\nWill-Retry-Until: Tue, 6 Jan 2026 10:00:00 +0000", "text/rfc822-headers", returnedHeader),
		"delayed", "op@example.org", "connection refused", ourID},
	{"delivered", dsn("From: MAILER-DAEMON@mx.example.com\n", "x", "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; op@example.org\nAction: delivered\nStatus: 2.0.0", "text/rfc822-headers", returnedHeader), "", "op@example.org", "", ourID},
	{"relayed", dsn("From: MAILER-DAEMON@mx.example.com\n", "x", "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; op@example.org\nAction: (odd) Relayed (to mx)\nStatus: 2.1.9", "text/rfc822-headers", returnedHeader), "", "op@example.org", "", ourID},
	{"two recipients, one of them lost", dsn("From: postmaster@example.org\n", "x", "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; a@example.org\nAction: delayed\nStatus: 4.0.0\n\nFinal-Recipient: rfc822; op@example.org\nAction: FAILED (permanently)\nStatus: 5.0.0", "message/rfc822", returnedHeader),
		"failed", "a@example.org", "5.0.0", ourID},
	{"Sendmail", dsn("From: Mail Delivery Subsystem <MAILER-DAEMON@sm.example.com>\nSubject: Returned mail: see transcript for details\nAuto-Submitted: auto-generated (failure)\n",
		"   ----- The following addresses had permanent fatal errors -----\n<op@example.org>\n    (reason: 550 5.1.1 User unknown)",
		"Reporting-MTA: dns; sm.example.com\nReceived-From-MTA: DNS; localhost\nArrival-Date: Mon, 5 Jan 2026 10:00:00 GMT\n\nFinal-Recipient: RFC822; op@example.org\nAction: failed\nStatus: 5.1.1\nRemote-MTA: DNS; mx.example.org\nDiagnostic-Code: SMTP; 550 5.1.1 User unknown", "text/rfc822-headers", returnedHeader),
		"failed", "op@example.org", "User unknown", ourID},
	{"Gmail", dsn("From: Mail Delivery Subsystem <mailer-daemon@googlemail.com>\nAuto-Submitted: auto-replied\nX-Failed-Recipients: op@example.org\nSubject: Delivery Status Notification (Failure)\nIn-Reply-To: "+ourID+"\nReferences: "+ourID+"\n",
		"** Address not found **", "Reporting-MTA: dns; googlemail.com\nX-Original-Message-ID: "+ourID+"\n\nFinal-Recipient: rfc822; op@example.org\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550-5.1.1 The email account that you tried to reach does not exist.", "message/rfc822", strings.Replace(returnedHeader, "Message-ID:\n", "Message-Id:", 1)),
		"failed", "op@example.org", "does not exist", ourID},
	{"Exchange", "From: postmaster@example.org\nTo: agent@example.com\nContent-Type: multipart/report;\n report-type=\"delivery-status\"; boundary=\"b\"\nX-MS-Exchange-Message-Is-Ndr:\nAuto-Submitted: auto-replied\nIn-Reply-To: " + ourID + "\nSubject: Undeliverable: Re: hello\n\n" +
		"--b\nContent-Type: multipart/alternative; boundary=c\n\n--c\nContent-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\nYour message to op@example.org couldn't be delivered.\n--c\nContent-Type: text/html\n\n<p>Your message</p>\n--c--\n\n" +
		"--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns;EX1.example.org\nReceived-From-MTA: dns;mail.example.com\nArrival-Date: Mon, 5 Jan 2026 10:00:00 +0000\n\nFinal-Recipient: rfc822;op@example.org\nAction: failed\nStatus: 5.1.10\nDiagnostic-Code: smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound; not found\n\n" +
		"--b\nContent-Type: message/rfc822\n\nReceived: from x\n by y; Mon, 5 Jan 2026 10:00:00 +0000\n" + returnedHeader + "\nhello\n--b--\n", "failed", "op@example.org", "RecipientNotFound; not found", ourID},
	{"Exchange, without what came back", dsn("From: postmaster@example.org\nIn-Reply-To: "+ourID+"\nReferences: "+otherID+" "+ourID+"\n", "x", "Reporting-MTA: dns;EX1\n\nFinal-Recipient: rfc822;op@example.org\nAction: failed\nStatus: 5.1.10", "", ""),
		"failed", "op@example.org", "5.1.10", ourID},
	{"an id of the server's own", dsn("From: MAILER-DAEMON@ses.example.com\n", "x", "Reporting-MTA: dns; ses\n\nFinal-Recipient: rfc822; op@example.org\nAction: failed\nStatus: 5.0.0", "message/rfc822",
		"From: x\nMessage-ID: <0100@ses.example.com>\nX-Original-Message-ID: "+ourID+"\n"), "failed", "op@example.org", "5.0.0", ourID},
	{"Exim, a text", "From: Mail Delivery System <Mailer-Daemon@exim.example.com>\nTo: agent@example.com\nX-Failed-Recipients: op@example.org\nAuto-Submitted: auto-replied\nSubject: Mail delivery failed: returning message to sender\n\nThis message was created automatically by mail delivery software.\n\nA message that you sent could not be delivered to one or more of its\nrecipients. This is a permanent error. The following address(es) failed:\n\n  op@example.org\n    host mx.example.org [192.0.2.1]\n    SMTP error from remote mail server after RCPT TO:<op@example.org>:\n    550 5.1.1 no such user\n\n------ This is a copy of the message, including all the headers. ------\n\n" +
		returnedHeader + "\nbody\n", "failed", "op@example.org", "550 5.1.1 no such user", ourID},
	{"Exim, a warning", "From: Mail Delivery System <Mailer-Daemon@exim.example.com>\nTo: agent@example.com\nAuto-Submitted: auto-replied\nSubject: Warning: message 1abc delayed 24 hours\n\nThis message was created automatically by mail delivery software.\nA message that you sent has not yet been delivered to one or more of its\nrecipients after more than 24 hours on the queue on exim.example.com.\n\nThe message identifier is: 1abc\n\n" + returnedHeader,
		"delayed", "op@example.org", "", ourID},
	{"qmail", "From: MAILER-DAEMON@qmail.example.com\nTo: agent@example.com\nSubject: failure notice\n\nHi. This is the qmail-send program at qmail.example.com.\nI'm afraid I wasn't able to deliver your message to the following addresses.\nThis is a permanent error; I've given up. Sorry it didn't work out.\n\n<op@example.org>:\n192.0.2.1 does not like recipient.\nRemote host said: 550 user unknown\nGiving up on 192.0.2.1.\n\n--- Below this line is a copy of the message.\n\n" +
		returnedHeader + "\nhello\n", "failed", "op@example.org", "550 user unknown", ourID},
	{"quoted", "From: MAILER-DAEMON@old.example.com\nTo: agent@example.com\nSubject: failed\n\nCould not deliver.\n\n> " + strings.ReplaceAll(returnedHeader, "\n", "\n> "), "failed", "op@example.org", "failed", ourID},
	{"without a type for machines", "From: MAILER-DAEMON@mx.example.com\nTo: agent@example.com\nSubject: failed\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nno\n--b\nContent-Type: message/rfc822\n\n" + returnedHeader + "--b--\n", "failed", "op@example.org", "failed", ourID},
	{"cut short", dsn("From: MAILER-DAEMON@mx.example.com\n", "x", "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; op@example.org\nAction: failed\nStatus: 5.1.1", "message/rfc822", returnedHeader+"\n"+strings.Repeat("long ", 5000))[:1500],
		"failed", "op@example.org", "5.1.1", ourID},
	{"base64", "From: MAILER-DAEMON@mx.example.com\nTo: agent@example.com\nContent-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/delivery-status\nContent-Transfer-Encoding: base64\n\nUmVwb3J0aW5nLU1UQTogZG5zOyBteAoKRmluYWwtUmVjaXBpZW50OiByZmM4MjI7IG9wQGV4YW1wbGUub3JnCkFjdGlvbjogZmFpbGVkClN0YXR1czogNS4xLjEK\n--b\nContent-Type: text/rfc822-headers\n\n" + returnedHeader + "--b--\n",
		"failed", "op@example.org", "5.1.1", ourID},
	{"vacation", "From: op@example.org\nReturn-Path: <>\nTo: agent@example.com\nAuto-Submitted: auto-replied\nSubject: Out of office\nIn-Reply-To: " + ourID + "\n\nI am away.\n", "", "", "", ""},
	{"vacation with a copy", "From: op@example.org\nReturn-Path: <>\nTo: agent@example.com\nSubject: Away\n\nI am away.\n\n" + returnedHeader, "", "", "", ourID},
	{"of another mail", dsn("From: MAILER-DAEMON@mx.example.com\n", "x", "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; x@example.net\nAction: failed\nStatus: 5.1.1", "message/rfc822", "From: op@example.org\nTo: x@example.net\nReferences: "+ourID+"\nMessage-ID: <x@example.org>\n"),
		"failed", "x@example.net", "5.1.1", "<x@example.org>"},
}

// TestReadReport reads the reports of each server.
func TestReadReport(t *testing.T) {
	for _, tt := range reportCases {
		for _, lineEnd := range []string{"\n", "\r\n"} {
			t.Run(fmt.Sprintf("%s %q", tt.name, lineEnd), func(t *testing.T) {
				raw := []byte(strings.ReplaceAll(tt.raw, "\n", lineEnd))
				r := ReadReport(raw)
				got := ""
				switch {
				case r.Failed && r.Delayed:
					got = "both"
				case r.Failed:
					got = "failed"
				case r.Delayed:
					got = "delayed"
				}
				if got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
				if tt.id == "" && len(r.IDs) > 0 || tt.id != "" && !slices.Contains(r.IDs, tt.id) || slices.Contains(r.IDs, otherID) {
					t.Errorf("ids %q", r.IDs)
				}
				if tt.want == "" {
					return
				}
				if len(r.Recipients) == 0 || r.Recipients[0] != tt.to || !strings.Contains(r.Reason, tt.reason) || strings.ContainsAny(r.Reason, "\r\n") {
					t.Errorf("%q: %q", r.Recipients, r.Reason)
				}
				if !LooksLikeReport(Fields(raw)) {
					t.Error("its header does not look like that of a report")
				}
			})
		}
	}
}

// TestReportChoices checks which value counts if the parts of a report disagree.
func TestReportChoices(t *testing.T) {
	const inText = "Message-ID: <text@b>\nTo: text@b"
	for _, tt := range []struct {
		name, raw string
		want      Report
	}{
		{"the first id of In-Reply-To", dsn("References: <3@b>\nIn-Reply-To: <1@b> <2@b>\n", "", "Action: failed", "", ""), Report{IDs: []string{"<1@b>"}, Failed: true}},
		{"the last id of References", dsn("References: <1@b> <2@b>\n", "", "Action: failed", "", ""), Report{IDs: []string{"<2@b>"}, Failed: true}},
		{"the mail that came back before what the report answers and its text", dsn("In-Reply-To: <1@b>\n", inText, "Action: failed", "message/rfc822", "Message-ID: <2@b>"), Report{IDs: []string{"<2@b>"}, Failed: true}},
		{"the text before what the report answers", dsn("In-Reply-To: <1@b>\n", inText, "Action: failed", "", ""), Report{IDs: []string{"<text@b>"}, Failed: true, Recipients: []string{"text@b"}}},
		{"no id that a text answers", "In-Reply-To: <1@b>\nSubject: undeliverable\n\nx\n", Report{Failed: true, Reason: "undeliverable"}},
		{"recipients", dsn("X-Failed-Recipients: 1@b\n", "", "Final-Recipient: rfc822; 3@b\nOriginal-Recipient: rfc822; 2@b\nFinal-Recipient: rfc822; 4@b\nAction: failed\n\nFinal-Recipient: rfc822; 5@b\nAction: failed", "message/rfc822", "To: 6@b"),
			Report{Failed: true, Recipients: []string{"1@b", "2@b", "3@b", "4@b", "5@b", "6@b"}}},
		{"delayed by its status", dsn("", "", "Status: 4.0.0", "", ""), Report{Delayed: true, Reason: "4.0.0"}},
		{"failed by its status", dsn("", "", "Status: 5.0.0", "", ""), Report{Failed: true, Reason: "5.0.0"}},
		{"an action before a status that failed", dsn("", "", "Action: delayed\nStatus: 5.0.0", "", ""), Report{Delayed: true, Reason: "5.0.0"}},
		{"an action before a status that is delayed", dsn("", "", "Action: expanded\nStatus: 4.0.0", "", ""), Report{}},
		{"two actions, of which the last counts", dsn("", "", "Action: delayed\nAction: failed", "", ""), Report{Failed: true}},
		{"a failure before a delay", dsn("", "", "Final-Recipient: rfc822; 1@b\nStatus: 5.0.1\n\nFinal-Recipient: rfc822; 2@b\nStatus: 4.0.2", "", ""), Report{Failed: true, Recipients: []string{"1@b"}, Reason: "5.0.1"}},
		{"a failure behind a delay", dsn("", "", "Status: 4.0.1\n\nStatus: 5.0.2\n\nStatus: 5.0.3", "", ""), Report{Failed: true, Reason: "5.0.2"}},
		{"the reason of the fields", dsn("Subject: one\n", "550 two", "Action: failed\nDiagnostic-Code: smtp; three\nStatus: 5.0.0", "", ""), Report{Failed: true, Reason: "5.0.0 three"}},
		{"the reason in the text", dsn("Subject: one\n", "550 two\n550 three", "Action: failed", "", ""), Report{Failed: true, Reason: "550 two"}},
		{"the last subject", dsn("Subject: one\nSubject: two\n", "", "Action: failed", "", ""), Report{Failed: true, Reason: "two"}},
		{"fields before words", dsn("", "could not be delivered, will be retried", "Action: expanded", "", ""), Report{}},
		{"words of a delay before those of a failure", "From: mailer-daemon@b\nSubject: undelivered\n\nIt will be retried.\n", Report{Delayed: true, Reason: "undelivered"}},
		{"a field before words of a delay", "X-Failed-Recipients: 1@b\nSubject: delayed\n\nIt will be retried.\n", Report{Failed: true, Recipients: []string{"1@b"}, Reason: "delayed"}},
	} {
		if got := ReadReport([]byte(tt.raw)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestLooksLikeReport checks which headers cause the body to be fetched.
func TestLooksLikeReport(t *testing.T) {
	for header, want := range map[string]bool{
		"From: op@example.com\nTo: agent@example.com\n":                                                                       false,
		"From: op@example.com\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b\n":            false,
		"From: mailer-daemon@example.com\nContent-Type: multipart/report; report-type=Disposition-Notification; boundary=b\n": false,
		"From: abuse@example.com\nContent-Type: multipart/report; report-type=feedback-report; boundary=b\n":                  false,
		"From: x@example.com\nContent-Type: multipart/report; boundary=b\n":                                                   true,
		"From: x@example.com\nContent-Type: MULTIPART/Report; Report-Type=\"Delivery-Status\"; boundary=b\n":                  true,
		"From: <>\n":                             false,
		"From: x@example.com\nReturn-Path: <>\n": true,
		"From: x@example.com\nReturn-Path: (a bounce) < (empty) >\n": true,
		"From: x@example.com\nReturn-Path: <a@example.com>\n":        false,
		"From: MAILER-DAEMON (Mail Delivery System)\n":               true,
		"From: \"Mail Delivery Subsystem\" <x@example.com>\n":        true,
		"From: postmasters@example.com\n":                            false,
		"X-Failed-Recipients: op@example.com\n":                      true,
	} {
		if got := LooksLikeReport(Fields([]byte(header))); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}

func FuzzReadReport(f *testing.F) {
	for _, tt := range reportCases {
		f.Add([]byte(tt.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := ReadReport(raw)
		if r.Failed && r.Delayed {
			t.Error("failed and delayed")
		}
		if len(r.IDs) > 2*maxReportIDs || len(r.Recipients) > maxRecipients || len([]rune(r.Reason)) > maxReasonLine+1 || strings.ContainsAny(r.Reason, "\r\n") {
			t.Errorf("%d ids, %d recipients, %q", len(r.IDs), len(r.Recipients), r.Reason)
		}
		for _, id := range r.IDs {
			if !validMessageID(id) {
				t.Errorf("id %q", id)
			}
		}
	})
}
