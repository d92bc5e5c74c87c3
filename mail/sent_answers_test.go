package mail_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// ownMail returns a mail of the agent handle in the thread "weather", which answers answered.
func ownMail(t testing.TB, handle, effect, answered string, references ...string) string {
	t.Helper()
	var b strings.Builder
	err := message.Render(&b, message.Draft{
		ID: effect, IDKey: filter.IDKey, Handle: handle, From: filter.Own, To: filter.Operators[0], Subject: "weather", Date: noon,
		InReplyTo: answered, References: references, Thread: "abc", Text: "sunny", Auto: message.AutoReplied,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// answersOf reads the folder for sent mail of b.
func answersOf(t testing.TB, b mail.Mailbox, since time.Time) (mail.Answers, error) {
	t.Helper()
	s, err := b.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	answers, err := s.Answered(t.Context(), filter.Handle, since)
	if _, e := s.Scan(t.Context(), state.Cursor{}, filter, 1, discard); e != nil {
		t.Error("the session does not work any more: ", e)
	}
	return answers, err
}

// wantAnswers checks the evidence of the mails that fillSent puts into the folder.
func wantAnswers(t *testing.T, answers mail.Answers) {
	t.Helper()
	for id, want := range map[string]bool{
		"<one@example.com>":    true,
		"<ONE@EXAMPLE.COM>":    true,
		"<two@example.com>":    false, // only an ack
		"<three@example.com>":  false, // by another agent
		"<root@example.com>":   false, // only in References
		"<four@example.com>":   false, // in a mail without our field
		"<nobody@example.com>": false,
		"":                     false,
	} {
		if got := answers.To(id); got != want {
			t.Errorf("To(%q) = %v", id, got)
		}
	}
	sent := idsOf(filter.Handle, filter.Own)
	for effect, want := range map[string]bool{"reply.t1": true, "ack.a2": true, "reply.t9": false} {
		if got := answers.Sent(sent.Make(message.InThread(effect, "abc"), "weather")); got != want {
			t.Errorf("Sent(%s) = %v", effect, got)
		}
	}
}

// sentMails are the mails in the folder for sent mail.
func sentMails(t testing.TB) []string {
	return []string{
		ownMail(t, filter.Handle, "reply.t1", "<one@example.com>", "<root@example.com>"),
		ownMail(t, filter.Handle, "ack.a2", "<two@example.com>"),
		ownMail(t, "dorlange3120", "reply.t3", "<three@example.com>"),
		strings.Replace(ownMail(t, filter.Handle, "reply.t4", "<four@example.com>"), message.AgentField, "X-Other", 1),
	}
}

// TestAnswersInSentFolder checks the evidence in the folder for sent mail, which is configured or
// marked by the server.
func TestAnswersInSentFolder(t *testing.T) {
	for _, c := range []struct {
		name, configured, folder string
		special                  bool
		search                   func(*imap.SearchCriteria) error
	}{
		{"marked", "", "[Gmail]/Gesendet & mehr", true, nil},
		{"configured", "Sent", "Sent", false, nil},
		{"configured elsewhere than marked", "Sent", "Sent", true, nil},
		{"a server that compares no field", "Sent", "Sent", false, func(c *imap.SearchCriteria) error {
			if len(c.Header) > 0 {
				return &imap.Error{Type: imap.StatusResponseTypeNo, Text: "not supported"}
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTrace()
			h, servers := memoryHost(t, mailtest.Options{Trace: tr, SpecialUse: c.special, OnSearch: c.search})
			create := servers.CreateSent
			if c.configured != "" {
				create = servers.Create
			}
			if err := create(c.folder); err != nil {
				t.Fatal(err)
			}
			for _, raw := range sentMails(t) {
				if _, err := servers.AppendTo(c.folder, []byte(raw), noon); err != nil {
					t.Fatal(err)
				}
			}
			b := mailboxOf(h)
			b.Sent = c.configured
			answers, err := answersOf(t, b, noon)
			if err != nil || answers.Missing != "" {
				t.Fatalf("%v, missing: %s", err, answers.Missing)
			}
			wantAnswers(t, answers)
			if answers, err = answersOf(t, b, noon.AddDate(0, 0, 3)); err != nil || answers.To("<one@example.com>") {
				t.Errorf("answers of earlier days were read, %v", err)
			}
			for line := range strings.Lines(tr.String()) {
				for _, wrong := range []string{" SELECT ", " STORE ", "BODY["} {
					if strings.HasPrefix(line, "T") && strings.Contains(line, wrong) && !strings.Contains(line, "INBOX") && !strings.Contains(line, " OK ") {
						t.Errorf("the folder was not only read: %q", line)
					}
				}
			}
		})
	}
}

// TestSentFolders finds the folder that a server marks only when asked, and a folder by its name.
func TestSentFolders(t *testing.T) {
	h, servers := memoryHost(t, mailtest.Options{SpecialUse: true})
	for folder, create := range map[string]func(string) error{"[Gmail]/Gesendet & mehr": servers.CreateSent, "Sent": servers.Create} {
		if err := create(folder); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"": false, "Sent": true, "[Gmail]/Gesendet & mehr": true, "Nowhere": false, "*": false, "S%": false} {
		marked, exists, err := mailboxOf(h).SentFolders(t.Context(), name)
		if err != nil || exists != want || !slices.Equal(marked, []string{"[Gmail]/Gesendet & mehr"}) {
			t.Errorf("%q: marked %q, exists %v, %v", name, marked, exists, err)
		}
	}
}

// TestAnswersMissing checks that a server without such a folder causes no error, and that a broken
// connection does.
func TestAnswersMissing(t *testing.T) {
	for _, c := range []struct {
		name, configured, why string
		options               mailtest.Options
		create                bool
	}{
		{name: "no special use", why: "the server names no folder"},
		{name: "nothing marked", why: "the server names no folder", options: mailtest.Options{SpecialUse: true}},
		{name: "no such folder", why: "No such mailbox", configured: "Sent"},
		{name: "no permission", why: "not permitted", configured: "Sent", create: true, options: mailtest.Options{
			OnFetch: func(net.Conn, imap.NumSet, *imap.FetchOptions) error {
				return &imap.Error{Type: imap.StatusResponseTypeNo, Text: "not permitted"}
			}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, servers := memoryHost(t, c.options)
			if c.create {
				if err := servers.Create("Sent"); err != nil {
					t.Fatal(err)
				}
				if _, err := servers.AppendTo("Sent", []byte(ownMail(t, filter.Handle, "reply.t1", "<one@example.com>")), noon); err != nil {
					t.Fatal(err)
				}
			}
			b := mailboxOf(h)
			b.Sent = c.configured
			answers, err := answersOf(t, b, noon)
			if err != nil || !strings.Contains(answers.Missing, c.why) {
				t.Errorf("%v, missing: %q", err, answers.Missing)
			}
			if answers.To("<one@example.com>") || answers.Sent("<one@example.com>") {
				t.Error("there is evidence")
			}
		})
	}

	h, servers := memoryHost(t, mailtest.Options{OnFetch: func(c net.Conn, _ imap.NumSet, _ *imap.FetchOptions) error {
		c.Close()
		return io.EOF
	}})
	if err := servers.Create("Sent"); err != nil {
		t.Fatal(err)
	}
	if _, err := servers.AppendTo("Sent", []byte(ownMail(t, filter.Handle, "reply.t1", "<one@example.com>")), noon); err != nil {
		t.Fatal(err)
	}
	b := mailboxOf(h)
	b.Sent = "Sent"
	if answers, err := answersOf(t, b, noon); err == nil {
		t.Errorf("a broken connection causes no error, missing: %q", answers.Missing)
	}
}

// TestAnswersAreBounded checks the limit on the mails that are read: the newest count.
func TestAnswersAreBounded(t *testing.T) {
	h, servers := memoryHost(t, mailtest.Options{})
	if err := servers.Create("Sent"); err != nil {
		t.Fatal(err)
	}
	for n := range 1200 {
		raw := ownMail(t, filter.Handle, fmt.Sprintf("reply.t%d", n), fmt.Sprintf("<m%d@example.com>", n))
		if _, err := servers.AppendTo("Sent", []byte(raw), noon); err != nil {
			t.Fatal(err)
		}
	}
	b := mailboxOf(h)
	b.Sent = "Sent"
	answers, err := answersOf(t, b, noon)
	if err != nil || answers.Missing != "" || !answers.To("<m0@example.com>") || !answers.To("<m1199@example.com>") {
		t.Errorf("%v, missing: %q", err, answers.Missing)
	}
	b.Until = time.Now()
	if ids, missing, err := b.ReadSent(t.Context(), filter.Handle, 5000); err != nil || !strings.Contains(missing, "the time") || len(ids) > 0 {
		t.Errorf("late: %d mails, %v, missing: %q", len(ids), err, missing)
	}
	b.Until = time.Now().Add(time.Minute)
	ids, missing, err := b.ReadSent(t.Context(), filter.Handle, 600)
	if err != nil || !strings.Contains(missing, "newest 600") || len(ids) != 600 || slices.Contains(ids, "<m599@example.com>") {
		t.Errorf("%d mails, %v, missing: %q", len(ids), err, missing)
	}
}

// TestDovecotAnswers reads the folder that a real server marks \Sent.
func TestDovecotAnswers(t *testing.T) {
	t.Parallel()
	d := mailtest.StartDovecot(t)
	b := mailboxOf(dovecotHost(t, d))
	if answers, err := answersOf(t, b, noon); err != nil || answers.Missing == "" {
		t.Fatalf("without the folder: %v, missing %q", err, answers.Missing)
	}
	if out, err := exec.Command("doveadm", "-c", d.Conf(), "mailbox", "create", "-u", d.Username, "Sent").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if answers, err := answersOf(t, b, noon); err != nil || answers.Missing != "" {
		t.Fatalf("an empty folder: %v, missing %q", err, answers.Missing)
	}
	s, err := b.OpenFolder(t.Context(), "Sent")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, raw := range sentMails(t) {
		if err := s.Append(t.Context(), int64(len(raw)), strings.NewReader(raw), noon); err != nil {
			t.Fatal(err)
		}
	}
	answers, err := answersOf(t, b, noon)
	if err != nil || answers.Missing != "" {
		t.Fatalf("%v, missing: %s", err, answers.Missing)
	}
	wantAnswers(t, answers)
}

// TestScanReadsAnswered checks the flag \Answered and the calls of other agents.
func TestScanReadsAnswered(t *testing.T) {
	h, servers := memoryHost(t, mailtest.Options{})
	l := mustScan(t, mailboxOf(h), state.Cursor{}, 10, discard)
	for subject, flags := range map[string][]imap.Flag{
		"@goulard3120 answered":            {imap.FlagAnswered},
		"@goulard3120 open":                {imap.FlagSeen},
		"@goulard3120 @dorlange3120 both":  {imap.FlagAnswered},
		"@goulard3120 @GOULARD3120 again ": nil,
	} {
		if _, err := servers.Append([]byte(letter(subject)), noon, flags...); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range mustScan(t, mailboxOf(h), l.Cursor, 10, discard).Messages {
		answered := strings.HasSuffix(m.Header.Subject, "answered") || strings.HasSuffix(m.Header.Subject, "both")
		others := strings.HasSuffix(m.Header.Subject, "both")
		if m.Answered != answered || m.CallsOthers != others {
			t.Errorf("%q: answered %v, calls others %v", m.Header.Subject, m.Answered, m.CallsOthers)
		}
	}
}

// TestSentElsewhere checks which mails in the folder for sent mail show another machine.
func TestSentElsewhere(t *testing.T) {
	const here, other = "0123456789abcdef", "fedcba9876543210"
	h, servers := memoryHost(t, mailtest.Options{SpecialUse: true})
	if err := servers.CreateSent("Sent"); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		effect, place string
		after         time.Duration
	}{
		{"reply.t1", other, -time.Hour}, {"reply.t2", other, time.Hour}, {"reply.t3", here, time.Hour}, {"ack.a4", other, 2 * time.Hour},
		{"reply.t5", "", time.Hour}, {"reply.t6", "not a place", time.Hour},
	} {
		raw := ownMail(t, filter.Handle, m.effect, "<one@example.com>")
		if m.place != "" {
			raw = message.PlaceField + ": " + m.place + "\r\n" + raw
		}
		if _, err := servers.AppendTo("Sent", []byte(raw), noon.Add(m.after)); err != nil {
			t.Fatal(err)
		}
	}
	foreign := message.PlaceField + ": " + other + "\r\n" + ownMail(t, "dorlange3120", "reply.t7", "<one@example.com>")
	if _, err := servers.AppendTo("Sent", []byte(foreign), noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s, err := mailboxOf(h).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found, err := s.SentElsewhere(t.Context(), filter.Handle, here, noon)
	want := []mail.ElsewhereMail{{Place: other, Effect: "ack.a4", At: noon.Add(2 * time.Hour)}, {Place: other, Effect: "reply.t2", At: noon.Add(time.Hour)}}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("%+v, want %+v, %v", found, want, err)
	}
}
