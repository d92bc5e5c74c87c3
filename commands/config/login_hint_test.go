package config

import (
	"strings"
	"testing"

	"agentstateloop/internal/account"
)

// TestProviderNoteByHost checks which hosts need a password of their own, and that a token needs none.
func TestProviderNoteByHost(t *testing.T) {
	for host, want := range map[string]string{
		"imap.gmail.com:993": "Gmail", "smtp.googlemail.com": "Gmail", "IMAP.GMAIL.COM.:993": "Gmail", "gmail.com": "Gmail",
		"imap.fastmail.com:993": "Fastmail", "smtp.mail.me.com:587": "iCloud", "imap.mail.yahoo.com:993": "Yahoo", "imap.aol.com:993": "Yahoo",
		"outlook.office365.com:993": "Outlook", "smtp-mail.outlook.com:587": "Outlook",
		"imap.example.com:993": "", "imap.notgmail.com:993": "", "gmail.com.example.org:993": "", "127.0.0.1:993": "", "": "",
	} {
		got := ProviderNote(host, "plain")
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("ProviderNote(%q) = %q, want %q", host, got, want)
		}
		if got := ProviderNote(host, "xoauth2"); got != "" {
			t.Errorf("with a token %s needs %q", host, got)
		}
	}
}

// TestLoginHintNamesSecret checks that the hint names the source of the secret.
func TestLoginHintNamesSecret(t *testing.T) {
	const imap = "[agent]\nhandle = \"a\"\n[mail]\naddress = \"a@example.org\"\n[mail.imap]\nhost = \"imap.example.org:993\"\n"
	for text, want := range map[string]struct{ imap, smtp string }{
		imap + "password_file = \"p\"": {
			"correct the password in /c/p (`agentstateloop init --password` tests a new one first), or the username in [mail.imap]; the next poll reads both again",
			"correct the password in /c/p (`agentstateloop init --password` tests a new one first), or the username in [mail.smtp]; the next poll reads both again",
		},
		imap + "password_file = \"p\"\n[mail.smtp]\nhost = \"smtp.gmail.com:465\"\npassword_env = \"PW\"": {
			"correct the password in /c/p (", "correct the password in the environment variable PW, which the crontab sets, or the username in [mail.smtp]; the next poll reads both again; Gmail needs",
		},
		imap + "password_command = [\"pass\", \"show\", \"x\"]": {"correct the password that pass prints, or", "correct the password that pass prints, or"},
		imap + "auth = \"xoauth2\"\ntoken_command = [\"tok\"]":  {"correct the token that tok prints, or", "correct the token that tok prints, or"},
		imap + "auth = \"xoauth2\"\n[mail.imap.oauth2]\nprovider = \"google\"\nclient_id = \"1\"\nrefresh_token_file = \"r\"": {
			"run `agentstateloop login` and sign in as a@example.org to get a new refresh token", "run `agentstateloop login` and sign in as a@example.org to get a new refresh token",
		},
		imap + "username = \"u\"\nauth = \"xoauth2\"\n[mail.imap.oauth2]\nprovider = \"google\"\nclient_id = \"1\"\nrefresh_token_file = \"r\"": {
			"run `agentstateloop login` and sign in as u to get a new refresh token", "run `agentstateloop login` and sign in as u to get a new refresh token",
		},
	} {
		l := &Loader{Account: func() (account.Account, error) { return account.Account{Home: "/home/me", Known: true}, nil }}
		c, err := l.Parse("/c/agent.toml", text)
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if got := c.LoginHint("mail.imap"); !strings.HasPrefix(got, want.imap) {
			t.Errorf("imap: %q, want %q", got, want.imap)
		}
		if got := c.LoginHint("mail.smtp"); !strings.HasPrefix(got, want.smtp) {
			t.Errorf("smtp: %q, want %q", got, want.smtp)
		}
	}
}
