package powerloss

import (
	"fmt"
	"net/http"
	"net/url"
	"os"

	"agentstateloop/internal/testkit/mailtest"
)

// initArgs is the command line of init. Its files are on the disk, in folders that do
// not exist yet.
func initArgs(s *story) []string {
	return []string{s.program, "init", "--config", "disk/conf/deep/agent.toml", "--no-network", "--preset", "generic",
		"--handle", "goulard3120", "--operator", operator, "--address", "goulard@example.org", "--require", "challenge",
		"--imap-host", "imap.example.org", "--smtp-host", "smtp.example.org",
		"--password-stdin", "--password-file", "disk/conf/secrets/password", "--runner", "exec", "--command", "/bin/true",
		"--workdir", "disk/agents/work", "--state-dir", "disk/base/goulard3120", "--schedule", "none"}
}

const password = "correct horse battery staple"

func tellInit(s *story) { s.trace(password+"\n", initArgs(s)...) }

// holdInit: each file is whole or missing, a configuration never comes without its
// password, and everything is there once init has ended.
func holdInit(c *crash) {
	const config, secret = "conf/deep/agent.toml", "conf/secrets/password"
	text, whole := c.read(config), c.before[config].content
	_, there := c.after[config]
	_, kept := c.after[secret]
	switch {
	case there && text != whole:
		c.Errorf("the configuration is torn: %q", text)
	case kept && c.read(secret) != password+"\n":
		c.Errorf("the password is torn: %q", c.read(secret))
	case there && !kept:
		c.Errorf("there is a configuration and no password")
	case len(c.had(ended)) > 0 && !there:
		c.Errorf("the configuration is lost")
	}
	if info, err := os.Stat(c.path("agents/work")); there && (err != nil || !info.IsDir()) {
		c.Errorf("there is a configuration and no workdir")
	}
	c.wantPrivate("conf/*/*")
}

// oauthPart is completed by the address of the mailbox, its CA, the token URL, the CA
// of that, and the address of the SMTP server.
const oauthPart = `[trust]
require = "from"
[mail]
address = "goulard@example.org"
[mail.smtp]
host = %[5]q
ca_file = %[2]q
[mail.imap]
host = %[1]q
ca_file = %[2]q
auth = "xoauth2"
[mail.imap.oauth2]
client_id = "client"
client_secret_env = "CLIENT_SECRET"
refresh_token_file = "disk/conf/refresh"
scopes = ["mail.all"]
auth_url = "http://127.0.0.1/authorize"
token_url = %[3]q
ca_file = %[4]q
`

// firstRefresh is the refresh token that a login brings.
const firstRefresh = "refresh-canary-0123"

func setLogin(s *story) {
	tokens := mailtest.StartTokens(s.T, firstRefresh, "access-canary-0123")
	tokens.Code, tokens.Secret, tokens.Life = "the-code", "client-canary-0123", 1
	tokens.OnToken = func(access string) {
		s.world.mail.SetToken(access)
		s.world.note(event{kind: rotated, text: tokens.Refresh})
	}
	s.tokens = tokens
	s.configure(fmt.Sprintf(oauthPart, s.world.mail.IMAPTLS, s.world.mail.CAFile, tokens.URL, tokens.CAFile, s.world.mail.SMTPTLS), scriptPart, uncronned)
}

// tellLogin: a person logs in, and the agent polls with tokens that the provider
// rotates at each request.
func tellLogin(s *story) {
	s.login()
	s.tokens.Lock()
	s.tokens.Rotate = true
	s.tokens.Unlock()
	s.run("poll")
	s.world.deliver(s.T, letter(operator, "hello"))
	s.run("poll")
	s.run("poll")
	s.noted()
}

// login runs `login` and is the browser.
func (s *story) login() {
	address, wait := s.begin(true, "login")
	asked, err := url.Parse(address)
	if err != nil {
		s.Fatal(err)
	}
	resp, err := http.Get(asked.Query().Get("redirect_uri") + "/?code=the-code&state=" + url.QueryEscape(asked.Query().Get("state")))
	if err != nil {
		s.Fatal(err)
	}
	resp.Body.Close()
	if err := wait(); err != nil {
		s.Fatalf("login: %v", err)
	}
	s.world.note(event{kind: ended, text: "login"})
}

func holdLogin(c *crash) {
	token, there := c.after["conf/refresh"]
	if there && token.content != firstRefresh+"\n" {
		c.Errorf("the refresh token is torn: %q", token.content)
	}
	c.wantPrivate("conf/*")
	c.wantPrivate("home/.local/state/agentstateloop/oauth.d/*")
	if !c.hadEnded("login") {
		return
	}
	if !there {
		c.Errorf("the refresh token is lost")
		return
	}
	// A token that came and was not used yet may be lost: the provider had ended the
	// one before when the power went.
	if last := c.past[len(c.past)-1]; last.kind == rotated {
		return
	}
	refresh := firstRefresh
	if all := c.had(rotated); len(all) > 0 {
		refresh = all[len(all)-1]
	}
	c.tokens.Lock()
	c.tokens.Refresh, c.tokens.Rotate = refresh, true
	c.tokens.Unlock()
	c.poll()
	c.collect()
	c.wantSound()
	c.wantAnswered()
}
