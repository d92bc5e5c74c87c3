package message_test

import (
	"bytes"
	"mime/quotedprintable"
	"strings"
	"testing"

	"agentstateloop/mail/markdown"
	"agentstateloop/mail/message"
)

const ourReport = "# Report\n\nAll is **well**.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n\n```\nFrom: x\nSent: y\n```\n"

// htmlReply returns an HTML mail that answers ours.
func htmlReply(t *testing.T, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("From: operator@example.com\r\nMIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n" +
		"In-Reply-To: " + agentIDs.Make("reply.t1", "x") + "\r\nSubject: Re: x\r\n\r\n")
	qp := quotedprintable.NewWriter(&b)
	qp.Write([]byte(body))
	qp.Close()
	return b.Bytes()
}

// TestRepliesToHTML checks that only the operator's text remains of an answer to our HTML, in the
// quotation style of each program. The header has the id that the answer refers to.
func TestRepliesToHTML(t *testing.T) {
	page, ok := markdown.HTML(ourReport)
	if !ok {
		t.Fatal("no HTML")
	}
	sent := message.Sent{Texts: []string{ourReport}, Names: []string{"artificer3120@example.org", "goulard3120"}}
	_, inner, _ := strings.Cut(page, "<body")
	_, inner, _ = strings.Cut(inner, ">")
	inner, _, _ = strings.Cut(inner, "</body>")
	for name, body := range map[string]string{
		"Gmail": `<div dir="ltr">Thanks, go on.</div><br><div class="gmail_quote gmail_quote_container"><div dir="ltr" class="gmail_attr">On Mon, Jan 5, 2026 at 1:00 PM goulard3120 &lt;<a href="mailto:artificer3120@example.org">artificer3120@example.org</a>&gt; wrote:<br></div>` +
			`<blockquote class="gmail_quote" style="margin:0px 0px 0px 0.8ex;border-left:1px solid rgb(204,204,204);padding-left:1ex"><u></u>` + inner + `</blockquote></div>`,
		"Apple Mail": `<html><head><meta http-equiv="content-type" content="text/html; charset=utf-8"></head><body dir="auto">Thanks, go on.<div><br id="lineBreakAtBeginningOfSignature"><div dir="ltr">Sent from my iPhone</div><div dir="ltr"><br>` +
			`<blockquote type="cite">On Jan 5, 2026, at 13:00, goulard3120 &lt;artificer3120@example.org&gt; wrote:<br><br></blockquote></div><blockquote type="cite"><div dir="ltr">` + inner + `</div></blockquote></div></body></html>`,
		"Outlook on a phone": `<html><body><div dir="auto" style="font-family: Aptos;">Thanks, go on.</div><div id="ms-outlook-mobile-signature"><div><br></div>Get <a href="https://aka.ms/o0ukef">Outlook for iOS</a></div>` +
			`<hr style="display:inline-block;width:98%" tabindex="-1"><div id="divRplyFwdMsg" dir="ltr"><font face="Calibri, sans-serif"><b>From:</b> goulard3120 &lt;artificer3120@example.org&gt;<br><b>Sent:</b> Monday, January 5, 2026 1:00:00 PM<br><b>To:</b> operator@example.com &lt;operator@example.com&gt;<br><b>Subject:</b> Re: @goulard3120 status</font><div>&nbsp;</div></div>` + inner + `</body></html>`,
		"Outlook": `<html xmlns:o="urn:schemas-microsoft-com:office:office"><head><style>p.MsoNormal{margin:0}</style></head><body lang="EN-US"><div class="WordSection1"><p class="MsoNormal">Thanks, go on.<o:p></o:p></p><p class="MsoNormal"><o:p>&nbsp;</o:p></p>` +
			`<div><div style="border:none;border-top:solid #E1E1E1 1.0pt;padding:3.0pt 0in 0in 0in"><p class="MsoNormal"><b>From:</b> goulard3120 &lt;artificer3120@example.org&gt; <br><b>Sent:</b> Monday, January 5, 2026 1:00 PM<br><b>To:</b> operator@example.com<br><b>Subject:</b> Re: @goulard3120 status<o:p></o:p></p></div></div>` + inner + `</div></body></html>`,
		"Thunderbird": `<html><head><meta charset="UTF-8"></head><body><p>Thanks, go on.</p><div class="moz-cite-prefix">On 1/5/26 13:00, goulard3120 wrote:<br></div><blockquote type="cite" cite="mid:reply.t1@example.org">` + inner + `</blockquote></body></html>`,
		"Yahoo":       `<html><head></head><body><div class="ydp1yahoo-style-wrap"><div dir="ltr">Thanks, go on.</div><div><br></div></div><div id="ydp2yahoo_quoted_1" class="yahoo_quoted"><div><div>On Monday, January 5, 2026 at 01:00:00 PM GMT+1, goulard3120 &lt;artificer3120@example.org&gt; wrote: </div><div><br></div><div><br></div><div><div id="ydp3">` + inner + `</div></div></div></div></body></html>`,
	} {
		c := message.ReadContent(bytes.NewReader(htmlReply(t, body)), sent)
		if strings.TrimSpace(c.Text) != "Thanks, go on." {
			t.Errorf("%s, HTML alone: %q", name, c.Text)
		}
		h := message.ParseHeader(htmlReply(t, body))
		if !agentIDs.Ours(h.InReplyTo) {
			t.Errorf("%s: it answers %q", name, h.InReplyTo)
		}
	}
	// The text parts of the programs: our text, or our HTML converted to text.
	quoted := "> Report\n>\n> All is *well*.\n>\n> a b\n> 1 2\n>\n> > quoted\n>\n> From: x\n> Sent: y\n"
	bare := "Report\n\nAll is well.\na\tb\n1\t2\n\nquoted\n\nFrom: x\nSent: y\n"
	for name, text := range map[string]string{
		"Gmail":              "Thanks, go on.\n\nOn Mon, Jan 5, 2026 at 1:00 PM goulard3120 <artificer3120@example.org>\nwrote:\n\n" + quoted,
		"Apple Mail":         "Thanks, go on.\n\nSent from my iPhone\n\n> On Jan 5, 2026, at 13:00, goulard3120 <artificer3120@example.org> wrote:\n> \n> \ufeff\n" + quoted,
		"Outlook on a phone": "Thanks, go on.\n\nGet Outlook for iOS<https://aka.ms/o0ukef>\n________________________________\nFrom: goulard3120 <artificer3120@example.org>\nSent: Monday, January 5, 2026 1:00:00 PM\nTo: operator@example.com <operator@example.com>\nSubject: Re: @goulard3120 status\n\n" + bare,
		"Outlook":            "Thanks, go on.\n\nFrom: goulard3120 <artificer3120@example.org>\nSent: Monday, January 5, 2026 1:00 PM\nTo: operator@example.com\nSubject: Re: @goulard3120 status\n\n" + bare,
		"Yahoo":              "Thanks, go on.\n\nOn Monday, January 5, 2026 at 01:00:00 PM GMT+1, goulard3120 <artificer3120@example.org> wrote:\n\n" + bare,
	} {
		raw := "In-Reply-To: <x@example.org>\nContent-Type: text/plain; charset=utf-8\n\n" + text
		if got := message.ContentOf([]byte(raw), sent).Text; got != "Thanks, go on." {
			t.Errorf("%s, text: %q", name, got)
		}
	}
}
