package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
	"agentstateloop/state/store"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/endpoints"
)

// Provider describes an OAuth2 provider.
type Provider struct {
	Endpoint oauth2.Endpoint
	Scopes   []string // needed to read and send mail
}

// providers returns the built-in providers, by the value of the key provider.
func providers() map[string]Provider {
	return map[string]Provider{
		"google": {endpoints.Google, []string{"https://mail.google.com/"}},
		"microsoft": {endpoints.AzureAD("common"), []string{
			"https://outlook.office.com/IMAP.AccessAsUser.All", "https://outlook.office.com/SMTP.Send", "offline_access",
		}},
	}
}

// IsSet reports whether the file has the section.
func (s oauthSection) IsSet() bool {
	return !reflect.DeepEqual(s, oauthSection{})
}

// Secret returns the source of the client secret.
func (s oauthSection) Secret() Source {
	return Source{File: s.ClientSecretFile, Env: s.ClientSecretEnv, Command: slices.Clone(s.ClientSecretCommand)}
}

// OAuth wires a section about access tokens. section is "mail.imap.oauth2" or "mail.smtp.oauth2".
func (l *Loader) OAuth(c *Config, section string, s oauthSection) (mail.OAuth, error) {
	none := mail.OAuth{}
	known, err := c.Provider(section, s)
	if err != nil {
		return none, err
	}
	if s.ClientID == "" {
		return none, c.Missing(section+".client_id", "set the client id of the application that you registered with the provider")
	}
	if s.RefreshTokenFile == "" {
		return none, c.Missing(section+".refresh_token_file", fmt.Sprintf("set it to the file where `%s login` stores the refresh token", terminal.Program))
	}
	client := s.Secret()
	if n := client.CountSet(); n > 1 {
		return none, c.At(splitKey(section), "keep one of them", "%d of client_secret_file, client_secret_env and client_secret_command are set", n)
	}
	file := c.Resolve(s.RefreshTokenFile)
	caFile := s.CAFile
	if caFile != "" {
		caFile = c.Resolve(caFile)
	}
	// Agents that share a mailbox must share its tokens, because a provider that renews a refresh
	// token revokes the old one. So the tokens are not in state_dir.
	tokens := &store.Store{Dir: filepath.Join(c.stateFolder(), "oauth.d")}
	o := mail.OAuth{
		TokenURL:     known.Endpoint.TokenURL,
		ClientID:     s.ClientID,
		RefreshToken: l.Secret(c, Source{File: file}),
		Store:        tokens,
		TryLock:      lockIn(tokens),
		Name:         oauthName(known.Endpoint.TokenURL, s.ClientID, file),
		CAFile:       caFile,
		Timeout:      time.Duration(c.File.Timing.NetworkTimeout),
		Now:          l.Now,
	}
	if client.CountSet() == 1 {
		o.ClientSecret = l.Secret(c, client)
	}
	return o, nil
}

// lockIn adapts st.TryLock to mail.OAuth.
func lockIn(st *store.Store) func(name string) (unlock func() error, err error) {
	return func(name string) (func() error, error) {
		lock, err := st.TryLock(name)
		if err != nil || lock == nil {
			return nil, err
		}
		return lock.Unlock, nil
	}
}

// Provider returns the provider that a section describes. It takes missing values from the built-in
// provider that the section names.
func (c *Config) Provider(section string, s oauthSection) (Provider, error) {
	known, ok := providers()[s.Provider]
	if !ok && s.Provider != "" {
		return known, c.At(splitKey(section+".provider"), "for another provider, remove it and set token_url", "%q is not one of: google, microsoft", s.Provider)
	}
	known.Endpoint.TokenURL = cmp.Or(s.TokenURL, known.Endpoint.TokenURL)
	known.Endpoint.AuthURL = cmp.Or(s.AuthURL, known.Endpoint.AuthURL)
	if len(s.Scopes) > 0 {
		known.Scopes = slices.Clone(s.Scopes)
	}
	if known.Endpoint.TokenURL == "" {
		return known, c.Missing(section+".token_url", `set the provider's token URL, or set provider to "google" or "microsoft"`)
	}
	for key, text := range map[string]string{"token_url": known.Endpoint.TokenURL, "auth_url": known.Endpoint.AuthURL} {
		u, err := url.Parse(text)
		if text != "" && (err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname()))) {
			return known, c.Wrong(section+"."+key, "%q is not an https URL", text)
		}
	}
	return known, nil
}

// oauthName returns the name under which access tokens are stored. Agents with the same refresh
// token share it.
func oauthName(tokenURL, clientID, file string) string {
	sum := sha256.Sum256([]byte(tokenURL + "\n" + clientID + "\n" + file))
	return hex.EncodeToString(sum[:8])
}

