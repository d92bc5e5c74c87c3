package mail_test

import (
	"testing"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mail/mailtest"
)

// The stories against a real server.
func TestDovecot(t *testing.T) {
	server := mailtest.StartDovecot(t)
	runStories(t, func(t *testing.T) host {
		d := server.Fresh(t)
		var last uint32
		return host{
			server: mail.Server{
				Addr: d.IMAPTLS, TLS: mail.TLSImplicit, Username: d.Username, Secret: secret(d.Password),
				CAFile: d.CAFile, Timeout: time.Minute,
			},
			plain: d.IMAP,
			append: func(raw string, seen bool) uint32 {
				t.Helper()
				if err := d.Append([]byte(raw), seen); err != nil {
					t.Fatal(err)
				}
				last++
				return last
			},
			renumber: func() {
				t.Helper()
				if err := d.Renumber(); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}
