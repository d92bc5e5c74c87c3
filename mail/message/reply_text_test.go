package message

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentstateloop/internal/plain"
)

func TestReplyText(t *testing.T) {
	files, err := filepath.Glob("testdata/reply_text/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in, want, ok := strings.Cut(string(raw), "\n=====\n")
		if !ok {
			t.Fatalf("%s: no ===== line", file)
		}
		if got := ReplyText(in); got != strings.TrimSpace(want) {
			t.Errorf("%s:\n--- got\n%s\n--- want\n%s", file, got, want)
		}
	}
}

// TestReplyTextByKind has one mail for each of the ways in which mail programs
// quote. For some of them a part of the history stays. That costs the agent some
// reading; to leave out text of the sender would be a loss.
func TestReplyTextByKind(t *testing.T) {
	const history = "the tide table is attached"
	for _, tt := range []struct {
		name, in, want string
		more           bool // a part of the history stays, below want
	}{
		// An attribution line, and quoted lines below it.
		{name: "date with dashes", in: "Noon is fine.\n\nOn 03-Feb-2026, at 9:12 AM, Pia Brandt <pia@example.org> wrote:\n\n>\n> " + history + "\n", want: "Noon is fine."},
		{name: "date with slashes", in: "Noon is fine.\n\nOn 02/03/2026 09:12 AM, Pia Brandt wrote:\n> " + history + "\n", want: "Noon is fine."},
		{name: "two lines", in: "Noon is fine.\n\nOn Tue, Feb 3, 2026 at 9:12 AM, Pia Brandt of the Harbour Office\n<pia@example.org> wrote:\n\n> " + history + "\n", want: "Noon is fine."},
		{name: "three lines and no quote marks", in: "Noon is fine.\n\nOn Feb 3, 2026, at 9:12 AM, Pia <\n0123456789abcdef0123456789abcdef@relay.example.org>\nwrote:\n\n" + history + "\n", want: "Noon is fine."},
		{name: "a blank before the attribution", in: "Noon is fine.\n On Feb 3, 2026 9:12 AM, \"Harbour\" <\nh+1@example.org> wrote:\n\n>**\n>  " + history + "\n", want: "Noon is fine."},
		{name: "nested", in: "Noon is fine.\nOn 02/03/2026 09:12 AM, Pia wrote:\n\n> Which?\n> On 02/02/2026 08:00 AM, Jo wrote:\n>\n>> " + history + "\n\nRegards, Ole\n", want: "Noon is fine.\n\nRegards, Ole"},
		{name: "answer below", in: "On 02/03/2026 09:12 AM, Pia wrote:\n\n> " + history + "\nNoon is fine.\n", want: "Noon is fine."},
		{name: "answer above and below", in: "Noon is fine.\n\nOn 02/03/2026 09:12 AM, Pia wrote:\n\n>\n> " + history + "\n\nRegards, Ole\n", want: "Noon is fine.\n\nRegards, Ole"},
		{name: "unquoted with a nested one", in: "By the way, noon.\n\nOn Tue, Feb 3, 2026 at 9:12 AM -0800, \"Harbour\" <h@example.org> wrote:\n\nHi Ole,\n" + history + "\n\nOn Feb 2, 2026, at 8:00 AM, Jo <jo@example.org> wrote:\n\nWhich one?\n\nSent from a phone\n", want: "By the way, noon."},
		{name: "device above the attribution", in: "Noon is fine.\n\nSent from my iPhone\n\nOn Feb 3, 2026, at 9:12 AM, Pia <pia@example.org> wrote:\n\n> " + history + "\n", want: "Noon is fine."},

		// Attributions in other languages.
		{name: "German", in: "Mittag passt.\n\nAm Di., 3. Feb. 2026 um 09:12 Uhr schrieb Pia Brandt <\npia@example.org>:\n\n> " + history + "\n", want: "Mittag passt."},
		{name: "French", in: "Midi me va.\n\nLe 3 févr. 2026 à 09:12, Pia Brandt <pia@example.org<mailto:pia@example.org>> a écrit:\n\n" + history + "\n", want: "Midi me va."},
		{name: "Spanish", in: "Vale.\n\nEl mar, 3 feb 2026 a las 9:12, Pia (<pia@example.org>) escribió:\n\n> " + history + "\n", want: "Vale."},
		{name: "Italian", in: "Va bene.\n\nIl giorno mar 3 feb 2026 alle ore 09:12 Pia <pia@example.org> ha scritto:\n\n> " + history + "\n", want: "Va bene."},
		{name: "Portuguese", in: "Pode ser.\n\nEm ter., 3 de fev. de 2026 às 09:12, Pia <pia@example.org> escreveu:\n\n> " + history + "\n", want: "Pode ser."},
		{name: "Dutch", in: "Goed.\n\nOp 03-02-2026 9:12 schreef Pia Brandt <pia@example.org>:\n    \n" + history + "\n", want: "Goed."},
		{name: "Dutch of Apple", in: "Goed.\n\nOp 3 feb. 2026, om 09:12 heeft Pia <pia@example.org> het volgende geschreven:\n\n> " + history + "\n", want: "Goed.", more: true},
		{name: "Swedish", in: "Bra.\n\nDen 3 februari 2026 09:12:18, Pia (pia@example.org) skrev:\n\n" + history + "\n", want: "Bra.", more: true},
		{name: "Polish", in: "Dobrze.\n\nW dniu 3 lutego 2026 09:12 użytkownik Pia <pia@example.org>\nnapisał:\n\n" + history + "\n", want: "Dobrze.", more: true},

		// Attributions without a verb that we know, above quoted lines.
		{name: "date and address", in: "Noon is fine.\n\n2026-02-03 9:12 GMT+03:00 Pia <\npia@example.org>:\n\n> " + history + "\n", want: "Noon is fine.\n\n2026-02-03", more: true},
		{name: "sent instead of wrote", in: "Noon is fine.\n\nOn 03-Feb-2026, at 9:12 AM, Pia <pia@example.org> sent:\n\n> " + history + "\n", want: "Noon is fine.\n\nOn 03-Feb", more: true},
		{name: "attribution behind text", in: "Noon is fine. On Tue, Feb 3, 2026 at 9:12 AM, pia@example.org wrote:\n> " + history + "\n", want: "Noon is fine. On Tue", more: true},

		// A block of header lines.
		{name: "Outlook", in: "Noon is fine.\n\nFrom: pia@example.org\nSent: February-03-26 9:12 AM\nTo: Ole\nSubject: tides\n\n" + history + "\n", want: "Noon is fine."},
		{name: "Outlook in bold", in: "Noon is fine.\n\n  *From:* pia@example.org [mailto:\n  pia@example.org]\n  *Sent:* Tuesday, February 3, 2026 9:12 AM\n  *To:* ole@example.com\n  *Subject:* tides\n\n" + history + "\n", want: "Noon is fine."},
		{name: "Outlook in German", in: "Mittag passt.\n\nVon: pia@example.org\nGesendet: Dienstag, 3. Februar 2026 09:12\nAn: Ole\nBetreff: Gezeiten\n\n" + history + "\n", want: "Mittag passt."},
		{name: "Outlook in French", in: "Midi me va.\n\nDe : Pia [mailto:pia@example.org]\nEnvoyé : mardi 3 février 2026 09:12\nÀ : Ole\nObjet : marées\n\n" + history + "\n", want: "Midi me va."},
		{name: "Outlook below a rule", in: "Noon is fine.\n________________________________\nFrom: Pia <pia@example.org>\nSent: Tuesday, February 3, 2026 9:12 AM\nTo: Ole\n\n" + history + "\n", want: "Noon is fine."},
		{name: "Outlook in Danish", in: "Fint.\n\nFra: pia@example.org\nSendt: 3. februar 2026 09:12\nTil: Ole\nEmne: tidevand\n\n" + history + "\n", want: "Fint.", more: true},
		{name: "Date first", in: "Noon is fine.\n\nDate: Tue, 3 Feb 2026 09:12:02 -0600\nFrom: pia@example.org\nTo: ole@example.com\n\n" + history + "\n", want: "Noon is fine.", more: true},
		{name: "original message", in: "Noon is fine.\n\n-----Original Message-----\n\n" + history + "\n", want: "Noon is fine."},
		{name: "original message of AOL", in: "Noon is fine.\n\n\n-----Original Message-----\nFrom: Pia <pia@example.org>\nTo: ole <ole@example.com>\nSent: Tue, Feb 3, 2026 9:12 am\nSubject: tides\n\n\n" + history + "\n", want: "Noon is fine."},
		{name: "original message in German", in: "Mittag passt.\n\n-----Ursprüngliche Nachricht-----\n\n" + history + "\n", want: "Mittag passt."},
		{name: "original message in Danish", in: "Fint.\n\n-----Oprindelig meddelelse-----\n\n" + history + "\n", want: "Fint.", more: true},

		// Text that only looks like a quotation, and mail that was forwarded.
		{name: "a line that begins with On", in: "Two things.\nOn the pier I wait.\n", want: "Two things.\nOn the pier I wait."},
		{name: "a line that ends with wrote", in: "As she wrote:\nbring a coat.\n", want: "As she wrote:\nbring a coat."},
		{name: "From in the text", in: "Take the note.\n\nFrom: the harbour office\nTo: all\n", want: "Take the note.\n\nFrom: the harbour office\nTo: all"},
		{name: "forwarded", in: "For you.\n\n---------- Forwarded message ---------\nFrom: Pia <pia@example.org>\nDate: Tue, Feb 3, 2026 at 9:12 AM\nSubject: Two\nlines\nTo: <ole@example.com>\n\n" + history, want: "For you.\n\n---------- Forwarded message ---------\nFrom: Pia <pia@example.org>\nDate: Tue, Feb 3, 2026 at 9:12 AM\nSubject: Two\nlines\nTo: <ole@example.com>\n\n" + history},
		{name: "forwarded within history", in: "Noon is fine.\n\n-----Original Message-----\n\nFor you.\n\n---------- Forwarded message ---------\nFrom: pia@example.org\n\n" + history + "\n", want: "Noon is fine."},

		// Quoted lines that a mail program has wrapped.
		{name: "a wrapped link", in: "Noon is fine.\n\nOn 02/03/2026 09:12 AM, Pia wrote:\n\n> View (http://example.org/tides\n_table=1)\n> " + history + "\n", want: "Noon is fine.\n\n_table=1)"},

		// Signatures.
		{name: "signature", in: "Noon is fine.\n\n-- \nOle\nHarbour Office\n", want: "Noon is fine."},
		{name: "a long signature with its blank", in: "Noon is fine.\n-- \n" + strings.Repeat("Ole\n", 9), want: "Noon is fine."},
		{name: "signature above history", in: "Noon is fine.\n-- \nOle\n\nOn 02/03/2026 09:12 AM, Pia wrote:\n> " + history + "\n", want: "Noon is fine."},
		{name: "device", in: "Noon is fine.\n\nSent from my mobile\n", want: "Noon is fine."},
		{name: "dashes in the text", in: "Three points:\n--\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n", want: "Three points:\n--\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine"},
	} {
		got := blankLines.ReplaceAllString(ReplyText(tt.in), "\n\n")
		switch {
		case tt.more && got == tt.want:
			t.Errorf("%s: the history is gone, as it should be; say so in the table", tt.name)
		case tt.more && !strings.HasPrefix(got, tt.want) || !tt.more && got != tt.want:
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

var blankLines = regexp.MustCompile(`\n{3,}`)

// A mail of very many short lines is read like one of few. The cost grows with the number
// of lines, not with its square: otherwise the test would not end.
func TestReplyTextOfManyLines(t *testing.T) {
	lines := 200_000
	if raced {
		lines /= 50
	}
	for line, stays := range map[string]bool{"x\n": true, "\n": false, "> x\n": false, "____________________\n": true, "On x wrote:\n": false, "From: x\n": true} {
		whole, want := strings.Repeat(line, lines), ""
		if stays {
			want = strings.TrimSuffix(whole, "\n")
		}
		if got := ReplyText(whole); got != want {
			t.Errorf("%d lines %q: %d bytes stay, want %d", lines, line, len(got), len(want))
		}
	}
}

// ReplyText only leaves lines out.
func FuzzReplyText(f *testing.F) {
	f.Add("yes\n\nOn Monday, Ann wrote:\n> really?\n")
	f.Add("ja\n\nAm 5.1. schrieb\nOp <o@x>:\n\n> hm\n-- \nOp")
	f.Add("x\n________________________________\nFrom: a\nSent: b\n")
	f.Fuzz(func(t *testing.T, in string) {
		rest := strings.Split(plain.Text(in), "\n")
		for i, line := range strings.Split(ReplyText(in), "\n") {
			for line != "" && len(rest) > 0 && strings.TrimSpace(rest[0]) != strings.TrimSpace(line) {
				rest = rest[1:]
			}
			if line != "" && len(rest) == 0 {
				t.Fatalf("line %d, %q, was not there", i, line)
			}
		}
	})
}
