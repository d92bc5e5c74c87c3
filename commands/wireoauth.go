package commands

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

	"agentstateloop/mail"
	"agentstateloop/state/store"
)

// provider is what we know of one, so that nobody has to look it up.
type provider struct {
	endpoint oauth2.Endpoint
	scopes   []string
}

// providers gives those that provider = "..." can name.
func providers() map[string]provider {
	return map[string]provider{
		"google": {endpoints.Google, []string{"https://mail.google.com/"}},
		"microsoft": {endpoints.AzureAD("common"), []string{
			"https://outlook.office.com/IMAP.AccessAsUser.All", "https://outlook.office.com/SMTP.Send", "offline_access",
		}},
	}
}

// set says whether there is such a section.
func (s oauthSection) set() bool {
	return !reflect.DeepEqual(s, oauthSection{})
}

func (s oauthSection) secret() secretSource {
	return secretSource{file: s.ClientSecretFile, env: s.ClientSecretEnv, command: slices.Clone(s.ClientSecretCommand)}
}

// wireOAuth makes what gets access tokens.
func (p *program) wireOAuth(c *config, section string, s oauthSection, timeout time.Duration) (mail.OAuth, error) {
	none := mail.OAuth{}
	known, err := c.provider(section, s)
	if err != nil {
		return none, err
	}
	if s.ClientID == "" {
		return none, c.wrong(section+".client_id", "is missing: the id of the application that you registered with the provider")
	}
	if s.RefreshTokenFile == "" {
		return none, c.wrong(section+".refresh_token_file", "is missing: the file (mode 0600) that `%s login` writes the refresh token to", name)
	}
	client := s.secret()
	if n := client.ways(); n > 1 {
		return none, c.wrong(section, "%d of client_secret_file, client_secret_env and client_secret_command are set, and one is enough", n)
	}
	file := c.resolve(s.RefreshTokenFile)
	caFile := s.CAFile
	if caFile != "" {
		caFile = c.resolve(caFile)
	}
	// Not a state_dir: agents that share a mailbox share its tokens, or each
	// refresh token given in exchange would end the login of the others.
	tokens := &store.Store{Dir: filepath.Join(c.home, ".local", "state", name, "oauth.d")}
	o := mail.OAuth{
		TokenURL:     known.endpoint.TokenURL,
		ClientID:     s.ClientID,
		RefreshToken: p.secret(c, secretSource{file: file}),
		Store:        tokens,
		TryLock:      lockIn(tokens),
		Name:         oauthName(known.endpoint.TokenURL, s.ClientID, file),
		CAFile:       caFile,
		Timeout:      timeout,
		Now:          p.now,
	}
	if client.ways() == 1 {
		o.ClientSecret = p.secret(c, client)
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

// provider is what a section says of the provider, what we know added.
func (c *config) provider(section string, s oauthSection) (provider, error) {
	known, ok := providers()[s.Provider]
	if !ok && s.Provider != "" {
		return known, c.wrong(section+".provider", `%q is not one of: google, microsoft; for another leave it out and give token_url`, s.Provider)
	}
	known.endpoint.TokenURL = cmp.Or(s.TokenURL, known.endpoint.TokenURL)
	known.endpoint.AuthURL = cmp.Or(s.AuthURL, known.endpoint.AuthURL)
	if len(s.Scopes) > 0 {
		known.scopes = slices.Clone(s.Scopes)
	}
	if known.endpoint.TokenURL == "" {
		return known, c.wrong(section+".token_url", `is missing: where the provider gives tokens; or provider = "google" or "microsoft"`)
	}
	for key, text := range map[string]string{"token_url": known.endpoint.TokenURL, "auth_url": known.endpoint.AuthURL} {
		u, err := url.Parse(text)
		if text != "" && (err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname()))) {
			return known, c.wrong(section+"."+key, "%q is no address that begins with https", text)
		}
	}
	return known, nil
}

// oauthName is the same for whoever uses the same refresh token.
func oauthName(tokenURL, clientID, file string) string {
	sum := sha256.Sum256([]byte(tokenURL + "\n" + clientID + "\n" + file))
	return hex.EncodeToString(sum[:8])
}

// learning gives the methods of o, and keeps every token out of what this
// process prints and records.
func (p *program) learning(o mail.OAuth) (token func(context.Context) (string, error), renew func(context.Context, string) (string, error)) {
	learnt := func(token string, err error) (string, error) {
		p.secrets.Learn("access token "+o.Name, token)
		return token, err
	}
	token = func(ctx context.Context) (string, error) { return learnt(o.Token(ctx)) }
	renew = func(ctx context.Context, refused string) (string, error) { return learnt(o.Renew(ctx, refused)) }
	return token, renew
}
