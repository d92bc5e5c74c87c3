package mail_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/mail"
)

// readStored returns the mails of a file, or of a reader for "-", and the files that were skipped.
func readStored(t testing.TB, name string, stdin io.Reader) (mails []mail.Stored, skipped []string) {
	t.Helper()
	r := mail.StoredReader{
		Stdin: stdin, MaxSize: 1 << 20, Now: func() time.Time { return noon },
		Take: func(m mail.Stored) error {
			m.Raw = slices.Clone(m.Raw)
			mails = append(mails, m)
			return nil
		},
		Skip: func(name string, why error) error {
			skipped = append(skipped, name+": "+why.Error())
			return nil
		},
	}
	if err := r.Read(name); err != nil {
		t.Fatal(err)
	}
	return mails, skipped
}

// TestMboxForms reads the same mails from an mbox in each form. A mail must come out as it was
// delivered.
func TestMboxForms(t *testing.T) {
	const one, two, three = "Subject: 1\r\n\r\nhello\r\n", "Subject: 2\r\n\r\nFrom here on\r\n\r\n", "Subject: 3\r\n\r\n>From me\r\nFrom: x\r\n"
	const line = "From a@example.com Mon Jan  5 10:00:00 2026\n"
	unix := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"mboxrd":              {line + unix(one) + "\n" + line + "Subject: 2\n\n>From here on\n\n\n" + line + "Subject: 3\n\n>>From me\nFrom: x\n\n", []string{one, two, three}},
		"mboxo":               {line + unix(one) + "\n" + line + "Subject: 2\n\n>From here on\n\n\n", []string{one, two}},
		"no escapes":          {line + unix(one) + "\n" + line + "Subject: 2\n\nFrom here on\n\n\n", []string{one, two}},
		"CRLF":                {strings.ReplaceAll(line+unix(one)+"\n"+line+"Subject: 2\n\n>From here on\n\n\n", "\n", "\r\n"), []string{one, two}},
		"no line end":         {line + strings.TrimSuffix(unix(one), "\n"), []string{strings.TrimSuffix(one, "\r\n")}},
		"a zone":              {"From a@example.com Mon Jan  5 10:00:00 +0100 2026\n" + unix(one) + "\nFrom - Mon Jan  5 10:00:00 2026\n" + unix(one) + "\n", []string{one, one}},
		"an address in words": {"From MAILER DAEMON Mon Jan  5 10:00:00 2026\n" + unix(one) + "\nFrom x y Mon Jan  5 10:00:00 CET 2026\n" + unix(one) + "\n", []string{one, one}},
		"mixed line ends":     {line + "Subject: 1\r\n\nhello\r\n\n", []string{one}},
		"a header alone":      {line + "Subject: 1\n\n\n", []string{"Subject: 1\r\n\r\n"}},
	} {
		got, skipped := readStored(t, "-", strings.NewReader(c.file))
		var raws []string
		for i, m := range got {
			raws = append(raws, string(m.Raw))
			if m.Size != int64(len(m.Raw)) || m.Name != fmt.Sprintf("standard input, mail %d", i+1) || m.At.Year() != 2026 {
				t.Errorf("%s: %s of %d bytes at %v", name, m.Name, m.Size, m.At)
			}
		}
		if !slices.Equal(raws, c.want) || skipped != nil {
			t.Errorf("%s: %q, skipped %q; want %q", name, raws, skipped, c.want)
		}
	}
}

// TestStoredArrival checks where the arrival of a mail comes from.
func TestStoredArrival(t *testing.T) {
	const received, date = "Received: from a by b; Mon, 5 Jan 2026 10:00:00 +0000\nReceived: by a; Sun, 4 Jan 2026 10:00:00 +0000\n", "Date: Sat, 3 Jan 2026 10:00:00 +0000\n"
	const line = "From a@example.com Fri Jan  2 10:00:00 2026\n"
	for raw, want := range map[string]int{
		received + date + "\nx": 5, date + "\nx": 3, line + date + "\nx": 2, line + received + date + "\nx": 5,
		"Received: from a by b; whenever\n" + date + "\nx": 3, "Received: from a by b; whenever\n" + received + date + "\nx": 3,
		"From a@example.com Fri Jan  2 10:00:00 XST 2026\n" + date + "\nx": 3, "Received: by a; Sun, 4 Jan 2026 10:00:00 XST\n" + date + "\nx": 3,
	} {
		got, _ := readStored(t, "-", strings.NewReader(raw))
		if len(got) != 1 || got[0].At.Day() != want {
			t.Errorf("%q: %v, want day %d", raw, got, want)
		}
	}
	if got, _ := readStored(t, "-", strings.NewReader("Subject: x\n\nx")); len(got) != 1 || !got[0].At.Equal(noon) {
		t.Errorf("without a date: %v", got)
	}
}

