package view

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// kept keeps a payload and returns its row.
func kept(t *testing.T, st *store.Store, key string, source state.Source, payload string) state.Message {
	t.Helper()
	name := store.PayloadName(store.MessagesDir, key, ".x")
	sum, err := st.KeepSummed(name, strings.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	return state.Message{Key: key, Source: source, Payload: name, Sum: sum, Size: len(payload)}
}

const withFile = "Subject: =?utf-8?q?gr=C3=BCn?= \r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n" +
	"--b\r\nContent-Type: application/pdf; name=a.pdf\r\nContent-Disposition: attachment; filename=a.pdf\r\n\r\nx\r\n--b--\r\n"

// TestHeadline checks the headlines of payloads of every kind: whole, damaged and missing.
func TestHeadline(t *testing.T) {
	st := &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}
	long := strings.Repeat("word ", 100)
	for i, c := range []struct {
		source  state.Source
		payload string
		want    string // subject, files
	}{
		{state.Mail, withFile, `"grün" [a.pdf]`},
		{state.Mail, "no header at all", `"" []`},
		{state.Mesh, `{"id": "q", "message": "which\ncommit?", "files": [{"name": "a\u001b[2J.txt"}]}`, `"which commit?" [a [2J.txt]`},
		{state.CLI, "\n\n  is it red?\nor blue?", `"is it red? or blue?" []`},
		{state.CLI, "", `"" []`},
		{state.CLI, long, fmt.Sprintf("%q []", strings.TrimSpace(long)[:subjectCells]+"…")},
	} {
		key := fmt.Sprint("cli:", i)
		m := kept(t, st, key, c.source, c.payload)
		heads := Headliner{Store: st}
		got := heads.of(m.Source, m.Payload, m.Sum, int64(m.Size))
		if text := fmt.Sprintf("%q %v", got.Subject, got.Files); text != c.want || got.Damaged != "" {
			t.Errorf("%s: %s, %q; want %s", c.payload, text, got.Damaged, c.want)
		}
		if c.payload == "" {
			continue
		}
		if err := os.WriteFile(st.Path(m.Payload), []byte(strings.ToUpper(c.payload)+"!"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := heads.of(m.Source, m.Payload, m.Sum, int64(m.Size)); got.Damaged != "its text is damaged" || got.Subject != "" {
			t.Errorf("%s, damaged: %+v", c.payload, got)
		}
		if err := os.Remove(st.Path(m.Payload)); err != nil {
			t.Fatal(err)
		}
		if got := heads.of(m.Source, m.Payload, m.Sum, int64(m.Size)); got.Damaged != "its text is missing" {
			t.Errorf("%s, missing: %+v", c.payload, got)
		}
	}
}

// TestHeadlineBudget checks that beyond its limit a list reads only the beginnings: the subject
// and no files, or the length of a damaged payload.
func TestHeadlineBudget(t *testing.T) {
	st := &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}
	m := kept(t, st, "mail:1", state.Mail, withFile+strings.Repeat("x", headlineRead))
	heads := Headliner{Store: st, read: wholeBudget}
	if got := heads.of(m.Source, m.Payload, m.Sum, int64(m.Size)); got.Subject != "grün" || got.Files != nil || got.Damaged != "" {
		t.Errorf("%+v", got)
	}
	if err := os.Truncate(st.Path(m.Payload), int64(m.Size-1)); err != nil {
		t.Fatal(err)
	}
	if got := heads.of(m.Source, m.Payload, m.Sum, int64(m.Size)); got.Damaged == "" {
		t.Errorf("one that is cut: %+v", got)
	}
	long := kept(t, st, "cli:1", state.CLI, strings.Repeat("я", headlineRead))
	if got := heads.of(long.Source, long.Payload, long.Sum, int64(long.Size)); !strings.HasPrefix(got.Subject, "яя") || strings.Contains(got.Subject, "�") {
		t.Errorf("%+v", got)
	}
}

// BenchmarkListing lists 1,000 mails of 5 kB that wait.
func BenchmarkListing(b *testing.B) {
	st := &store.Store{Dir: b.TempDir(), Agent: "goulard3120"}
	var rows []state.Message
	for i := range 1000 {
		name := store.PayloadName(store.MessagesDir, fmt.Sprint("mail:", i), ".eml")
		if err := os.MkdirAll(st.Path(store.MessagesDir), 0o700); err != nil {
			b.Fatal(err)
		}
		raw := slices.Concat([]byte(withFile), bytes.Repeat([]byte("x"), 5000))
		if err := os.WriteFile(st.Path(name), raw, 0o600); err != nil {
			b.Fatal(err)
		}
		rows = append(rows, state.Message{Key: fmt.Sprint("mail:", i), Source: state.Mail, Payload: name, Sum: store.Sum(raw), Size: len(raw)})
	}
	for b.Loop() {
		heads := Headliner{Store: st}
		for _, m := range rows {
			if got := heads.of(m.Source, m.Payload, m.Sum, int64(m.Size)); got.Subject == "" {
				b.Fatal(got)
			}
		}
	}
}

// TestListingRemembersHeadlines reads a payload once for several lists, and forgets it with its row.
func TestListingRemembersHeadlines(t *testing.T) {
	st := &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}
	m := kept(t, st, "cli:1", state.CLI, "hello")
	known := &Headlines{}
	list := func(inbox ...state.Message) string {
		t.Helper()
		if _, err := st.Commit(t.Context(), monday, func(s state.State, _ store.Recovery) (state.State, error) {
			s = state.Step(s, nil, state.Policy{}, monday)
			s.Inbox = inbox
			return s, nil
		}); err != nil {
			t.Fatal(err)
		}
		rows, _, err := Reader{Store: st, Policy: &state.Policy{}, Now: func() time.Time { return monday }, Headlines: known}.Listing()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(len(rows), len(known.present), len(rows) > 0 && rows[0].Subject == "hello")
	}
	if got := list(m); got != "1 1 true" {
		t.Error(got)
	}
	if err := os.Remove(st.Path(m.Payload)); err != nil {
		t.Fatal(err)
	}
	if got := list(m); got != "1 1 true" {
		t.Errorf("the payload is read again: %s", got)
	}
	if got := list(); got != "0 0 false" {
		t.Error(got)
	}
}
