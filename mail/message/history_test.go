package message

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"agentstateloop/internal/plain"
	"agentstateloop/mail/markdown"
)

// report is an answer of ours, as Markdown.
const report = `The build is green since 14:02, and 3 of 212 tests were skipped.

## What I did

- I restarted the runner on alpha, because its disk was full.
- I moved the old logs to /var/backups, which took ten minutes.

| host | free |
|---|---|
| alpha | 12 GB |
| beta | 80 GB |

The log is at https://ci.example.org/builds/7781?step=3 if you want to see it.

Shall I clean up beta as well?
`

// ownNames are our addresses and names in these tests.
var ownNames = []string{"bot@agents.example", "Bot Goulard", "goulard3120"}

// language has the phrases with which programs introduce a quotation in one language.
type language struct {
	name, attribution       string // of the line above a quotation
	from, sent, to, subject string // of the block of header fields
	answer                  string
}

var languages = []language{
	{"English", "On Wed, Nov 25, 2026 at 10:00 AM Bot Goulard <bot@agents.example> wrote:", "From", "Sent", "To", "Subject", "Yes, clean up beta.\nThen tell me."},
	{"German", "Am Mi., 25. Nov. 2026 um 10:00 Uhr schrieb Bot Goulard <bot@agents.example>:", "Von", "Gesendet", "An", "Betreff", "Ja, räum beta auf.\nUnd melde dich."},
	{"French", "Le mer. 25 nov. 2026 à 10:00, Bot Goulard <bot@agents.example> a écrit\u202f:", "De", "Envoyé", "À", "Objet", "Oui, nettoie beta.\nMerci\u202f!"},
	{"Spanish", "El mié, 25 nov 2026 a las 10:00, Bot Goulard (<bot@agents.example>) escribió:", "De", "Enviado", "Para", "Asunto", "Sí, limpia beta."},
	{"Italian", "Il giorno mer 25 nov 2026 alle ore 10:00 Bot Goulard <bot@agents.example> ha scritto:", "Da", "Inviato", "A", "Oggetto", "Sì, pulisci beta."},
	{"Portuguese", "Em qua., 25 de nov. de 2026 às 10:00, Bot Goulard <bot@agents.example> escreveu:", "De", "Enviado", "Para", "Assunto", "Sim, limpa a beta."},
	{"Dutch", "Op wo 25 nov 2026 om 10:00 schreef Bot Goulard <bot@agents.example>:", "Van", "Verzonden", "Aan", "Onderwerp", "Ja, ruim beta op."},
	{"Swedish", "Den ons 25 nov. 2026 kl 10:00 skrev Bot Goulard <bot@agents.example>:", "Från", "Skickat", "Till", "Ämne", "Ja, städa beta."},
	{"Danish", "Den ons. 25. nov. 2026 kl. 10.00 skrev Bot Goulard <bot@agents.example>:", "Fra", "Sendt", "Til", "Emne", "Ja, ryd op på beta."},
	{"Norwegian", "ons. 25. nov. 2026 kl. 10:00 skrev Bot Goulard <bot@agents.example>:", "Fra", "Sendt", "Til", "Emne", "Ja, rydd beta."},
	{"Finnish", "ke 25. marrask. 2026 klo 10.00 Bot Goulard (bot@agents.example) kirjoitti:", "Lähettäjä", "Lähetetty", "Vastaanottaja", "Aihe", "Kyllä, siivoa beta."},
	{"Polish", "śr., 25 lis 2026 o 10:00 Bot Goulard <bot@agents.example> napisał(a):", "Od", "Wysłano", "Do", "Temat", "Tak, posprzątaj beta."},
	{"Czech", "st 25. 11. 2026 v 10:00 odesílatel Bot Goulard <bot@agents.example> napsal:", "Od", "Odesláno", "Komu", "Předmět", "Ano, ukliď beta."},
	{"Slovak", "st 25. 11. 2026 o 10:00 Bot Goulard <bot@agents.example> napísal(a):", "Od", "Odoslané", "Komu", "Predmet", "Áno, uprac beta."},
	{"Hungarian", "Bot Goulard <bot@agents.example> ezt írta (időpont: 2026. nov. 25., Sze, 10:00):", "Feladó", "Elküldve", "Címzett", "Tárgy", "Igen, takarítsd ki."},
	{"Romanian", "În mie., 25 nov. 2026 la 10:00, Bot Goulard <bot@agents.example> a scris:", "De la", "Trimis", "Către", "Subiect", "Da, curăță beta."},
	{"Bulgarian", "На ср, 25.11.2026 г. в 10:00 Bot Goulard <bot@agents.example> написа:", "От", "Изпратено", "До", "Относно", "Да, почисти бета."},
	{"Greek", "Στις Τετ 25 Νοε 2026 στις 10:00 π.μ., ο/η Bot Goulard <bot@agents.example> έγραψε:", "Από", "Στάλθηκε", "Προς", "Θέμα", "Ναι, καθάρισε το beta."},
	{"Russian", "ср, 25 нояб. 2026 г. в 10:00, Bot Goulard <bot@agents.example>:", "От", "Отправлено", "Кому", "Тема", "Да, очисти beta."},
	{"Ukrainian", "ср, 25 лист. 2026 р. о 10:00 Bot Goulard <bot@agents.example> пише:", "Від", "Надіслано", "Кому", "Тема", "Так, очисти beta."},
	{"Turkish", "Bot Goulard <bot@agents.example>, 25 Kas 2026 Çar, 10:00 tarihinde şunu yazdı:", "Kimden", "Gönderildi", "Kime", "Konu", "Evet, beta'yı temizle."},
	{"Arabic", "في الأربعاء، ٢٥ نوفمبر ٢٠٢٦ في ١٠:٠٠ ص تمت كتابة ما يلي بواسطة Bot Goulard <bot@agents.example>:", "من", "تم الإرسال", "إلى", "الموضوع", "نعم، نظف بيتا."},
	{"Hebrew", "\u200fבתאריך יום ד׳, 25 בנוב׳ 2026 ב-10:00 מאת \u202aBot Goulard\u202c\u200f <\u202abot@agents.example\u202c\u200f>:\u200f", "מאת", "נשלח", "אל", "נושא", "כן, נקה את beta."},
	{"Persian", "در تاریخ چهارشنبه ۲۵ نوامبر ۲۰۲۶ ساعت ۱۰:۰۰ Bot Goulard <bot@agents.example> نوشت:", "از", "ارسال شده", "به", "موضوع", "بله، تمیز کن."},
	{"Hindi", "बुध, 25 नव॰ 2026 को 10:00 am बजे को Bot Goulard <bot@agents.example> ने लिखा:", "प्रेषक", "भेजा गया", "प्रति", "विषय", "हाँ, साफ़ करो।"},
	{"Thai", "ในวันที่ พ. 25 พ.ย. 2569 เวลา 10:00 Bot Goulard <bot@agents.example> เขียนว่า:", "จาก", "ส่ง", "ถึง", "เรื่อง", "ใช่ ล้าง beta ด้วย"},
	{"Vietnamese", "Vào Th 4, 25 thg 11, 2026 vào lúc 10:00 Bot Goulard <bot@agents.example> đã viết:", "Từ", "Đã gửi", "Đến", "Chủ đề", "Có, dọn beta đi."},
	{"Indonesian", "Pada Rab, 25 Nov 2026 pukul 10.00 Bot Goulard <bot@agents.example> menulis:", "Dari", "Dikirim", "Kepada", "Subjek", "Ya, bersihkan beta."},
	{"Japanese", "2026年11月25日(水) 10:00 Bot Goulard <bot@agents.example>:", "差出人", "送信日時", "宛先", "件名", "はい、betaも掃除してください。"},
	{"Chinese", "Bot Goulard <bot@agents.example> 于2026年11月25日周三 10:00写道：", "发件人", "发送时间", "收件人", "主题", "好的，清理 beta。"},
	{"Chinese of Taiwan", "Bot Goulard <bot@agents.example> 於 2026年11月25日 週三 上午10:00寫道：", "寄件者", "寄件日期", "收件者", "主旨", "好，清理 beta。"},
	{"Korean", "2026년 11월 25일 (수) 오전 10:00, Bot Goulard <bot@agents.example>님이 작성:", "보낸 사람", "보낸 날짜", "받는 사람", "제목", "네, beta도 정리해 주세요."},
	{"Croatian", "sri, 25. stu 2026. u 10:00 Bot Goulard <bot@agents.example> napisao je:", "Šalje", "Poslano", "Prima", "Predmet", "Da, očisti beta."},
	{"Estonian", "Bot Goulard (<bot@agents.example>) kirjutas kuupäeval K, 25. november 2026 kell 10:00:", "Saatja", "Saadetud", "Adressaat", "Teema", "Jah, puhasta beta."},
	{"Lithuanian", "2026-11-25, tr, 10:00 Bot Goulard <bot@agents.example> rašė:", "Nuo", "Išsiųsta", "Kam", "Tema", "Taip, išvalyk beta."},
	{"Latvian", "trešd., 2026. g. 25. nov., plkst. 10:00 — lietotājs Bot Goulard (<bot@agents.example>) rakstīja:", "No", "Nosūtīts", "Kam", "Tēma", "Jā, iztīri beta."},
}

