package commands

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/oauth2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
	"agentstateloop/mail"
	"agentstateloop/state/store"
)

// consentTimeout limits how long login waits for the browser.
const consentTimeout = 15 * time.Minute

// loginOptions are the flags of login.
type loginOptions struct{ addr string }

func loginCommand(p *program) *cli.Command {
	var o loginOptions
	return &cli.Command{
		Name:      "login",
		Usage:     "get an OAuth2 refresh token for a mailbox",
		ArgsUsage: "[imap|smtp]",
		Description: `For a mailbox with [mail.imap.oauth2]. Prints a URL. Open it in a browser, log
in as the agent's mailbox and allow access. The provider then redirects the
browser to this program, which writes the refresh token to refresh_token_file
(0600).

If the browser runs on another machine, set --addr and forward its port:
  ssh -L 8803:127.0.0.1:8803 thismachine

Example:
  agentstateloop login --addr 127.0.0.1:8803`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Value: "127.0.0.1:0", Usage: "`ADDRESS`: loopback address for the redirect", Destination: &o.addr},
		},
		Action: p.action(0, 1, o.run),
	}
}

func (o *loginOptions) run(c *call) error {
	which := cmp.Or(c.arg(0), "imap")
	if which != "imap" && which != "smtp" {
		return terminal.Usagef("", "%q is not one of: imap, smtp", which)
	}
	conf, err := c.readConfig()
	if err != nil {
		return err
	}
	section, s := "mail."+which+".oauth2", conf.File.Mail.IMAP
	if which == "smtp" {
		s = conf.SMTP()
	}
	if !s.OAuth2.IsSet() {
		return conf.At(strings.Split(section, "."), "see agent.toml.example; a mailbox with a password needs no login: `"+name+" init --password` replaces the password", "is missing")
	}
	known, err := conf.Provider(section, s.OAuth2)
	if err != nil {
		return err
	}
	if known.Endpoint.AuthURL == "" {
		return conf.Wrong(section+".auth_url", "is missing: the URL where the provider asks for consent")
	}
	auth, err := c.loader.OAuth(conf, section, s.OAuth2)
	if err != nil {
		return err
	}
	listener, err := listenLoopback(o.addr)
	if err != nil {
		return err
	}
	defer listener.Close()

	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	// Microsoft allows another port only for a redirect URL without a path.
	ask := oauth2.Config{ClientID: s.OAuth2.ClientID, Endpoint: known.Endpoint, Scopes: known.Scopes, RedirectURL: "http://localhost:" + port}
	user := cmp.Or(s.Username, conf.File.Mail.Address)
	say := func(url, user string) error { return c.askConsent(url, user) }
	token, err := awaitConsent(c.ctx, c.loader.Secrets, auth, ask, user, listener, say)
	if err != nil {
		return err
	}
	return c.keepRefreshToken(conf.Resolve(s.OAuth2.RefreshTokenFile), token)
}

// readConfig reads the configuration without wiring an agent, because login must run even if the
// agent's login does not work yet.
func (c *call) readConfig() (*config.Config, error) {
	path, err := c.configPath()
	if err != nil {
		return nil, err
	}
	return c.loader.Read(path)
}

// awaitConsent sends a person to the provider, and exchanges the browser's answer for the refresh
// token, which it returns. say shows the URL to the person.
func awaitConsent(ctx context.Context, secrets *secret.Known, auth mail.OAuth, ask oauth2.Config, user string, listener net.Listener, say func(url, user string) error) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, consentTimeout, coded(codeTimedOut, fmt.Errorf("timed out after %v waiting for the browser", consentTimeout)))
	defer cancel()
	mark, verifier := rand.Text(), oauth2.GenerateVerifier()
	back := make(chan consent, 1)
	server := &http.Server{Handler: consentHandler(mark, back), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	serving := make(chan error, 1)
	go secrets.Guarded(func() { serving <- server.Serve(listener) })()
	defer server.Shutdown(ctx)
	url := ask.AuthCodeURL(mark, oauth2.AccessTypeOffline, oauth2.S256ChallengeOption(verifier),
		oauth2.SetAuthURLParam("prompt", "consent"), oauth2.SetAuthURLParam("login_hint", user))
	if err := say(url, user); err != nil {
		return "", err
	}
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case err := <-serving:
		return "", err
	case a := <-back:
		if a.refused != "" {
			return "", fmt.Errorf("the provider refused access: %s", plain.Line(a.refused))
		}
		return auth.Exchange(ctx, a.code, verifier, ask.RedirectURL)
	}
}

// consent is the answer from the browser.
type consent struct{ code, refused string }

// consentHandler accepts the first answer with our mark (RFC 6749 section 10.12).
func consentHandler(mark string, back chan<- consent) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		q := r.URL.Query()
		a := consent{code: q.Get("code"), refused: strings.TrimSpace(q.Get("error") + " " + q.Get("error_description"))}
		if r.URL.Path != "/" || q.Get("state") != mark || a == (consent{}) {
			http.Error(w, "this is not the answer that agentstateloop expects", http.StatusNotFound)
			return
		}
		select {
		case back <- a:
			fmt.Fprintln(w, "Go back to the terminal. You can close this page.")
		default:
			http.Error(w, "the answer was already received", http.StatusConflict)
		}
	}
}

// keepRefreshToken writes the file named in refresh_token_file.
func (c *call) keepRefreshToken(file, token string) error {
	c.loader.Secrets.Learn(file, token)
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // write through the link
	}
	dir := store.Store{Dir: filepath.Dir(file)}
	if err := dir.Keep(filepath.Base(file), strings.NewReader(token+"\n")); err != nil {
		return errors.Join(errors.New("the refresh token is lost: run login again"), err)
	}
	if c.json {
		return c.out.JSONLine(loginOutput{Step: "saved", File: &file})
	}
	c.out.Printf("the refresh token is in %s\n", file)
	return nil
}

// loginOutput is a line of the JSON output of login: first "open", and finally "saved".
type loginOutput struct {
	Step string  `json:"step"`
	URL  *string `json:"url"`  // of "open": for a browser
	User *string `json:"user"` // of "open": the user to log in as
	File *string `json:"file"` // of "saved": path of the refresh token
}

// askConsent prints the URL for a person.
func (c *call) askConsent(url, user string) error {
	if c.json {
		return c.out.JSONLine(loginOutput{Step: "open", URL: &url, User: &user})
	}
	c.out.Printf("open this URL, log in as %s and allow access:\n\n  %s\n\n", plain.Line(user), url)
	return nil
}
