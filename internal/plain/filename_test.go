package plain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

// TestFileName checks that a name is kept with letters of each script, and refused with each unsafe
// character or form.
func TestFileName(t *testing.T) {
	kept := []string{
		"old.csv", "Makefile", "a", "1", "_x", "Tide table.pdf", "Report (1).pdf", "[Draft] v1.2_final-3.docx", "C# notes, part 1+2 @home = 100%.txt", "a~1.txt",
		"Übersicht Größe naïve.pdf", "Отчёт за квартал.xlsx", "报告（终稿）.docx", "《合同》【重要】：通知！.pdf", "議事録　ではない.txt"[:len("議事録")] + ".txt", "보고서.hwp", "تقرير.pdf", "דוח.pdf",
		"گزارش\u200cها.pdf", "क्\u200dष.txt", "รายงาน.pdf", "ანგარიში.pdf", "Έκθεση.pdf", "Báo cáo.pdf", "ሪፖርት.pdf",
		"🙂.png", "❤\ufe0f.png", "👩\u200d💻 at work.jpg", "👍🏽.gif", "1\ufe0f⃣.txt", "5 € – 10 ¥.txt", "x² ≤ ½.txt", "“quoted” ‘name’ — dash….txt",
		"con.txt", strings.Repeat("x", 251) + ".txt", strings.Repeat("報", 83) + ".txt",
	}
	for _, name := range kept {
		if got, ok := plain.FileName(name); !ok || got != name {
			t.Errorf("%q became %q, %v", name, got, ok)
		}
	}
	for name, want := range map[string]string{
		"  two   blanks\t.txt ":           "", // a tab is a control character
		" two   blanks .txt ":             "two blanks .txt",
		"U\u0308bersicht.pdf":             "Übersicht.pdf",
		"Screenshot at 10.00\u202fAM.png": "Screenshot at 10.00 AM.png",
		"a\u00a0b.txt":                    "a b.txt",
		"議事録\u3000一.txt":                  "議事録 一.txt",
	} {
		if got, ok := plain.FileName(name); got != want || ok != (want != "") {
			t.Errorf("%q became %q, %v, want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{
		"", ".", "..", "...", "-", "_", "( )", ".bashrc", "-rf", "~root", "name.", "..hidden.txt", "\u0301x.txt",
		"a/b", `a\b`, "../x", "/etc/passwd", `C:\x.txt`, "a:b.txt", "a／b.txt", "a∕b", "a＼b", "a⁄b",
		"a*b", "a?b", `a"b`, "a'b", "a`b`", "$(reboot).csv", "a;b", "a|b", "a&b", "a<b>", "a!b", "{a}", "a^b",
		"a\x00b", "a\nb.txt", "a\rb", "a\tb", "a\x1b[2Jb", "a\x7fb", "a\u0085b", "a\u009b2J", "a\xffb", "a\uFFFDb",
		"invoice\u202efdp.exe", "a\u202ab", "a\u2066b", "a\u200fb", "a\u200eb", "a\u061cb",
		"a\u200bb", "a\u2060b", "a\ufeffb", "a\u00adb", "a\u034fb", "a\u3164b", "\u115fa", "a\uffa0b", "a\u2800b", "a\U000e0041b", "a\U000e0100b", "a\u180bb",
		"a\u200cb.txt", "a\u200db.txt", "\u200cگ.txt", "a\ufe0fb", "\ue000.txt", "a\u2028b", "a\u2029b", "a\U0001d159b", "\U000e0001a", "a\u0378b",
		strings.Repeat("x", 252) + ".txt", strings.Repeat("報", 84) + ".txt",
	} {
		if got, ok := plain.FileName(name); ok {
			t.Errorf("%q is kept as %q", name, got)
		}
	}
}

// TestFileNames checks that the files of one folder have different names.
func TestFileNames(t *testing.T) {
	var names plain.FileNames
	for _, tt := range []struct{ senders, ours, want string }{
		{"old.csv", "attachment-1.csv", "old.csv"},
		{"old.csv", "attachment-2.csv", "old-2.csv"},
		{"OLD.csv", "attachment-3.csv", "OLD-3.csv"},
		{"old-4.csv", "attachment-4.csv", "old-4.csv"},
		{"old.csv", "attachment-5.csv", "old-5.csv"},
		{"../old.csv", "attachment-6.csv", "attachment-6.csv"},
		{"attachment-8.csv", "attachment-7.csv", "attachment-7.csv"},
		{"ATTACHMENT-1.csv", "attachment-8.csv", "attachment-8.csv"},
		{"attachment-list.csv", "attachment-9.csv", "attachment-list.csv"},
		{"Straße.txt", "attachment-10.txt", "Straße.txt"},
		{"STRASSE.txt", "attachment-11.txt", "STRASSE-2.txt"},
		{"Müller.txt", "attachment-12.txt", "Müller.txt"},
		{"Mu\u0308ller.TXT", "attachment-13.txt", "Müller-2.TXT"},
		{"گزارش\u200cها.pdf", "attachment-14.pdf", "گزارش\u200cها.pdf"},
		{"گزارشها.pdf", "attachment-15.pdf", "گزارشها-2.pdf"},
		{strings.Repeat("x", 251) + ".txt", "attachment-16.txt", strings.Repeat("x", 251) + ".txt"},
		{strings.Repeat("x", 251) + ".txt", "attachment-17.txt", "attachment-17.txt"},
		{"", "attachment-18.bin", "attachment-18.bin"},
		{"Makefile", "attachment-19.bin", "Makefile"},
		{"Makefile", "attachment-20.bin", "Makefile-2"},
	} {
		if got := names.Add(tt.senders, tt.ours); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.senders, got, tt.want)
		}
	}
}

// FuzzFileNames checks for any names of a sender that each file stays in its folder, that no name has
// invisible characters, and that all are different.
func FuzzFileNames(f *testing.F) {
	f.Add("old.csv\nOLD.csv\n../x\nattachment-1.csv\nold-2.csv\nold.csv")
	f.Add("ß.txt\nSS.txt\nẞ.txt\nİ\ni\nI\nı\nﬁ\nfi")
	f.Add("..\n.\n-\n/\n\x00\n\u202e\nCON\n" + strings.Repeat("x", 255) + "\n" + strings.Repeat("x", 255))
	f.Fuzz(func(t *testing.T, list string) {
		var names plain.FileNames
		seen := map[string]bool{}
		dir := t.TempDir()
		for i, senders := range strings.Split(list, "\n") {
			if i == 50 {
				break
			}
			name := names.Add(senders, fmt.Sprintf("attachment-%d.bin", i+1))
			if !filepath.IsLocal(name) || strings.ContainsAny(name, "/\\\n\x00") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") || len(name) > 255 || !utf8.ValidString(name) {
				t.Fatalf("%q became %q", senders, name)
			}
			for _, r := range name {
				if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
					t.Fatalf("%q became %q", senders, name)
				}
			}
			for _, folded := range []string{strings.ToLower(name), strings.ToUpper(name)} {
				if seen[folded] {
					t.Fatalf("%q became %q, which is taken", senders, name)
				}
			}
			seen[strings.ToLower(name)], seen[strings.ToUpper(name)] = true, true
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatalf("%q became %q: %v", senders, name, err)
			}
		}
	})
}
