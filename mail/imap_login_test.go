package mail_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// TestLoginInOneFlight checks that login, ID and SELECT are sent before the server sends anything.
func TestLoginInOneFlight(t *testing.T) {
	addr := startServer(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for _, want := range []string{"LOGIN", "ID", "SELECT"} {
			line, err := br.ReadString('\n')
			if err != nil || !strings.Contains(line, want) {
				t.Errorf("got %q, %v; want %s", line, err, want)
				return
			}
		}
		io.WriteString(c, loginAnswers)
		io.Copy(io.Discard, br)
	})
	s, err := plainMailbox(addr).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.UIDValidity() != 7 {
		t.Errorf("Validity() = %d", s.UIDValidity())
	}
}

// TestServersThatNeedID checks that the ID is sent together with the login, for servers that open no
// mailbox without it, and that the answer to it does not matter.
func TestServersThatNeedID(t *testing.T) {
	for name, answer := range map[string]string{
		"it wants it":        "* ID (\"name\" \"Coremail\")\r\nI1 OK ID completed\r\n",
		"it does not know":   "I1 BAD unknown command\r\n",
		"it refuses":         "I1 NO not now\r\n",
		"it says NIL":        "* ID NIL\r\nI1 OK done\r\n",
		"it does not answer": "",
	} {
		t.Run(name, func(t *testing.T) {
			addr := startServer(t, func(c net.Conn) {
				io.WriteString(c, "* OK ready\r\n")
				identified := false
				for tag, command := range commands(bufio.NewReader(c)) {
					switch {
					case strings.HasPrefix(command, "ID "):
						identified = strings.Contains(command, `"name" "agentstateloop"`)
						io.WriteString(c, answer)
					case strings.HasPrefix(command, "SELECT") && !identified:
						io.WriteString(c, tag+" NO SELECT Unsafe Login. Please contact kefu@188.com for help\r\n")
					case strings.HasPrefix(command, "SELECT"):
						io.WriteString(c, "* FLAGS (\\Seen)\r\n* 0 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 3] x\r\n"+tag+" OK selected\r\n")
					default:
						io.WriteString(c, tag+" OK done\r\n")
					}
				}
			})
			cur := state.Cursor{Mailbox: plainMailbox(addr).ID(), Validity: 7, Next: 3}
			if l := mustScan(t, plainMailbox(addr), cur, 10, discard); l.Cursor.Next != 3 {
				t.Errorf("cursor at %d", l.Cursor.Next)
			}
		})
	}
}

func TestIMAPTokenLogin(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{Token: "ya29.token"})
	uid := h.append(letter("@goulard3120 hello"), false)
	for _, auth := range []string{mail.AuthXOAuth2, mail.AuthOAuthBearer} {
		b := mailboxOf(h)
		b.Auth, b.Secret = auth, fixedSecret("ya29.token")
		wantUIDs(t, auth, uids(mustScan(t, b, state.Cursor{}, 10, discard)), []uint32{uid})

		for _, wrong := range []string{"expired", "two words"} {
			b.Secret = fixedSecret(wrong)
			_, err := b.Open(t.Context())
			if c, ok := state.CredentialFailure(err); !ok || c.Name != "imap" {
				t.Errorf("%s with a refused token: %v, want a failure of the credential imap", auth, err)
			}
		}
	}
}

func TestUnusualPasswords(t *testing.T) {
	for _, password := range []string{`quote " and \ slash`, "Grüße ☕", "  blanks ", "%d{3}\r\nX"} {
		h, _ := memoryHost(t, mailtest.Options{Password: password})
		s, err := mailboxOf(h).Open(t.Context())
		if err != nil {
			t.Errorf("password %q: %v", password, err)
			continue
		}
		s.Close()
	}
}

// TestLoginAnswers checks which responses to the login are credential failures.
func TestLoginAnswers(t *testing.T) {
	for _, tt := range []struct {
		says       string
		credential bool
	}{
		{"* OK hi\r\nL1 NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)\r\nT1 BAD select first\r\n", true},
		{"* OK hi\r\nL1 NO [ALERT] Application-specific password required\r\n", true},
		{"* OK hi\r\nL1 NO LOGIN failed.\r\n", true},
		{"* OK hi\r\n* BYE Too many login failures\r\n", true},
		{"* OK hi\r\nL1 NO [UNAVAILABLE] later\r\n", false},
		{"* OK hi\r\nL1 NO [ALERT] Too many simultaneous connections. (Failure)\r\n", false},
		{"* OK hi\r\nL1 NO [PRIVACYREQUIRED] not in clear\r\n", false},
		{"* OK hi\r\nL1 BAD what\r\n", false},
		{"* OK hi\r\n* BYE Server shutting down.\r\n", false},
		{"* BYE [ALERT] too many connections\r\n", false},
		{"* OK hi\r\n", false},
		{"", false},
		{"HTTP/1.1 400 Bad Request\r\n", false},
		{"* OK hi\r\nL1 OK in\r\nT1 NO [NONEXISTENT] no such mailbox\r\n", false},
		{"* OK hi\r\nL1 OK in\r\n* 1 EXISTS\r\nT1 OK no uidvalidity\r\n", false},
		{strings.Repeat("x", 200_000), false},
	} {
		addr := startServer(t, func(c net.Conn) {
			br := bufio.NewReader(c)
			br.ReadString('\n')
			br.ReadString('\n')
			io.WriteString(c, tt.says)
		})
		s, err := plainMailbox(addr).Open(t.Context())
		if err == nil {
			s.Close()
			t.Errorf("%.60q: no error", tt.says)
			continue
		}
		if _, ok := state.CredentialFailure(err); ok != tt.credential {
			t.Errorf("%.60q: credential failure %v, want %v: %v", tt.says, ok, tt.credential, err)
		}
	}
}

// TestSecretIsNotEchoed checks that a server that echoes its input does not get the secret into an
// error.
func TestSecretIsNotEchoed(t *testing.T) {
	addr := startServer(t, func(c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprintf(c, "* OK hi\r\nL1 NO cannot %s\r\n", strings.TrimSpace(line))
	})
	b := plainMailbox(addr)
	for _, s := range []string{"hunter2", `hun"ter\2`, "hünter2"} {
		b.Secret = fixedSecret(s)
		_, err := b.Open(t.Context())
		if err == nil || strings.Contains(err.Error(), "nter") {
			t.Errorf("error with the secret %q: %v", s, err)
		}
	}
}

func TestUnreadableSecret(t *testing.T) {
	h, _ := memoryHost(t, mailtest.Options{})
	b := mailboxOf(h)
	missing := errors.New("no such file")
	b.Secret = func(context.Context) (string, error) { return "", missing }
	_, err := b.Open(t.Context())
	if _, ok := state.CredentialFailure(err); !ok || !errors.Is(err, missing) {
		t.Errorf("got %v", err)
	}
}

func storyPassword(t *testing.T, h host) {
	for _, wrong := range []string{"wrong", `qu"ote\`, "nön-äscii", "line\nfeed", ""} {
		b := mailboxOf(h)
		b.Secret = fixedSecret(wrong)
		_, err := b.Open(t.Context())
		c, ok := state.CredentialFailure(err)
		if !ok || c.Name != "imap" {
			t.Errorf("password %q: %v, want a failure of the credential imap", wrong, err)
		}
		if wrong != "" && strings.Contains(fmt.Sprint(err), wrong) {
			t.Errorf("the error holds the secret: %v", err)
		}
	}
}
