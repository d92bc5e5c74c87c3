package plain_test

import (
	"strings"
	"testing"

	"agentstateloop/internal/plain"
)

func TestSizeWithUnit(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 2: "2 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 10_188: "9.9 KiB", 10_189: "10 KiB",
		12_000: "12 KiB", 12_288: "12 KiB", 1<<20 - 1: "1 MiB", 1_500_000: "1.4 MiB", 64 << 20: "64 MiB", 5 << 30: "5 GiB", 5 << 40: "5120 GiB",
	} {
		if got := plain.Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestNameIsQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"old.csv":                  "old.csv",
		"Отчёт 1.pdf":              "Отчёт 1.pdf",
		"گزارش\u200cها.pdf":        "گزارش\u200cها.pdf",
		"Report (1).pdf":           `"Report (1).pdf"`,
		"a, b.pdf":                 `"a, b.pdf"`,
		`"x".pdf`:                  `"\"x\".pdf"`,
		"../../etc/passwd":         `"../../etc/passwd"`,
		"a\nattachment-2.csv":      `"a attachment-2.csv"`,
		"x\u202efdp.exe":           "\"x\uFFFDfdp.exe\"",
		"":                         `""`,
		strings.Repeat("/", 1_000): `"` + strings.Repeat("/", 120) + `…"`,
	} {
		if got := plain.Name(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
