package message_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"agentstateloop/mail/message"
)

// fileNames lists names from agents, and the names that the operator's program should show.
var fileNames = []struct{ name, want string }{
	{"report.pdf", "report.pdf"},
	{"two words.txt", "two words.txt"},
	{"Grüße aus Köln.pdf", "Grüße aus Köln.pdf"},
	{"tide_table-2026.csv", "tide_table-2026.csv"},
	{"報告書 最終版.docx", "報告書 最終版.docx"},
	{"تقرير الربع الأول.xlsx", "تقرير الربع الأول.xlsx"},
	{"می\u200cخواهم.txt", "می\u200cخواهم.txt"}, // a Persian word needs its joiner
	{"отчёт.zip", "отчёт.zip"},
	{"😀 👩\u200d💻.png", "😀 👩\u200d💻.png"},
	{`say "hello".txt`, `say "hello".txt`},
	{"it's 100% (done); a=b, *.txt", "it's 100% (done); a=b, *.txt"},
	{"=?utf-8?q?not_decoded?=.txt", "=?utf-8?q?not_decoded?=.txt"},
	{"UTF-8''x%20y.txt", "UTF-8''x%20y.txt"},
	{strings.Repeat("long-name-", 12) + "end.txt", strings.Repeat("long-name-", 12) + "end.txt"},
	{strings.Repeat("長い名前", 15) + ".pdf", strings.Repeat("長い名前", 15) + ".pdf"},
	{strings.Repeat("ä", 200) + ".pdf", strings.Repeat("ä", 118) + ".pdf"},
	{".env", ".env"},
	{"Screenshot 10.15.00\u202fPM.png", "Screenshot 10.15.00 PM.png"},
	{"a\r\nBcc: evil@example.net\r\n\r\n.txt", "a Bcc: evil@example.net .txt"},
	{"\u202egpj.exe", "gpj.exe"},
	{"a\x00b\x1b[2J\u2066\u200b.txt", "ab[2J.txt"},
	{"half\xff.txt", "half\uFFFD.txt"},
	{`..\..\evil.bat`, "evil.bat"},
	{"../../etc/passwd", "passwd"},
	{"..", "attachment-%"},
	{"a/", "attachment-%"},
	{"\u202e\u200b", "attachment-%"},
}

// mailWithFiles returns a mail with a file of each name, and the expected names.
func mailWithFiles(t testing.TB) (raw []byte, names []string) {
	d := draft()
	d.Text = "Here are **the files**."
	for i, n := range fileNames {
		data := []byte("file number " + string(rune('A'+i)) + " — ü\n")
		d.Attachments = append(d.Attachments, message.Attachment{Name: n.name, Type: message.MediaType(n.name, data), Data: data})
		names = append(names, n.want)
		if n.want == "attachment-%" {
			names[i] = message.FileName("", i+1)
		}
	}
	return render(t, d), names
}

// TestFileNames checks that each name arrives in any script and adds no header field, for a reader
// that knows RFC 2231, for one that only knows the name in Content-Type, and for ours.
func TestFileNames(t *testing.T) {
	raw, names := mailWithFiles(t)
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	if _, err := parts.NextPart(); err != nil { // the text
		t.Fatal(err)
	}
	for _, want := range names {
		p, err := parts.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Header) != 3 {
			t.Errorf("%q: %d fields, want 3: %q", want, len(p.Header), p.Header)
		}
		_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		if err != nil || params["filename"] != want {
			t.Errorf("filename %q, %v, want %q", params["filename"], err, want)
		}
		_, params, err = mime.ParseMediaType(p.Header.Get("Content-Type"))
		if name, decodeErr := new(mime.WordDecoder).DecodeHeader(params["name"]); err != nil || decodeErr != nil || name != want && (len(want) <= 135 || len(name) > 135 || !strings.HasSuffix(name, ".pdf")) {
			t.Errorf("name %q, %v, %v, want %q", name, err, decodeErr, want)
		}
		io.Copy(io.Discard, p)
	}
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 130 && !bytes.HasPrefix(line, []byte(` name="long`)) {
			t.Errorf("%d characters on a line: %q", len(line), line)
		}
	}
	if bytes.Contains(raw, []byte("filename*9")) {
		t.Error("a name has ten lines, which several programs sort as words")
	}
	c := message.ReadContent(bytes.NewReader(raw), message.Sent{})
	for i, a := range c.Attachments {
		if a.Title != names[i] && len(names[i]) < 200 && !strings.Contains(names[i], "=?") {
			t.Errorf("we read %q, want %q", a.Title, names[i])
		}
	}
}

// TestFileNamesInPython reads the names with both parsers of Python's library, the legacy one and
// the current one.
func TestFileNamesInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal("python3 is required")
		}
		t.Skip("python3 is not installed")
	}
	raw, names := mailWithFiles(t)
	for _, policy := range []string{"compat32", "default"} {
		cmd := exec.Command(python, "-c", `
import email, email.policy, sys
m = email.message_from_binary_file(sys.stdin.buffer, policy=getattr(email.policy, sys.argv[1]))
for p in m.walk():
    if p.get_content_disposition() == "attachment":
        sys.stdout.buffer.write(email.utils.collapse_rfc2231_value(p.get_filename()).encode() + b"\0")`, policy)
		cmd.Stdin = bytes.NewReader(raw)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, names) {
			t.Errorf("%s reads %q, want %q", policy, got, names)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, n := range fileNames {
		f.Add(n.name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := message.FileName(name, 1)
		if again := message.FileName(got, 1); got == "" || len(got) > 255 || !utf8.ValidString(got) || again != got {
			t.Errorf("%q becomes %q, and then %q", name, got, again)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '/' || r == '\\' {
				t.Errorf("%q keeps %U", name, r)
			}
		}
		d := draft()
		d.Attachments = []message.Attachment{{Name: name}}
		raw := render(t, d)
		c := message.ReadContent(bytes.NewReader(raw), message.Sent{})
		if len(c.Attachments) != 1 || len(c.Problems) != 0 {
			t.Errorf("%q: %d attachments, problems %q", name, len(c.Attachments), c.Problems)
		}
		if m, err := netmail.ReadMessage(bytes.NewReader(raw)); err != nil || m.Header.Get("Bcc") != "" {
			t.Errorf("%q: %v", name, err)
		}
		_, rest, _ := strings.Cut(string(raw), "\r\nContent-Disposition: attachment")
		disposition, _, _ := strings.Cut(rest, "\r\nContent-Transfer-Encoding")
		_, params, err := mime.ParseMediaType("attachment" + disposition)
		if err != nil || params["filename"] != got {
			t.Errorf("%q: filename %q, %v, want %q", name, params["filename"], err, got)
		}
	})
}
