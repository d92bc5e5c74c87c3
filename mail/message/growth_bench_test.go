package message

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// longHeaders returns, by name, headers of n bytes that are expensive to parse.
var longHeaders = map[string]func(n int) string{
	"a field name":          func(n int) string { return strings.Repeat("x", n) + ": y\r\n" },
	"field names":           func(n int) string { return strings.Repeat("x:\r\n", n/4) },
	"a name of a parameter": func(n int) string { return "Content-Type: text/plain; " + strings.Repeat("x", n) + "=y\r\n" },
	"names of parameters":   func(n int) string { return "Content-Type: text/plain" + repeatNumbered(n, "; x%d=y") + "\r\n" },
	"continued parameters":  func(n int) string { return "Content-Type: text/plain" + repeatNumbered(n, "; x*%d=y") + "\r\n" },
	"encoded parameters": func(n int) string {
		return "Content-Type: text/plain; x*=utf-8''" + strings.Repeat("%41", n/3) + "\r\n"
	},
	"a long name, continued": func(n int) string {
		return "Content-Type: text/plain" + repeatNumbered(n/2, "; "+strings.Repeat("x", 1000)+"*%d=y") + "\r\n"
	},
	"the same parameter": func(n int) string { return "Content-Type: text/plain" + strings.Repeat("; x=y", n/5) + "\r\n" },
	"broken parameters":  func(n int) string { return "Content-Type: text/plain; =" + strings.Repeat(";x=y", n/4) + "\r\n" },
	"names with stars":   func(n int) string { return "Content-Type: text/plain; " + strings.Repeat("*", n) + "=y\r\n" },
	"a disposition": func(n int) string {
		return "Content-Disposition: attachment" + repeatNumbered(n, "; filename*%d*=y") + "\r\n"
	},
	"a quoted parameter": func(n int) string { return `Content-Type: text/plain; x="` + strings.Repeat(`\"`, n/2) + "\"\r\n" },
	"a boundary": func(n int) string {
		return "Content-Type: multipart/mixed; boundary=" + strings.Repeat("x", n) + "\r\n"
	},
	"addresses":            func(n int) string { return "From: " + strings.Repeat("a@b.c,", n/6) + "\r\n" },
	"broken addresses":     func(n int) string { return "From: <" + strings.Repeat("a@b.c,", n/6) + "\r\n" },
	"open comments":        func(n int) string { return "From: " + strings.Repeat("(", n) + "\r\n" },
	"open brackets":        func(n int) string { return "From: " + strings.Repeat("<", n) + "\r\n" },
	"a dotted address":     func(n int) string { return "From: " + strings.Repeat("a.", n/2) + "a@b.c\r\n" },
	"a dotted domain":      func(n int) string { return "From: a@" + strings.Repeat("b.", n/2) + "c\r\n" },
	"quotes in an address": func(n int) string { return "From: " + strings.Repeat(`""`, n/2) + "@b.c\r\n" },
	"groups":               func(n int) string { return "From: " + strings.Repeat("g:;", n/3) + "\r\n" },
	"From fields":          func(n int) string { return strings.Repeat("From: a@b.c\r\n", n/13) },
	"ids":                  func(n int) string { return "References: " + strings.Repeat("<a@b>", n/5) + "\r\n" },
	"open ids":             func(n int) string { return "References: " + strings.Repeat("<", n) + "\r\n" },
	"closed ids": func(n int) string {
		return "References: " + strings.Repeat("<", n/2) + strings.Repeat(">", n/2) + "\r\n"
	},
	"folds":              func(n int) string { return "Subject: x\r\n" + strings.Repeat(" y\r\n", n/4) },
	"encoded words":      func(n int) string { return "Subject: " + strings.Repeat("=?x?q?y?= ", n/10) + "\r\n" },
	"automatic replies":  func(n int) string { return strings.Repeat("X-Autoreply: yes\r\n", n/18) },
	"transfer encodings": func(n int) string { return strings.Repeat("Content-Transfer-Encoding: x\r\n", n/30) },
	"types of content":   func(n int) string { return strings.Repeat("Content-Type: text/plain; x=y\r\n", n/31) },
}

// repeatNumbered returns n bytes of a format, with a counter as its argument.
func repeatNumbered(n int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// BenchmarkLongHeaders parses headers of 60 and 240 KB. Linear time makes the second four times as
// slow, quadratic time sixteen times.
func BenchmarkLongHeaders(b *testing.B) {
	for name, header := range longHeaders {
		for _, n := range []int{60_000, 240_000} {
			raw := []byte(header(n) + "\r\nhello\r\n")
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					ParseHeader(raw)
					ReadContent(bytes.NewReader(raw), Sent{})
					if fields, err := StrictFields(raw); err == nil {
						SoleSender(fields)
					}
				}
			})
		}
	}
}

// BenchmarkManyFiles reads mails of 250 and 1000 files whose names are as slow to decode as
// possible.
func BenchmarkManyFiles(b *testing.B) {
	for _, n := range []int{250, 1000} {
		var raw strings.Builder
		raw.WriteString("Content-Type: multipart/mixed; boundary=b\r\n\r\n")
		for range n {
			raw.WriteString("--b\r\nContent-Disposition: attachment; filename=\"" + strings.Repeat("=?gbk?b?sbG45g==?= =?big5?q?x?= ", 130) + "\"\r\n\r\nx\r\n")
		}
		mail := []byte(raw.String())
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				ContentOf(mail, Sent{})
			}
		})
	}
}

// BenchmarkAnswer reads an answer to a mail of ours, with and without the text of that mail: the
// cost of reading sent/.
func BenchmarkAnswer(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10, 128 << 10} {
		ours := strings.Repeat("The build is green, and three tests of two hundred and twelve were skipped on host number 17.\n", size/94)
		raw := []byte("Subject: Re: x\nIn-Reply-To: <x@agents.example>\n\nyes\n\n" + languages[0].attribution + "\n\n" + quoteLines("> ", foldLines(ours, 70)))
		for name, sent := range map[string]Sent{"without": {Names: ownNames}, "with": {Texts: []string{ours}, Names: ownNames}} {
			b.Run(fmt.Sprintf("%d KiB, %s", size>>10, name), func(b *testing.B) {
				for b.Loop() {
					if ContentOf(raw, sent).Text != "yes" {
						b.Fatal("history stays")
					}
				}
			})
		}
	}
}
