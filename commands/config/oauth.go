package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/endpoints"

	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
	"agentstateloop/state/store"
)

// Provider is an OAuth2 provider: its endpoints, and the scopes that reading and
// sending mail needs.
type Provider struct {
	Endpoint oauth2.Endpoint
	Scopes   []string
}

// providers are those that provider = "..." can name.
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

func (s oauthSection) Secret() Source {
	return Source{File: s.ClientSecretFile, Env: s.ClientSecretEnv, Command: slices.Clone(s.ClientSecretCommand)}
}

// OAuth wires what obtains access tokens. section is "mail.imap.oauth2" or
// "mail.smtp.oauth2".
func (l *Loader) OAuth(c *Config, section string, s oauthSection) (mail.OAuth, error) {
	none := mail.OAuth{}
	known, err := c.Provider(section, s)
	if err != nil {
		return none, err
	}
	if s.ClientID == "" {
		return none, c.Wrong(section+".client_id", "is missing: the id of the application that you registered with the provider")
	}
	if s.RefreshTokenFile == "" {
		return none, c.Wrong(section+".refresh_token_file", "is missing: the file (mode 0600) that `%s login` writes the refresh token to", terminal.Program)
	}
	client := s.Secret()
	if n := client.Ways(); n > 1 {
		return none, c.Wrong(section, "%d of client_secret_file, client_secret_env and client_secret_command are set: keep one", n)
	}
	file := c.Resolve(s.RefreshTokenFile)
	caFile := s.CAFile
	if caFile != "" {
		caFile = c.Resolve(caFile)
	}
	// Not a state_dir: agents that share a mailbox must share its tokens. A
	// provider that renews a refresh token ends the login of the old one.
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
	if client.Ways() == 1 {
		o.ClientSecret = l.Secret(c, client)
	}
	return o, nil
}

// lockIn returns the TryLock of st in the form that mail.OAuth takes.
func lockIn(st *store.Store) func(name string) (unlock func() error, err error) {
	return func(name string) (func() error, error) {
		lock, err := st.TryLock(name)
		if err != nil || lock == nil {
			return nil, err
		}
		return lock.Unlock, nil
	}
}

// Provider returns what a section says of its provider, completed by what we
// know of it.
func (c *Config) Provider(section string, s oauthSection) (Provider, error) {
	known, ok := providers()[s.Provider]
	if !ok && s.Provider != "" {
		return known, c.Wrong(section+".provider", `%q is not one of: google, microsoft; for another provider leave it out and set token_url`, s.Provider)
	}
	known.Endpoint.TokenURL = cmp.Or(s.TokenURL, known.Endpoint.TokenURL)
	known.Endpoint.AuthURL = cmp.Or(s.AuthURL, known.Endpoint.AuthURL)
	if len(s.Scopes) > 0 {
		known.Scopes = slices.Clone(s.Scopes)
	}
	if known.Endpoint.TokenURL == "" {
		return known, c.Wrong(section+".token_url", `is missing: the URL at which the provider gives tokens; or set provider to "google" or "microsoft"`)
	}
	for key, text := range map[string]string{"token_url": known.Endpoint.TokenURL, "auth_url": known.Endpoint.AuthURL} {
		u, err := url.Parse(text)
		if text != "" && (err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname()))) {
			return known, c.Wrong(section+"."+key, "%q is not a URL that begins with https", text)
		}
	}
	return known, nil
}

// oauthName returns the same name for all agents that use the same refresh token.
func oauthName(tokenURL, clientID, file string) string {
	sum := sha256.Sum256([]byte(tokenURL + "\n" + clientID + "\n" + file))
	return hex.EncodeToString(sum[:8])
}

// learning returns the methods of o. Every token that they return is kept out of
// what this process prints and records.
func (l *Loader) learning(o mail.OAuth) (token func(context.Context) (string, error), renew func(context.Context, string) (string, error)) {
	learnt := func(token string, err error) (string, error) {
		l.Secrets.Learn("access token "+o.Name, token)
		return token, err
	}
	token = func(ctx context.Context) (string, error) { return learnt(o.Token(ctx)) }
	renew = func(ctx context.Context, refused string) (string, error) { return learnt(o.Renew(ctx, refused)) }
	return token, renew
}
