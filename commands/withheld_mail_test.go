package commands

import (
	"encoding/json"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/internal/testkit/mailtest"

	"github.com/emersion/go-imap/v2"
)

// TestMailThatCannotBeFetched runs the real program on a mailbox with a mail that the
// server lists and does not hand out: the poll says so and exits 3, and the inbox
// shows and drops it.
func TestMailThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	s := &meshAgents{t: t, program: buildProgram(t, t.TempDir()), url: "http://127.0.0.1:1", dirs: map[string]string{}}
	s.add("alpha", "echo 'I shall see to it'\n", "beta")
	var corrupt atomic.Bool
	box := mailtest.StartMemory(t, mailtest.Options{Username: "alpha@example.org", OnFetch: func(_ net.Conn, _ imap.NumSet, o *imap.FetchOptions) error {
		if corrupt.Load() && o.BodySection[0].Specifier == imap.PartSpecifierNone {
			return &imap.Error{Type: imap.StatusResponseTypeNo, Text: "mailbox corrupt"}
		}
		return nil
	}})
	s.configureMail("alpha", box, "token", "beta")
	s.runExpecting(exitSource, "alpha", "poll") // nobody serves the mesh
	corrupt.Store(true)
	raw := "From: operator@example.com\r\nSubject: @alpha hello\r\nMessage-ID: <one@example.com>\r\n\r\nhello\r\n"
	if _, err := box.Append([]byte(raw), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := s.runExpecting(exitSource, "alpha", "poll", "--json"); !strings.Contains(got, "mailbox corrupt") || !strings.Contains(got, "could not fetch mail:") {
		t.Errorf("the poll says %q", got)
	}
	var rows []view.InboxRow
	if err := json.Unmarshal([]byte(s.run("alpha", "inbox", "list", "--json")), &rows); err != nil || len(rows) != 1 || rows[0].Status != "failing" || rows[0].Tries != 1 {
		t.Fatalf("rows %+v, %v", rows, err)
	}
	key, number := rows[0].Key, rows[0].Number
	if number == nil || *number != "f1" {
		t.Fatalf("its number is %v", number)
	}
	for _, command := range []string{"list", "show " + key, "show f1"} {
		got := s.run("alpha", append([]string{"inbox"}, strings.Fields(command)...)...)
		if !strings.Contains(got, key) || !strings.Contains(got, "cannot be fetched, 1 failure, again at ") || !strings.Contains(got, "mailbox corrupt") {
			t.Errorf("inbox %s says:\n%s", command, got)
		}
	}
	s.runExpecting(exitError, "alpha", "inbox", "retry", "f1")
	s.run("alpha", "inbox", "drop", "f1", "--reason", "not wanted")
	corrupt.Store(false)
	s.runExpecting(exitSource, "alpha", "poll")
	if got := s.run("alpha", "inbox", "list"); got != "" {
		t.Errorf("after the drop:\n%s", got)
	}
	if got := s.run("alpha", "history"); !strings.Contains(got, "not wanted") {
		t.Errorf("history:\n%s", got)
	}
}
