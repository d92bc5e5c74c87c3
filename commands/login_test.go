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

// TestLogin plays the person, the browser and the provider.
func TestLogin(t *testing.T) {
	for name, c := range map[string]struct {
		answers  []string // of the provider, by way of the browser; %s is the mark
		code     int
		problem  string
		statuses []int
	}{
		"allowed":         {answers: []string{"code=the-code&state=%s"}, statuses: []int{200}},
		"after a forgery": {answers: []string{"code=theirs&state=x", "code=the-code&state=%s"}, statuses: []int{404, 200}},
		"refused":         {answers: []string{"error=access_denied&error_description=no&state=%s"}, code: 1, problem: "the provider refused access: access_denied no", statuses: []int{200}},
		"a spent code":    {answers: []string{"code=spent-code&state=%s"}, code: 1, problem: "invalid_grant not ***", statuses: []int{200}},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := mailtest.StartTokens(t, "refresh-canary-0123", "access-canary-0123")
			tokens.Code, tokens.Secret = "the-code", "client-canary-0123"
			path := writeConfig(t, fmt.Sprintf(oauthConfig, "http://127.0.0.1/authorize", tokens.URL, tokens.CAFile))
			t.Setenv("CLIENT_SECRET", tokens.Secret)
			out, in := io.Pipe()
			var errs bytes.Buffer
			p := testProgram()
			p.loader.Environ, p.out.Stdout, p.out.Stderr = os.Environ(), in, &errs
			ended := make(chan int, 1)
			go func() {
				ended <- p.run(t.Context(), []string{name, "--config", path, "login"})
				in.Close()
			}()
			lines := bufio.NewScanner(out)
			var asked *url.URL
			for asked == nil && lines.Scan() {
				if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http") {
					asked, _ = url.Parse(text)
				}
			}
			if asked == nil {
				t.Fatalf("no address; %d, %s", <-ended, errs.String())
			}
			go io.Copy(io.Discard, out)
			q := asked.Query()
			if q.Get("client_id") != "client" || q.Get("scope") != "mail.all" || q.Get("code_challenge_method") != "S256" || q.Get("login_hint") != "agent@gmail.com" {
				t.Errorf("asked for %s", asked)
			}
			for i, answer := range c.answers {
				resp, err := http.Get(q.Get("redirect_uri") + "/?" + strings.ReplaceAll(answer, "%s", q.Get("state")))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != c.statuses[i] {
					t.Errorf("%s is answered %s", answer, resp.Status)
				}
			}
			if code := <-ended; code != c.code || !strings.Contains(errs.String(), c.problem) {
				t.Errorf("exit code %d, %s", code, errs.String())
			}
			kept := filepath.Join(filepath.Dir(path), "refresh")
			data, err := os.ReadFile(kept)
			info, _ := os.Stat(kept)
			if c.code == 0 && (string(data) != "refresh-canary-0123\n" || info.Mode().Perm() != 0o600) {
				t.Errorf("kept %q, %v, %v", data, info, err)
			}
			if c.code != 0 && err == nil {
				t.Errorf("kept %q", data)
			}
			if strings.Contains(errs.String(), "canary") {
				t.Errorf("a secret in %s", errs.String())
			}
		})
	}
}

// TestLoginInJSON checks that a login prints its two steps, a line each, the first of
// them while it waits.
func TestLoginInJSON(t *testing.T) {
	tokens := mailtest.StartTokens(t, "refresh-canary-0123", "access-canary-0123")
	tokens.Code, tokens.Secret = "the-code", "client-canary-0123"
	path := writeConfig(t, fmt.Sprintf(oauthConfig, "http://127.0.0.1/authorize", tokens.URL, tokens.CAFile))
	t.Setenv("CLIENT_SECRET", tokens.Secret)
	out, in := io.Pipe()
	var errs bytes.Buffer
	p := testProgram()
	p.loader.Environ, p.out.Stdout, p.out.Stderr = os.Environ(), in, &errs
	ended := make(chan int, 1)
	go func() {
		ended <- p.run(t.Context(), []string{name, "--config", path, "login", "--json"})
		in.Close()
	}()
	shape, lines := readSchemas(t).named("login.json"), bufio.NewScanner(out)
	next := func(step string) (line loginOutput) {
		if !lines.Scan() {
			t.Fatalf("no line for %s; %d, %s", step, <-ended, errs.String())
		}
		if err := errors.Join(shape.validate(lines.Bytes()), json.Unmarshal(lines.Bytes(), &line)); err != nil || line.Step != step {
			t.Fatalf("%v, want the step %s: %s", err, step, lines.Text())
		}
		return line
	}
	asked, err := url.Parse(*next("open").URL)
	if err != nil {
		t.Fatal(err)
	}
	q := asked.Query()
	resp, err := http.Get(q.Get("redirect_uri") + "/?code=the-code&state=" + q.Get("state"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if saved := next("saved"); *saved.File != filepath.Join(filepath.Dir(path), "refresh") {
		t.Errorf("%+v", saved)
	}
	if lines.Scan() || <-ended != 0 {
		t.Errorf("more: %s, %s", lines.Text(), errs.String())
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
