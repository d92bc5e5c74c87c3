package commands

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentstateloop/cycle/view"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mesh"
)

// TestPeerMailsTheOperatorDuringAnOutage runs two agents with the real program. The
// password of alpha's mailbox stops working. Alpha asks beta through the mesh, and
// beta mails the operator in its place.
func TestPeerMailsTheOperatorDuringAnOutage(t *testing.T) {
	t.Parallel()
	tokens := map[string]string{"alpha": "token-of-alpha", "beta": "token-of-beta"}
	web := httptest.NewServer(mesh.NewServer(mesh.Options{Tokens: tokens}))
	t.Cleanup(web.Close)
	s := &meshAgents{t: t, program: buildProgram(t, t.TempDir()), url: web.URL, dirs: map[string]string{}}
	boxes := map[string]*mailtest.Servers{}
	for handle, other := range map[string]string{"alpha": "beta", "beta": "alpha"} {
		s.add(handle, "echo 'I shall see to it'\n", other)
		boxes[handle] = mailtest.StartMemory(t, mailtest.Options{Username: handle + "@example.org"})
		s.configureMail(handle, boxes[handle], tokens[handle], other)
		s.run(handle, "poll")
	}

	boxes["alpha"].SetPassword("rotated at night")
	for range 3 {
		s.runExpecting(exitSource, "alpha", "poll", "--quiet")
	}
	if got := s.run("alpha", "status"); !strings.Contains(got, "CREDENTIAL imap failed in 3 polls in a row since") || !strings.Contains(got, "; you were informed") {
		t.Errorf("status:\n%s", got)
	}
	// Beta is also alpha's keymaster. It has a turn for each alarm, but the request to relay a mail
	// causes no turn.
	s.run("beta", "poll")
	if n := len(s.tasks("beta")); n != 2 {
		t.Errorf("%d turns, want one for imap and one for smtp", n)
	}
	relayed := 0
	for _, m := range boxes["beta"].Sent() {
		text := string(m.Raw)
		if !strings.Contains(text, "Subject: @beta: message from alpha\r\n") {
			continue
		}
		relayed++
		if m.To[0] != "operator@example.com" || !strings.Contains(text, "> The login imap of @alpha was refused in 3 polls in a row") || strings.Contains(text, "rotated") {
			t.Errorf("beta mailed %s", text)
		}
	}
	if relayed != 1 || len(boxes["alpha"].Sent()) != 0 {
		t.Errorf("beta relayed %d mails, want 1; alpha sent %d, want 0", relayed, len(boxes["alpha"].Sent()))
	}

	boxes["alpha"].SetPassword(boxes["alpha"].Password)
	s.run("alpha", "poll")
	sent := boxes["alpha"].Sent()
	if len(sent) != 1 || !strings.Contains(string(sent[0].Raw), "Subject: @alpha: login imap works again\r\n") {
		t.Errorf("when it works again: alpha sent %d mails, want 1: %s", len(sent), sent)
	}
	s.run("alpha", "poll")
	s.run("beta", "poll")
	if n := len(s.tasks("beta")); n != 2 {
		t.Errorf("%d turns, want 2: a recovery causes no turn", n)
	}
}

// configureMail writes a configuration with this mailbox, token and keymaster.
func (s *meshAgents) configureMail(handle string, box *mailtest.Servers, token, keymaster string) {
	s.t.Helper()
	config := fmt.Sprintf(`[agent]
handle = %q
operator = ["operator@example.com"]
state_dir = "state"
[mail]
address = "%[1]s@example.org"
[mail.imap]
host = %q
tls = "none"
password_file = "password"
[mail.smtp]
host = %q
tls = "none"
[trust]
require = "from"
[mesh]
url = %q
token_file = "token"
peers = [%[5]q]
keymaster = %[5]q
[turn]
command = ["./agent.sh"]
[schedule]
mode = "none"
`, handle, box.IMAP, box.SMTP, s.url, keymaster)
	writeFiles(s.t, s.dirs[handle], map[string]string{"agent.toml": config, "password": box.Password, "token": token})
}

// TestUnfetchableMail runs the real program on a mailbox with a mail that the server lists, but
// does not deliver. The poll exits 3 with an error, and the inbox shows the mail and can drop it.
func TestUnfetchableMail(t *testing.T) {
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
	s.runExpecting(exitSource, "alpha", "poll") // the mesh is missing
	corrupt.Store(true)
	raw := "From: operator@example.com\r\nSubject: @alpha hello\r\nMessage-ID: <one@example.com>\r\n\r\nhello\r\n"
	if _, err := box.Append([]byte(raw), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := s.runExpecting(exitSource, "alpha", "poll", "--json"); !strings.Contains(got, "mailbox corrupt") || !strings.Contains(got, "could not fetch mail:") {
		t.Errorf("the poll prints %q", got)
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
		if !strings.Contains(got, key) || !strings.Contains(got, "cannot be fetched, 1 failure, next try ") || !strings.Contains(got, "mailbox corrupt") {
			t.Errorf("inbox %s prints\n%s", command, got)
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