// redactTokens returns the methods of o. This process redacts every token they return in all its
// output and records from then on.
func (l *Loader) redactTokens(o mail.OAuth) (token func(context.Context) (string, error), renew func(context.Context, string) (string, error)) {
	learn := func(token string, err error) (string, error) {
		l.Secrets.Learn("access token "+o.Name, token)
		return token, err
	}
	token = func(ctx context.Context) (string, error) { return learn(o.Token(ctx)) }
	renew = func(ctx context.Context, refused string) (string, error) { return learn(o.Renew(ctx, refused)) }
	return token, renew
}

// LoginHint returns the hint for a login refused by a mail server. section is "mail.imap" or
// "mail.smtp". The hint names the file, variable or command of the secret, and the requirements of
// the provider if we know the host.
func (c *Config) LoginHint(section string) string {
	s := c.File.Mail.IMAP
	if section == "mail.smtp" {
		s = c.SMTP()
	}
	hint := c.secretHint(s) + ", or the username in [" + section + "]; the next poll reads both again"
	if s.OAuth2.IsSet() {
		hint = fmt.Sprintf("run `%s login` and sign in as %s to get a new refresh token", terminal.Program, cmp.Or(s.Username, c.File.Mail.Address))
	}
	if note := ProviderNote(s.Host, s.Auth); note != "" {
		hint += "; " + note
	}
	return hint
}

// secretHint returns a hint that names the place of a server's password or token.
func (c *Config) secretHint(s serverSection) string {
	what := "password"
	if len(s.TokenCommand) > 0 {
		what = "token"
	}
	switch secret := s.Secret(); {
	case secret.File != "" && secret.Equal(c.File.Mail.IMAP.Secret()):
		return fmt.Sprintf("correct the %s in %s (`%s init --password` tests a new one first)", what, c.Resolve(secret.File), terminal.Program)
	case secret.File != "":
		return fmt.Sprintf("correct the %s in %s", what, c.Resolve(secret.File))
	case secret.Env != "":
		return fmt.Sprintf("correct the %s in the environment variable %s, which the crontab sets", what, secret.Env)
	case len(secret.Command) > 0:
		return fmt.Sprintf("correct the %s that %s prints", what, secret.Command[0])
	}
	return "correct the " + what
}

// MeshSecretHint returns the hint for a token or key of handle that the mesh refuses.
func (c *Config) MeshSecretHint(handle string) string {
	if c.File.Mesh.OverNATS() {
		return fmt.Sprintf("the servers must know the public key of %s: pass it to `%s fleet plan` as %[1]s=U…, with the keys of the other agents, and reload the servers", handle, terminal.Program)
	}
	known := fmt.Sprintf("the token of %s in FILE of `%s mesh serve --tokens FILE`", handle, terminal.Program)
	switch secret := c.File.Mesh.Secret(); {
	case secret.File != "":
		return "the token in " + c.Resolve(secret.File) + " must match " + known
	case secret.Env != "":
		return "the token in the environment variable " + secret.Env + " must match " + known
	case len(secret.Command) > 0:
		return "the token that " + secret.Command[0] + " prints must match " + known
	}
	return "set token_file in [mesh]; the token must match " + known
}

// providerNotes describe the credentials that providers require instead of the account password. A
// domain also matches all names below it.
var providerNotes = []struct {
	domains []string
	note    string
}{
	{[]string{"gmail.com", "googlemail.com"}, "Gmail needs an app password: see https://myaccount.google.com/apppasswords"},
	{[]string{"fastmail.com", "messagingengine.com"}, "Fastmail needs an app password: see Settings, Privacy & Security"},
	{[]string{"mail.me.com", "icloud.com"}, "iCloud needs an app-specific password: see Sign-In and Security at https://account.apple.com"},
	{[]string{"mail.yahoo.com", "aol.com"}, "Yahoo and AOL need an app password: see the security page of your account"},
}

// outlookDomains belong to Microsoft, which accepts no passwords.
var outlookDomains = []string{"outlook.com", "office365.com", "hotmail.com", "live.com"}

// ProviderNote returns the credential requirements of the provider of a mail host (host or
// host:port), or "" for a host without known requirements. With a token, auth is not AuthPlain, and
// no password is needed.
func ProviderNote(host, auth string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	in := func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
	if auth != "" && auth != "plain" {
		return ""
	}
	if slices.ContainsFunc(outlookDomains, in) {
		return `Outlook and Microsoft 365 accept no passwords: use auth = "xoauth2" and [mail.imap.oauth2], see docs/outlook.md`
	}
	for _, p := range providerNotes {
		if slices.ContainsFunc(p.domains, in) {
			return p.note
		}
	}
	return ""
}
