package mail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/secret"
)

const (
	// renewBefore is the time before its expiry at which a token is renewed.
	renewBefore = 5 * time.Minute

	// assumedLife is the lifetime of a token if the endpoint does not state one
	// (RFC 6749 section 5.1 allows that).
	assumedLife = time.Hour
)

// OAuth gets access tokens with a stored refresh token (RFC 6749 section 6). It caches the last
// one in a file, so that a poll each minute asks the token endpoint once an hour.
//
// Its methods may be called concurrently, by any number of processes. One of them asks the
// endpoint, and the others use its token.
type OAuth struct {
	TokenURL string // https, or on loopback http
	ClientID string

	// ClientSecret is nil for a public client. RefreshToken is called each time: if it returns
	// another token, the access token of the earlier one is not used.
	ClientSecret, RefreshToken func(context.Context) (string, error)

	// Store is a folder for tokens. Its file Name.json (0600) holds the access token with its
	// expiry, and the newer refresh token if the endpoint has rotated it.
	Store TokenStore
	Name  string

	// TryLock takes a lock file of that folder and returns the function that releases it, or
	// nil if another process holds it. With Name.lock, only one process asks at a time.
	TryLock func(name string) (unlock func() error, err error)

	CAFile  string           // PEM file of roots; replaces the system's
	Timeout time.Duration    // for the answer of the endpoint, and for another process; 0 means 30 s
	Now     func() time.Time // nil means time.Now
}

// TokenStore is the folder in which OAuth keeps its tokens. *store.Store
// implements it.
type TokenStore interface {
	// Path returns the path of the file name, which need not exist.
	Path(name string) string

	// Keep durably replaces the file name with the bytes of r. Only its owner can read it.
	Keep(name string, r io.Reader) error
}

// ErrNoOther is returned by Renew if it cannot get a better token than the refused one.
var ErrNoOther = errors.New("the token has already been renewed")

// unreachable is a failure that is not about the credential: the token endpoint is down or
// busy, or something else answers (docs/design.md, "Credentials").
type unreachable struct{ err error }

func (e *unreachable) Error() string { return e.err.Error() }
func (e *unreachable) Unwrap() error { return e.err }

// Token returns an access token that is valid for five more minutes, or for a tenth of its
// lifetime if that is less. If the endpoint cannot be asked, the last token is used until it
// expires. An error means that the credential was refused, unless it is an error of the network
// or of ctx; Server distinguishes them.
func (o OAuth) Token(ctx context.Context) (string, error) {
	refresh, err := o.RefreshToken(ctx)
	if err != nil {
		return "", err
	}
	if t := o.load(refresh); t.fresh(o.now()) {
		return t.Access, nil
	}
	return o.renew(ctx, refresh, "")
}

// Renew returns another token than refused, which a server did not accept and which may have
// been revoked before its expiry. If refused itself came from Renew, the error is ErrNoOther:
// such a token is not renewed before its expiry.
func (o OAuth) Renew(ctx context.Context, refused string) (string, error) {
	refresh, err := o.RefreshToken(ctx)
	if err != nil {
		return "", err
	}
	return o.renew(ctx, refresh, refused)
}

// renew asks the endpoint, unless another process has just done so.
func (o OAuth) renew(ctx context.Context, refresh, refused string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Server{Timeout: o.Timeout}.timeout())
	defer cancel()
	unlock, err := o.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	last := o.load(refresh)
	switch {
	case last.Access == refused && last.Renewed:
		return "", ErrNoOther
	case last.Access != refused && last.fresh(o.now()):
		return last.Access, nil
	}
	// The endpoint may rotate the refresh token, so first check that the disk is not full.
	if err := o.save(last); err != nil {
		return "", err
	}
	next, err := o.request(ctx, last, refused != "")
	if _, away := errors.AsType[*unreachable](err); away && last.Access != refused && o.now().Before(last.Expiry) {
		return last.Access, nil
	}
	if err != nil {
		return "", err
	}
	if err := o.save(next); err != nil {
		return "", err
	}
	return next.Access, nil
}

// request gets a token from the endpoint.
func (o OAuth) request(ctx context.Context, last grant, renewed bool) (grant, error) {
	config, ctx, hide, err := o.config(ctx)
	if err != nil {
		return grant{}, err
	}
	began := time.Now()
	token, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: last.refresh}).Token()
	if err != nil {
		return grant{}, o.refusal(ctx, err, append(hide, secret.Disguises(last.refresh)...))
	}
	life := assumedLife
	if !token.Expiry.IsZero() {
		life = token.Expiry.Sub(began).Round(time.Second)
	}
	now := o.now()
	next := grant{From: last.From, Access: token.AccessToken, Refresh: last.Refresh, Got: now, Expiry: now.Add(life), Renewed: renewed}
	if token.RefreshToken != last.refresh {
		next.Refresh = token.RefreshToken
	}
	return next, nil
}

// Exchange returns the refresh token for code, which redirect received after a person's consent
// (RFC 6749 section 4.1.3). The code must have been requested with this verifier (RFC 7636).
func (o OAuth) Exchange(ctx context.Context, code, verifier, redirect string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Server{Timeout: o.Timeout}.timeout())
	defer cancel()
	config, ctx, hide, err := o.config(ctx)
	if err != nil {
		return "", err
	}
	config.RedirectURL = redirect
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", o.refusal(ctx, err, append(hide, secret.Disguises(code)...))
	}
	if token.RefreshToken == "" {
		return "", fmt.Errorf("get token from %s: the answer contains no refresh token", o.host())
	}
	return token.RefreshToken, nil
}

