package commands

import (
	"testing"
	"time"
)

// TestPrintable: text from a mail must not command the terminal.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcödé 漢字 🙂\n\tindented": "plain, ünïcödé 漢字 🙂\n\tindented",
		"\x1b[31mred\x1b[0m":              "�[31mred�[0m",
		"over\rwritten\x00":               "over written�",
		"abc\u202edcb":                    "abc�dcb",
		"bad \xff byte":                   "bad � byte",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got := oneLine("two\n lines\u2028here"); got != "two lines here" {
		t.Errorf("oneLine: %q", got)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 61 * time.Second: "1m1s",
		time.Hour + time.Second: "1h", 25*time.Hour + time.Minute: "1d1h", 90 * 24 * time.Hour: "90d",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for in, want := range map[span]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "90d": 90 * 24 * time.Hour} {
		if got, err := parseSpan(in); err != nil || got != want {
			t.Errorf("parseSpan(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []span{"", "30", "0", "0s", "-5m", "d", "-1d", "1.5d", "99999999d", "tomorrow"} {
		if got, err := parseSpan(in); err == nil {
			t.Errorf("parseSpan(%q) = %v, want an error", in, got)
		}
	}
}
