package store

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestLogIsBounded(t *testing.T) {
	st := &Store{Dir: t.TempDir()}
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.FixedZone("CET", 3600))
	for _, text := range []string{"poll: IDLE", "two\nlines", "\x1b[31mred"} {
		check(t, st.Log(now, text))
	}
	data, err := os.ReadFile(st.Path("log"))
	want := "2026-03-02T08:30:00Z poll: IDLE\n2026-03-02T08:30:00Z two lines\n2026-03-02T08:30:00Z [31mred\n"
	if err != nil || string(data) != want {
		t.Errorf("log is %q, want %q; %v", data, want, err)
	}
	// At 1 MiB a new log begins, and one old copy is kept.
	for _, content := range []string{"first", "second"} {
		check(t, os.WriteFile(st.Path("log"), []byte(strings.Repeat(content+"\n", maxLog/6)), 0o600))
		check(t, st.Log(now, "after "+content))
	}
	data, err = os.ReadFile(st.Path("log"))
	if err != nil || string(data) != "2026-03-02T08:30:00Z after second\n" {
		t.Errorf("log is %q, %v", data, err)
	}
	old, err := os.ReadFile(st.Path("log.1"))
	if err != nil || !strings.HasPrefix(string(old), "second\n") {
		t.Errorf("the old log begins %.20q, %v", old, err)
	}
}