// config returns the OAuth configuration, the context for the request, and the strings that
// must not appear in an error.
func (o OAuth) config(ctx context.Context) (*oauth2.Config, context.Context, []string, error) {
	config := &oauth2.Config{ClientID: o.ClientID, Endpoint: oauth2.Endpoint{TokenURL: o.TokenURL}}
	if o.ClientSecret == nil {
		config.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	} else {
		var err error
		if config.ClientSecret, err = o.ClientSecret(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	client, err := o.client()
	if err != nil {
		return nil, nil, nil, notCredential(err)
	}
	return config, context.WithValue(ctx, oauth2.HTTPClient, client), secret.Disguises(config.ClientSecret), nil
}

// refusal returns the error for a failed request. It distinguishes a refused
// credential from an endpoint that could not be asked. The error holds no
// secret, even if the endpoint repeats one.
func (o OAuth) refusal(ctx context.Context, err error, secrets []string) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if u, is := errors.AsType[*url.Error](err); is {
			err = u.Err
		}
		return &unreachable{fmt.Errorf("get token from %s: %s", o.host(), redact(secrets, cause(ctx, err).Error()))}
	}
	failure := fmt.Errorf("get token from %s: %s", o.host(), redact(secrets, answer.Response.Status))
	if answer.ErrorCode != "" {
		failure = fmt.Errorf("get token from %s: %s", o.host(), redact(secrets, strings.TrimSpace(answer.ErrorCode+" "+answer.ErrorDescription)))
	}
	if !refusesGrant(answer.Response.StatusCode, answer.ErrorCode) {
		return &unreachable{failure}
	}
	if answer.ErrorCode == "invalid_grant" {
		return fmt.Errorf("%w; it has expired or was revoked: get a new one with `agentstateloop login`", failure)
	}
	return failure
}

// refusesGrant reports whether an answer is about our request (RFC 6749 section 5.2), and not
// about the state of the endpoint.
func refusesGrant(status int, code string) bool {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return true
	case status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status/100 >= 5:
		return false
	}
	return code != "" && code != "temporarily_unavailable" && code != "server_error" && code != "slow_down"
}

// client returns an HTTP client that follows no redirect and uses no proxy from the
// environment: either would see the refresh token.
func (o OAuth) client() (*http.Client, error) {
	u, err := url.Parse(o.TokenURL)
	if err != nil || u.Host == "" {
		return nil, errors.New("get token: token_url is not a valid URL")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopbackName(u.Hostname())) {
		return nil, fmt.Errorf("get token: token_url must begin with https, or the refresh token would go to %s unencrypted", u.Host)
	}
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	if u.Scheme == "https" {
		s := Server{Addr: net.JoinHostPort(u.Hostname(), "443"), CAFile: o.CAFile}
		if transport.TLSClientConfig, err = s.tlsConfig(); err != nil {
			return nil, err
		}
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func (o OAuth) host() string {
	if u, err := url.Parse(o.TokenURL); err == nil {
		return u.Host
	}
	return "the token endpoint"
}

func (o OAuth) now() time.Time {
	if o.Now == nil {
		return time.Now()
	}
	return o.Now()
}

// lock waits until no other process is asking the endpoint.
func (o OAuth) lock(ctx context.Context) (unlock func() error, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		unlock, err := o.TryLock(o.Name + ".lock")
		if err != nil || unlock != nil {
			return unlock, notCredential(err)
		}
		select {
		case <-ctx.Done():
			return nil, &unreachable{fmt.Errorf("get token: another process is already getting one: %w", context.Cause(ctx))}
		case <-tick.C:
		}
	}
}

// maxGrant limits the file of a grant, in bytes.
const maxGrant = 1 << 20

// grant is the answer to a refresh token, as it is stored.
type grant struct {
	From    string    `json:"from"` // hash of the configured refresh token
	Access  string    `json:"access_token"`
	Got     time.Time `json:"got"`
	Expiry  time.Time `json:"expiry"`
	Renewed bool      `json:"renewed,omitempty"`       // a server had refused the previous token
	Refresh string    `json:"refresh_token,omitempty"` // rotated: replaces the configured one

	refresh string // the refresh token to use
}

// fresh reports whether the access token can still be used. The clock may have jumped.
func (g grant) fresh(now time.Time) bool {
	margin := min(renewBefore, g.Expiry.Sub(g.Got)/10)
	return g.Access != "" && !now.Before(g.Got.Add(-time.Minute)) && now.Before(g.Expiry.Add(-margin))
}

// load returns the stored grant of the configured refresh token. A file that is missing or
// damaged, or belongs to another refresh token, counts as empty.
func (o OAuth) load(refresh string) grant {
	sum := sha256.Sum256([]byte(refresh))
	none := grant{From: hex.EncodeToString(sum[:]), refresh: refresh}
	data, err := osfile.ReadFile(o.Store.Path(o.Name+".json"), maxGrant)
	var g grant
	if err != nil || json.Unmarshal(data, &g) != nil || g.From != none.From {
		return none
	}
	g.refresh = refresh
	if g.Refresh != "" {
		g.refresh = g.Refresh
	}
	return g
}

// save makes a grant durable, before it is used.
func (o OAuth) save(g grant) error {
	data, err := json.Marshal(g)
	if err == nil {
		err = o.Store.Keep(o.Name+".json", strings.NewReader(string(data)+"\n"))
	}
	if err != nil {
		return notCredential(fmt.Errorf("save token: %w", err))
	}
	return nil
}

// notCredential marks a fault of our own, such as a full disk, as unrelated to the credential.
func notCredential(err error) error {
	if err == nil {
		return nil
	}
	return &unreachable{err}
}
