package commands

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/mailtest"
)

// oauthLogin is a login at a token server, in this process.
type oauthLogin struct {
	stdout io.Reader
	stderr bytes.Buffer // to be read when it has ended
	file   string       // for the refresh token
	code   chan int
}

// startLogin starts a login with these flags.
func startLogin(t *testing.T, flags ...string) *oauthLogin {
	t.Helper()
	tokens := mailtest.StartTokens(t, "refresh-canary-0123", "access-canary-0123")
	tokens.Code, tokens.Secret = "the-code", "client-canary-0123"
	path := writeConfig(t, fmt.Sprintf(oauthConfig, "http://127.0.0.1/authorize", tokens.URL, tokens.CAFile))
	out, in := io.Pipe()
	l := &oauthLogin{stdout: out, file: filepath.Join(filepath.Dir(path), "refresh"), code: make(chan int, 1)}
	p := testProgram()
	p.loader.Environ = append(os.Environ(), "CLIENT_SECRET="+tokens.Secret)
	p.out.Stdout, p.out.Stderr = in, &l.stderr
	go func() {
		l.code <- p.run(t.Context(), append([]string{name, "--config", path, "login"}, flags...))
		in.Close()
	}()
	return l
}

// answer sends an answer of the provider to the login, as the browser does. %s is its state. It
// returns the status code.
func (l *oauthLogin) answer(t *testing.T, asked *url.URL, answer string) int {
	t.Helper()
	q := asked.Query()
	resp, err := http.Get(q.Get("redirect_uri") + "/?" + strings.ReplaceAll(answer, "%s", q.Get("state")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestLoginSavesRefreshToken plays the person, the browser and the provider.
func TestLoginSavesRefreshToken(t *testing.T) {
	for name, c := range map[string]struct {
		answers  []string // of the provider
		statuses []int
		code     int
		problem  string
	}{
		"allowed":         {answers: []string{"code=the-code&state=%s"}, statuses: []int{200}},
		"after a forgery": {answers: []string{"code=theirs&state=x", "code=the-code&state=%s"}, statuses: []int{404, 200}},
		"refused":         {answers: []string{"error=access_denied&error_description=no&state=%s"}, code: 1, problem: "the provider refused access: access_denied no", statuses: []int{200}},
		"a spent code":    {answers: []string{"code=spent-code&state=%s"}, code: 1, problem: "invalid_grant not ***", statuses: []int{200}},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLogin(t)
			lines := bufio.NewScanner(l.stdout)
			var asked *url.URL
			for asked == nil && lines.Scan() {
				if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http") {
					asked, _ = url.Parse(text)
				}
			}
			if asked == nil {
				t.Fatalf("no address; %d, %s", <-l.code, &l.stderr)
			}
			go io.Copy(io.Discard, l.stdout)
			q := asked.Query()
			if q.Get("client_id") != "client" || q.Get("scope") != "mail.all" || q.Get("code_challenge_method") != "S256" || q.Get("login_hint") != "agent@gmail.com" {
				t.Errorf("asked for %s", asked)
			}
			for i, answer := range c.answers {
				if status := l.answer(t, asked, answer); status != c.statuses[i] {
					t.Errorf("the answer to %s is %d", answer, status)
				}
			}
			if code := <-l.code; code != c.code || !strings.Contains(l.stderr.String(), c.problem) {
				t.Errorf("exit code %d, %s", code, &l.stderr)
			}
			data, err := os.ReadFile(l.file)
			info, _ := os.Stat(l.file)
			if c.code == 0 && (string(data) != "refresh-canary-0123\n" || info.Mode().Perm() != 0o600) {
				t.Errorf("saved %q, %v, %v", data, info, err)
			}
			if c.code != 0 && err == nil {
				t.Errorf("saved %q", data)
			}
			if strings.Contains(l.stderr.String(), "canary") {
				t.Errorf("a secret in %s", &l.stderr)
			}
		})
	}
}

// TestLoginInJSON checks that a login prints its two steps, each in a line, and the first of
// them while it waits.
func TestLoginInJSON(t *testing.T) {
	l, schema := startLogin(t, "--json"), readSchemas(t).named("login.json")
	lines := bufio.NewScanner(l.stdout)
	next := func(step string) (line loginOutput) {
		if !lines.Scan() {
			t.Fatalf("no line for %s; %d, %s", step, <-l.code, &l.stderr)
		}
		if err := errors.Join(schema.validate(lines.Bytes()), json.Unmarshal(lines.Bytes(), &line)); err != nil || line.Step != step {
			t.Fatalf("%v, want the step %s: %s", err, step, lines.Text())
		}
		return line
	}
	asked, err := url.Parse(*next("open").URL)
	if err != nil {
		t.Fatal(err)
	}
	l.answer(t, asked, "code=the-code&state=%s")
	if saved := next("saved"); *saved.File != l.file {
		t.Errorf("%+v", saved)
	}
	if lines.Scan() || <-l.code != 0 {
		t.Errorf("more: %s, %s", lines.Text(), &l.stderr)
	}
}

// oauthConfig is completed by the authorization URL, the token URL and the token
// server's certificate.
const oauthConfig = `[agent]
handle = "goulard3120"
operator = ["you@example.com"]
[turn]
runner = "none"
[trust]
require = "from"
[mail]
address = "agent@gmail.com"
[mail.imap]
host = "imap.gmail.com:993"
auth = "xoauth2"
[mail.imap.oauth2]
client_id = "client"
client_secret_env = "CLIENT_SECRET"
refresh_token_file = "refresh"
scopes = ["mail.all"]
auth_url = %q
token_url = %q
ca_file = %q
`
