package message

import (
	"strings"
	"testing"
)

// banners lists texts that providers put above and below a mail.
var banners = []struct{ name, text string }{
	{"a tag", "[EXTERNAL]"}, {"a tag in mixed case", "[External Sender]"}, {"a tag in Japanese", "【外部メール】"},
	{"a tag between stars", "*** External mail ***"}, {"a tag of words between dashes", "----- EXTERNAL MAIL -----"},
	{"CAUTION", "CAUTION: This email originated from outside of the organization. Do not click links\nor open attachments unless you recognize the sender."},
	{"Caution", "Caution: this is an external email, take care with its links."},
	{"EXTERNAL EMAIL", "EXTERNAL EMAIL - do not open attachments from people you do not know"},
	{"German", "ACHTUNG: Diese E-Mail kommt von außerhalb. Bitte keine Links öffnen."},
	{"German, mixed", "Vorsicht: Diese Nachricht wurde nicht von uns gesendet, Links prüfen."},
	{"French", "ATTENTION : ce courriel provient de l'extérieur de l'organisation."},
	{"Polish", "UWAGA: ta wiadomość pochodzi spoza organizacji, uważaj na linki."},
	{"Russian", "ВНИМАНИЕ! Это письмо пришло извне. Не открывайте вложения."},
	{"Greek, in capitals", "ΠΡΟΣΟΧΗ: αυτό το μήνυμα ήρθε από άλλον οργανισμό."},
	{"Chinese", "警告：此邮件来自外部，请勿点击链接。"},
	{"no label", "This email originated from outside of the organization. Do not click links."},
	{"no label, folded", "You don't often get email from op@example.com. Learn why this\nis important"},
	{"no label, German", "Diese E-Mail kommt von außerhalb der Organisation."},
	{"no label, French", "Ce message provient de l'extérieur de votre organisation."},
	{"a sign", "⚠ WARNING: External sender, be careful with links and files."},
}

func TestControlPhrases(t *testing.T) {
	for text, want := range map[string]string{
		"STOP": "STOP", "stop": "STOP", " Halt.\n": "HALT", "go!": "GO", "Status": "STATUS",
		"": "", "stop it": "", "STOP\nplease": "", "> STOP": "", "!": "", "GOSTOP": "",
		// Text of the sender.
		"STOP\n\nplease restart the build": "", "[STOP]": "", "HALT: now": "", "CAUTION: STOP": "", "GO\n\nNOTE: x": "",
		"GO\n-----\nfirst the build": "", "please\n\n[EXTERNAL]\n\nHALT": "", "HALT\n\nCAUTION: This mail came from outside.\n\nand tell me why": "",
		"GO\n\nThe confidential report is on beta.": "", "HALT\n[EXTERNAL]\nGO": "",
		// A notice below the control.
		"HALT\n\n" + strings.Repeat("_", 32) + "\nThis mail and its files are for you.\n\nThank you":                             "HALT",
		"STOP\n\nThis e-mail and any attachments may contain confidential information. If you are not the addressee, delete it.": "STOP",
		"STOP\n\nDiese Nachricht ist vertraulich. Wenn Sie nicht der Empfänger sind, löschen Sie sie bitte sofort wieder.":       "STOP",
	} {
		if got := Control(text); got != want {
			t.Errorf("Control(%q) = %q, want %q", text, got, want)
		}
	}
	for _, b := range banners {
		for _, text := range []string{b.text + "\n\nHALT", "halt.\n\n" + b.text, b.text + "\n\nHalt!\n\n" + b.text} {
			if got := Control(text); got != "HALT" {
				t.Errorf("%s: Control(%q) = %q", b.name, text, got)
			}
		}
		if got := WithoutBanners(b.text); got != b.text {
			t.Errorf("%s: only %q is left of %q", b.name, got, b.text)
		}
	}
}

// TestControlAboveUnknownHistory reads answers of HALT above a mail of ours whose text is unknown
// and not marked as quoted, in each language.
func TestControlAboveUnknownHistory(t *testing.T) {
	for _, l := range languages {
		l.answer = "HALT"
		for _, shape := range []string{"Outlook", "Outlook on a phone", "QQ", "Yahoo", "Gmail"} {
			for _, b := range append(banners[:1:1], banners[5], struct{ name, text string }{"none", ""}) {
				in := b.text + "\n\n" + l.replies("")[shape][0]
				raw := "Subject: Re: @goulard3120\nIn-Reply-To: <x@agents.example>\n\n" + in
				if text := ContentOf([]byte(raw), Sent{Names: ownNames}).Text; Control(text) != "HALT" {
					t.Errorf("%s, %s below %s: %q is not a control", l.name, shape, b.name, text)
				}
				own := strings.Replace(raw, "HALT", "HALT the build\non beta", 1)
				if text := ContentOf([]byte(own), Sent{Names: ownNames}).Text; Control(text) != "" || !strings.Contains(text, "HALT the build\non beta") {
					t.Errorf("%s, %s below %s: %q", l.name, shape, b.name, text)
				}
			}
		}
	}
}