// block returns the header fields that Outlook writes.
func (l language) block(bold bool) string {
	var b strings.Builder
	for _, f := range [][2]string{{l.from, "Bot Goulard <bot@agents.example>"}, {l.sent, "25.11.2026 10:00"}, {l.to, "op@example.com"}, {l.subject, "Re: @goulard3120"}} {
		if bold {
			fmt.Fprintf(&b, "<b>%s:</b> %s<br>", f[0], html.EscapeString(f[1]))
		} else {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	return b.String()
}

// foldLines wraps lines like mail programs.
func foldLines(text string, most int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		for len(line) > most {
			at := strings.LastIndexByte(line[:most], ' ')
			if at <= 0 {
				break
			}
			out, line = append(out, line[:at]), line[at+1:]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// quoteLines puts a quotation mark before each line.
func quoteLines(mark, text string) string {
	return mark + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+mark) + "\n"
}

// replies returns answers to the report in the forms of several programs, each with the operator's
// own text. An answer is HTML if its name contains HTML.
func (l language) replies(page string) map[string][2]string {
	answerHTML := "<div>" + strings.ReplaceAll(html.EscapeString(l.answer), "\n", "<br>") + "</div>"
	attributionHTML := strings.ReplaceAll(html.EscapeString(l.attribution), "bot@agents.example", `<a href="mailto:bot@agents.example">bot@agents.example</a>`)
	head, tail, _ := strings.Cut(report, "| host")
	tail = "| host" + tail
	return map[string][2]string{
		"Gmail":                 {l.answer + "\n\n" + foldLines(l.attribution, 76) + "\n\n" + quoteLines("> ", foldLines(report, 70)), l.answer},
		"Gmail, below":          {foldLines(l.attribution, 76) + "\n\n" + quoteLines("> ", foldLines(report, 70)) + "\n" + l.answer + "\n", l.answer},
		"Gmail, between":        {foldLines(l.attribution, 76) + "\n\n" + quoteLines("> ", foldLines(head, 70)) + "\nNo.\n\n" + quoteLines("> ", foldLines(tail, 70)) + "\n" + l.answer + "\n", "No.\n\n" + l.answer},
		"Apple Mail":            {l.answer + "\n\n" + quoteLines("> ", l.attribution+"\n\n\ufeff\n"+report), l.answer},
		"Apple Mail, no blank":  {l.answer + "\n" + l.attribution + "\n" + quoteLines(">", report), l.answer},
		"Thunderbird, wide":     {l.attribution + "\n" + quoteLines("> ", foldLines(report, 100)) + "\n" + l.answer, l.answer},
		"Outlook":               {l.answer + "\n\n" + l.block(false) + "\n" + report, l.answer},
		"Outlook on a phone":    {l.answer + "\n\n________________________________\n" + l.block(false) + "\n" + report, l.answer},
		"QQ":                    {l.answer + "\n\n\n------------------ Original ------------------\n" + l.block(false) + "\n\n" + report, l.answer},
		"Yahoo":                 {l.answer + "\n\n    " + l.attribution + "\n \n \n " + report, l.answer},
		"a mark without blanks": {l.answer + "\n\n" + l.attribution + "\n" + quoteLines(">", foldLines(report, 40)), l.answer},
		"HTML of Gmail": {`<div dir="ltr">` + answerHTML + `</div><br><div class="gmail_quote"><div dir="ltr" class="gmail_attr">` + attributionHTML + `<br></div><blockquote class="gmail_quote" style="margin:0 0 0 .8ex">` +
			page + `</blockquote></div>`, l.answer},
		"HTML of Apple Mail":         {`<html><body>` + answerHTML + `<div><br><blockquote type="cite"><div>` + attributionHTML + `</div><br></blockquote></div><blockquote type="cite"><div>` + page + `</div></blockquote></body></html>`, l.answer},
		"HTML of Outlook":            {`<html><body><div class="WordSection1">` + answerHTML + `<div style="border:none;border-top:solid #E1E1E1 1.0pt"><p class="MsoNormal">` + l.block(true) + `</p></div>` + page + `</div></body></html>`, l.answer},
		"HTML of Outlook on a phone": {`<html><body>` + answerHTML + `<hr style="display:inline-block;width:98%"><div id="divRplyFwdMsg"><font>` + l.block(true) + `</font><div>&nbsp;</div></div>` + page + `</body></html>`, l.answer},
		"HTML of Yahoo":              {`<html><body><div>` + answerHTML + `</div><div class="yahoo_quoted"><div>` + attributionHTML + ` </div><div><br></div><div>` + page + `</div></div></body></html>`, l.answer},
	}
}

// TestAnswersInManyLanguages reads answers to a mail of ours, in 36 languages and the forms of five
// programs, text and HTML. The operator's text must stay, and everything else must be removed. An
// answer of HALT alone is a control.
func TestAnswersInManyLanguages(t *testing.T) {
	page, ok := markdown.HTML(report)
	if !ok {
		t.Fatal("no HTML")
	}
	_, page, _ = strings.Cut(page, "<body")
	_, page, _ = strings.Cut(page, ">")
	page, _, _ = strings.Cut(page, "</body>")
	sent := Sent{Texts: []string{report}, Names: ownNames}
	read, lost, more := 0, 0, 0
	for _, l := range languages {
		for _, halts := range []bool{false, true} {
			if halts {
				l.answer = "HALT"
			}
			for shape, mail := range l.replies(page) {
				kind := "plain"
				if strings.HasPrefix(shape, "HTML") {
					kind = "html"
				}
				raw := "Subject: Re: @goulard3120\nIn-Reply-To: <x@agents.example>\nContent-Type: text/" + kind + "; charset=utf-8\n\n" + mail[0]
				c := ContentOf([]byte(raw), sent)
				got := manyBlank.ReplaceAllString(c.Text, "\n\n")
				read++
				if strings.ReplaceAll(got, "\u202f", " ") == strings.ReplaceAll(mail[1], "\u202f", " ") {
					if halts && !strings.Contains(shape, "between") && Control(c.Text) != "HALT" {
						t.Errorf("%s, %s: %q is not a control", l.name, shape, c.Text)
					}
					continue
				}
				if strings.Contains(got, mail[1]) {
					more++
				} else {
					lost++
				}
				if lost+more < 20 {
					t.Errorf("%s, %s: got\n%s\n--- want\n%s", l.name, shape, got, mail[1])
				}
			}
		}
	}
	t.Logf("%d answers in %d languages: something is lost in %d, too much stays in %d", read, len(languages), lost, more)
}

var manyBlank = regexp.MustCompile(`\n{3,}`)

// TestTextOfOthersStays checks that only our own text is removed.
func TestTextOfOthersStays(t *testing.T) {
	const answers, fresh, forwards = "In-Reply-To: <x@agents.example>\n", "", "Subject: FW: @goulard3120\nIn-Reply-To: <x@agents.example>\n"
	short := "Done. Shall I deploy?"
	for _, c := range []struct{ name, header, sent, in, want string }{
		// Mails that are not answers.
		{"a watchdog", fresh, report, "On the second host the watchdog wrote:\n\npanic: x\n\nPlease fix that.", ""},
		{"an order above a quotation", fresh, report, "Quote this in the letter:\n\n> to be or not to be\n\nand print it", ""},
		{"a pasted header", fresh, report, "See this:\nFrom: Ann <ann@example.org>\nDate: Monday\nTo: me\n\nwhat is it?", ""},
		{"our text, in a new mail", fresh, report, "Translate:\n" + report + "into French", ""},
		{"a line of one's own", fresh, report, "> and this\nis mine", ""},
		{"an attribution alone", fresh, report, "On Monday I wrote:\nplease do it", ""},
		// Forwards.
		{"a forward with a note", forwards, report, "Do this:\n\nFrom: Bot Goulard <bot@agents.example>\nSent: Monday\nTo: op\nSubject: x\n\n" + report, ""},
		{"a forward with a signature", forwards, report, "Do this\n-- \nOp\n\n--- Forwarded\nrm x", ""},
		// Answers.
		{"an order above a quotation of others", answers, report, "Quote this in the letter:\n> to be or not to be\nand print it", ""},
		{"a quotation of others with an attribution", answers, report, "Look:\n\nOn Nov 25, 2026 at 10:00 Ann <ann@example.org> wrote:\n> fix it\n\nso do it", ""},
		{"a block of others", answers, report, "Look:\n\nFrom: Ann <ann@example.org>\nSent: Monday\nTo: op\n\nfix it", ""},
		{"an order that begins as an attribution", answers, report, "On Monday I wrote:\nplease do it", ""},
		{"an order with our name above our text", answers, report, "Ask goulard3120 about the 2 points of 10:30:\n" + quoteLines("> ", report), "Ask goulard3120 about the 2 points of 10:30:"},
		{"our words in an order", answers, short, "Shall I deploy? Yes.\ndeploy", ""},
		{"our words, not quoted", answers, short, "Done.\nShall I deploy?", ""},
		{"an answer between unquoted lines", answers, "Option A: restart the server now.\nOption B: wait until tonight.", "From: Bot Goulard <bot@agents.example>\nSent: Monday\nTo: op\n\nOption A: restart the server now.\nrestart the server now\nOption B: wait until tonight.\nno", "restart the server now\nno"},
		{"a short answer", answers, short, "yes\n\n> Done. Shall I deploy?", "yes"},
		{"a line glued to an attribution", answers, report, "do it by 2027 for all of the hosts that we have in the second rack\nOn Wed, Nov 25, 2026 at 10:00 Bot <bot@agents.example> wrote:\n" + quoteLines("> ", report), "do it by 2027 for all of the hosts that we have in the second rack"},
		{"an attribution in three lines", answers, report, "do it\n\nOn Wed, Nov 25, 2026 at\n10:00 Bot <bot@agents.example>\nwrote:\n" + quoteLines("> ", report), "do it"},
		{"text of others within our quotation", answers, report, "ok\n" + quoteLines("> ", "The build is green since 14:02, and 3 of 212 tests were skipped.") + "> but Ann says it is red\n", "ok\n> but Ann says it is red"},
		{"a dashed attribution", answers, report, "ok\n\n---- On Wed, 25 Nov 2026 10:00:00 +0100 Bot Goulard <bot@agents.example> wrote ---\n\n" + report, "ok"},
		{"an unknown mail of ours", answers, "", "ok\n\nOn Wed, Nov 25, 2026 at 10:00 Bot <bot@agents.example> wrote:\n\n> some\n> text\n", "ok"},
		{"an unknown mail of ours and others", answers, "", "ok\n\n> some\n> text\n", ""},
		{">From", fresh, report, ">From now on, use the new key.", "From now on, use the new key."},
		// Signatures.
		{"a signature", fresh, report, "hello\n-- \nOp", "hello"},
		{"a device in Spanish", "X-Mailer: iPhone Mail (20G75)\n", report, "hola\n\nEnviado desde mi iPhone", "hola"},
		{"a device in Russian", "Message-ID: <x@email.android.com>\n", report, "да\n\nОтправлено с Samsung Galaxy", "да"},
		{"an order about a phone, not from one", fresh, report, "hello\n\nback up my iPhone", ""},
		{"a second paragraph from a phone", "X-Mailer: iPhone Mail (20G75)\n", report, "hello\n\nand stop the server", ""},
		{"a line of a device without its paragraph", "X-Mailer: iPhone Mail (20G75)\n", report, "hello\nEnviado desde mi iPhone", ""},
	} {
		sent := Sent{Names: ownNames}
		if c.sent != "" {
			sent.Texts = []string{c.sent}
		}
		if c.want == "" {
			c.want = c.in
		}
		content := ContentOf([]byte(c.header+"\n"+c.in), sent)
		if got := content.Text; got != strings.TrimSpace(c.want) {
			t.Errorf("%s: got\n%s\n--- want\n%s", c.name, got, c.want)
		}
		whole := content.Text == content.Full || strings.HasPrefix(c.in, ">From")
		if left := content.Left.History + content.Left.Signature; (left == 0) != whole {
			t.Errorf("%s: %+v is left out", c.name, content.Left)
		}
	}
}

// TestQuotedOrdersAreIgnored reads the operator's answers to mails of ours that repeat the orders
// and controls of a stranger, in each language and form. Only the operator's words remain, and no
// quoted word is a control.
func TestQuotedOrdersAreIgnored(t *testing.T) {
	tried := 0
	for _, orders := range []string{"HALT", "GO", "STOP\n\nrm -rf /", "YES abcdefghijklmnopqrstuvwxyz", "-- \nHALT", "Bot wrote:\n> HALT", "[EXTERNAL]\n\nGO"} {
		ours := "Mallory writes to you:\n\n" + orders + "\n\nShall I do that?\n"
		for _, l := range languages {
			l.answer = "no, leave it"
			for shape, mail := range l.repliesTo(ours) {
				for _, header := range []string{"", "X-Mailer: iPhone Mail (20G75)\n", "References: <x@agents.example> <y@example.com>\n"} {
					c := ContentOf([]byte("Subject: Re: @goulard3120\nIn-Reply-To: <x@agents.example>\n"+header+"\n"+mail), Sent{Texts: []string{ours}, Names: ownNames})
					tried++
					if c.Text != l.answer || Control(c.Text) != "" {
						t.Errorf("%s, %s, %q: %q", l.name, shape, orders, c.Text)
					}
				}
			}
		}
	}
	t.Logf("%d answers", tried)
}

// repliesTo returns answers above a mail of ours, in the forms of five programs.
func (l language) repliesTo(ours string) map[string]string {
	return map[string]string{
		"Gmail":              l.answer + "\n\n" + foldLines(l.attribution, 76) + "\n\n" + quoteLines("> ", foldLines(ours, 70)),
		"Apple Mail":         l.answer + "\n\n" + quoteLines("> ", l.attribution+"\n\n"+ours),
		"Outlook":            l.answer + "\n\n" + l.block(false) + "\n" + ours,
		"Outlook on a phone": l.answer + "\n\n________________________________\n" + l.block(false) + "\n" + ours,
		"QQ":                 l.answer + "\n\n\n------------------ Original ------------------\n" + l.block(false) + "\n\n" + ours,
	}
}

// TestHistoryOfManyLines reads mails of very many short lines. With quadratic cost the test would
// not end.
func TestHistoryOfManyLines(t *testing.T) {
	lines := 200_000
	if raceEnabled {
		lines /= 50
	}
	sent := Sent{Texts: []string{strings.Repeat("x y z ", 50_000)}, Names: ownNames}
	for _, line := range []string{
		"x\n", "\n", "> x\n", "> x y z\n", "> y x z a b\n", "____________________\n", "bot@agents.example:\n", "From: bot@agents.example\n", ">>>>>>>>\n", "2026 goulard3120:\n> q\n",
	} {
		whole := strings.Repeat(line, lines)
		if text, left := ownText(whole, mailKind{answers: true, mobile: true}, sent); len(text) > len(whole) || left.History > 2*lines {
			t.Errorf("%q: %d bytes, %+v", line, len(text), left)
		}
	}
}

// FuzzHistory checks that lines are removed but never changed.
func FuzzHistory(f *testing.F) {
	for _, l := range languages[:4] {
		for _, mail := range l.replies("<p>x</p>") {
			f.Add(mail[0])
		}
	}
	f.Fuzz(func(t *testing.T, in string) {
		in = plain.Text(in)
		text, _ := ownText(in, mailKind{answers: true}, Sent{Texts: []string{report}, Names: ownNames})
		rest := strings.Split(in, "\n")
		for i, line := range strings.Split(text, "\n") {
			for line != "" && len(rest) > 0 && strings.TrimSpace(strings.TrimPrefix(rest[0], ">")) != strings.TrimSpace(line) && strings.TrimSpace(rest[0]) != strings.TrimSpace(line) {
				rest = rest[1:]
			}
			if line != "" && len(rest) == 0 {
				t.Fatalf("line %d, %q, was not there", i, line)
			}
		}
	})
}