// TestStoredFolders reads a Maildir with subfolders, another folder, and files that are not mails.
func TestStoredFolders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("box/new/1767607200.2.host", "Subject: 2\n\nx\n")
	write("box/cur/1767607100.1.host:2,S", "Subject: 1\n\nx\n")
	write("box/tmp/1767607300.3.host", "Subject: unfinished\n\nx\n")
	write("box/.Sent.2026/cur/1767607400.4.host:2,S", "Subject: 3\n\nx\n")
	write("box/.Sent.2026/new/.keep", "")
	write("box/dovecot.index.log", "not a mail")
	write("files/b.EML", "\xef\xbb\xbfSubject: b\n\nx\n")
	write("files/a.eml", "Subject: a\n\nx\n")
	write("files/c.mbox", "From a Mon Jan  5 10:00:00 2026\nSubject: c\n\nx\n\n")
	write("files/d.pdf", "%PDF")
	write("empty/x.txt", "")
	write("tree/Archive/2025/cur/1767607100.1.host:2,S", "Subject: old\n\nx\n")
	write("tree/Archive/2025/new/1767607200.2.host", "Subject: new\n\nx\n")
	write("tree/Archive/2025/tmp/x.eml", "Subject: unfinished\n\nx\n")
	write("tree/Archive/notes/n.eml", "Subject: note\n\nx\n")
	for link, to := range map[string]string{
		"linked/cur": "../box/cur", "linked/new": "../box/new", "loop/x.eml": ".", "loop/again": "../box", "looped/cur": ".",
	} {
		link = filepath.Join(dir, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(to, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, pipe := range []string{"pipes/x.eml", "pipes/box/cur/1767607100.1.host:2,S", "pipe"} {
		pipe = filepath.Join(dir, pipe)
		if err := errors.Join(os.MkdirAll(filepath.Dir(pipe), 0o755), syscall.Mkfifo(pipe, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "box", "new"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"box":     "Subject: 3;Subject: 1;Subject: 2;",
		"files":   "Subject: a;Subject: b;Subject: c;",
		"empty":   "empty: the folder is not a Maildir, and has no files named .eml or .mbox;",
		"nowhere": "nowhere: no such file or directory;",
		"tree":    "Subject: old;Subject: new;Subject: note;",
		"linked":  "Subject: 1;Subject: 2;",
		"loop":    "loop/again: it is a link to a folder: name that folder itself;loop/x.eml: it is a link to a folder: name that folder itself;",
		"looped":  "looped/cur/cur: it is a link to a folder: name that folder itself;",
		"pipe":    "pipe: it is a pipe: save its mails in a file, and name that file;",
		"pipes": "pipes/box/cur/1767607100.1.host:2,S: it is a pipe: save its mails in a file, and name that file;" +
			"pipes/x.eml: it is a pipe: save its mails in a file, and name that file;",
		"files/d.pdf": "files/d.pdf: it is not a mail: it has no header. Save the mail itself, as .eml or \"original\";",
	} {
		mails, skipped := readStored(t, filepath.Join(dir, name), nil)
		got := ""
		for _, m := range mails {
			subject, _, _ := strings.Cut(string(m.Raw), "\r\n")
			got += subject + ";"
		}
		for _, s := range skipped {
			got += strings.TrimPrefix(s, dir+"/") + ";"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got, _ := readStored(t, filepath.Join(dir, "box/cur/1767607100.1.host:2,S"), nil); len(got) != 1 {
		t.Errorf("one file of a Maildir: %v", got)
	}
	go os.WriteFile(filepath.Join(dir, "pipe"), []byte("Subject: from a pipe\n\nx\n"), 0)
	if got, skipped := readStored(t, filepath.Join(dir, "pipe"), strings.NewReader("")); len(got) != 1 {
		t.Errorf("a pipe: %v, %v", got, skipped)
	}
}

// TestLongStoredMail reads mails that are longer than the reader holds.
func TestLongStoredMail(t *testing.T) {
	long := "Subject: long\n\n" + strings.Repeat("x", 3<<20) + "\n"
	for _, raw := range []string{long, "From a Mon Jan  5 10:00:00 2026\n" + long + "\n"} {
		got, _ := readStored(t, "-", strings.NewReader(raw))
		if len(got) != 1 || len(got[0].Raw) != 1<<20 || got[0].Size < 3<<20 || got[0].Size > 3<<20+30 {
			t.Errorf("%d mails of %q...", len(got), raw[:20])
		}
	}
}

// mboxOf returns an mbox with n mails of 4 KB, which is made as it is read.
func mboxOf(n int) io.Reader {
	body := strings.Repeat("a line of text that somebody wrote\n", 110)
	r, w := io.Pipe()
	go func() {
		for i := range n {
			fmt.Fprintf(w, "From a@example.com Mon Jan  5 10:00:00 2026\nReceived: from a by b; Mon, 5 Jan 2026 10:00:00 +0000\nFrom: a%d@example.com\nSubject: mail %d\nDate: Mon, 5 Jan 2026 10:00:00 +0000\n\n%s\n", i, i, body)
		}
		w.Close()
	}()
	return r
}

// TestMboxIsStreamed checks that a long mbox costs no more memory than a mail.
func TestMboxIsStreamed(t *testing.T) {
	const n, most = 20_000, 32 << 20
	count := 0
	r := mail.StoredReader{Stdin: mboxOf(n), MaxSize: 1 << 20, Now: time.Now, Take: func(mail.Stored) error {
		if count++; count%5000 == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > most {
				return fmt.Errorf("%d MiB after %d mails", m.HeapAlloc>>20, count)
			}
		}
		return nil
	}}
	if err := r.Read("-"); err != nil || count != n {
		t.Errorf("%d mails, %v", count, err)
	}
}

// BenchmarkMbox reads and judges the mails of an mbox, whose senders are strangers.
func BenchmarkMbox(b *testing.B) {
	box := mail.Mailbox{}
	judge := box.NewJudge(trusting())
	r := mail.StoredReader{Stdin: mboxOf(b.N), MaxSize: 1 << 20, Now: time.Now, Take: func(m mail.Stored) error {
		_, err := judge.Mail(b.Context(), "mail:x.1.1", m.Raw, m.Size, m.At, discard)
		return err
	}}
	b.ReportAllocs()
	if err := r.Read("-"); err != nil {
		b.Fatal(err)
	}
}
