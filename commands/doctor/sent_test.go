package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
)

// TestSentFolderFindings checks the findings about the folder for copies of sent mail.
func TestSentFolderFindings(t *testing.T) {
	servers := mailtest.StartMemory(t, mailtest.Options{})
	if err := servers.Create("Sent"); err != nil {
		t.Fatal(err)
	}
	server := mail.Server{Addr: servers.IMAP, TLS: mail.TLSNone, Username: servers.Username, Timeout: time.Minute, Secret: func(context.Context) (string, error) { return servers.Password, nil }}
	for _, c := range []struct {
		smtp, folder string
		level        Level
		text, hint   string
	}{
		{"smtp.gmail.com:465", "", OK, "smtp.gmail.com keeps copies", ""},
		{"smtp.gmail.com:465", "Sent", Info, "itself keeps copies of sent mail", "remove sent"},
		{"smtp.notgmail.com:465", "", OK, `no copies of sent mail are kept; sent = "Sent" in [replies] would`, ""},
		{"smtp-mail.outlook.com:587", "", OK, "keeps copies", ""},
		{"mail.example.org:465", "Sent", OK, `go to "Sent"`, ""},
		{"mail.example.org:465", "Versendet", Warn, `no folder "Versendet"`, "create the folder"},
	} {
		smtp := server
		smtp.Addr = c.smtp
		found := sentCheck{mail: &cycle.Mail{Mailbox: mail.Mailbox{Server: server}, SMTP: smtp}, folder: c.folder}.run(t.Context())
		if len(found) != 1 || found[0].Level != c.level || !strings.Contains(found[0].Text, c.text) || !strings.Contains(found[0].Hint, c.hint) {
			t.Errorf("%s, folder %q: %+v", c.smtp, c.folder, found)
		}
	}
}
