package mail_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentstateloop/mail"
	"agentstateloop/mail/mailtest"
)

// The stories run against a real server.
func TestDovecot(t *testing.T) {
	server := mailtest.StartDovecot(t)
	runStories(t, func(t *testing.T) host {
		d := server.Fresh(t)
		var last uint32
		return host{
			server: mail.Server{
				Addr: d.IMAPTLS, TLS: mail.TLSImplicit, Username: d.Username, Secret: fixedSecret(d.Password),
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

// A test whose process is killed leaves no Dovecot behind.
func TestDovecotOfAKilledTest(t *testing.T) {
	const killed = "MAIL_TEST_KILLED"
	if os.Getenv(killed) != "" {
		fmt.Println("dovecot at", mailtest.StartDovecot(t).IMAP)
		select {}
	}
	mailtest.StartDovecot(t) // or skips
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestDovecotOfAKilledTest$")
	cmd.Env = append(os.Environ(), killed+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "dovecot at ")
	cmd.Process.Kill()
	cmd.Wait() // the error says that it was killed
	if err != nil || !ok {
		t.Fatalf("it said %q, %v", line, err)
	}
	for err == nil { // until nothing listens there any more
		var conn net.Conn
		if conn, err = net.Dial("tcp", addr); err == nil {
			conn.Close()
		}
	}
}
