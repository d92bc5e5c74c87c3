package mail_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

const (
	firstRefresh = "refresh-canary-0123"
	anyAccess    = "access-canary-0123"
)

// testClock is a clock that a test moves.
type testClock struct {
	sync.Mutex
	at time.Time
}

func (c *testClock) now() time.Time {
	c.Lock()
	defer c.Unlock()
	return c.at
}

func (c *testClock) add(d time.Duration) {
	c.Lock()
	defer c.Unlock()
	c.at = c.at.Add(d)
}

// newOAuth returns an OAuth with its own token endpoint and clock.
func newOAuth(t *testing.T) (mail.OAuth, *mailtest.Tokens, *testClock) {
	t.Helper()
	tokens := mailtest.StartTokens(t, firstRefresh, anyAccess)
	clock := &testClock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	o := mail.OAuth{
		TokenURL: tokens.URL, ClientID: "client", CAFile: tokens.CAFile,
		RefreshToken: fixedSecret(firstRefresh), Name: "imap", Now: clock.now, Timeout: 10 * time.Second,
	}
	return withStore(o, &store.Store{Dir: filepath.Join(t.TempDir(), "oauth.d")}), tokens, clock
}

// withStore returns o with its tokens and its lock in st.
func withStore(o mail.OAuth, st *store.Store) mail.OAuth {
	o.Store = st
	o.TryLock = func(name string) (func() error, error) {
		lock, err := st.TryLock(name)
		if err != nil || lock == nil {
			return nil, err
		}
		return lock.Unlock, nil
	}
	return o
}

func tokenRequests(s *mailtest.Tokens) int {
	s.Lock()
	defer s.Unlock()
	return s.Asked
}

// token returns the access token and fails the test without one.
func token(t *testing.T, o mail.OAuth) string {
	t.Helper()
	got, err := o.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTokenIsCached checks that a poll each minute requests one token in 55 minutes, and one more if
// the clock or the file of the token changes.
func TestTokenIsCached(t *testing.T) {
	o, tokens, clock := newOAuth(t)
	for range 55 {
		token(t, o)
		clock.add(time.Minute)
	}
	if n := tokenRequests(tokens); n != 1 {
		t.Errorf("asked %d times in 55 polls", n)
	}
	if got := token(t, o); got != anyAccess+"-2" || tokenRequests(tokens) != 2 {
		t.Errorf("five minutes before its end: %s, asked %d times", got, tokenRequests(tokens))
	}
	configure := func(refresh string) {
		tokens.Lock()
		defer tokens.Unlock()
		tokens.Refresh, o.RefreshToken = refresh, fixedSecret(refresh)
	}
	file := o.Store.Path("imap.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for want, change := range map[string]func() error{
		"a file cut short":         func() error { return os.Truncate(file, 10) },
		"no file":                  func() error { return os.Remove(file) },
		"a clock set back":         func() error { clock.add(-24 * time.Hour); return nil },
		"another configured token": func() error { configure("refresh-other"); return nil },
	} {
		before := tokenRequests(tokens)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		token(t, o)
		if token(t, o); tokenRequests(tokens) != before+1 {
			t.Errorf("%s: asked %d times", want, tokenRequests(tokens)-before)
		}
		configure(firstRefresh)
		token(t, o)
	}
}

// TestTokenWithoutExpiry checks that a token without an expiry is renewed within the hour, and that
// a token that lives for a minute is not requested at each poll.
func TestTokenWithoutExpiry(t *testing.T) {
	o, tokens, clock := newOAuth(t)
	tokens.Life = 0
	token(t, o)
	clock.add(50 * time.Minute)
	token(t, o)
	clock.add(10 * time.Minute)
	if token(t, o); tokenRequests(tokens) != 2 {
		t.Errorf("asked %d times", tokenRequests(tokens))
	}
	tokens.Life = 60
	clock.add(time.Hour)
	token(t, o)
	clock.add(30 * time.Second)
	if token(t, o); tokenRequests(tokens) != 3 {
		t.Errorf("asked %d times", tokenRequests(tokens))
	}
}

// TestRefreshTokenRotates checks that a rotated refresh token is on disk before its first use, and
// replaces the previous one. A newly configured token replaces both.
func TestRefreshTokenRotates(t *testing.T) {
	o, tokens, clock := newOAuth(t)
	tokens.Rotate = true
	for i := range 3 {
		token(t, o)
		var saved struct {
			Refresh string `json:"refresh_token"`
		}
		data, err := os.ReadFile(o.Store.Path("imap.json"))
		if err != nil || json.Unmarshal(data, &saved) != nil || saved.Refresh != tokens.Refresh {
			t.Fatalf("round %d: kept %s, %v; want %s", i, data, err, tokens.Refresh)
		}
		clock.add(time.Hour)
	}

	// A full disk stops the renewal before the request, because a rotated token could not be saved.
	full := errors.New("no space left")
	st := o.Store.(*store.Store)
	st.Hook = func(step, _ string) error {
		if step == "write" {
			return full
		}
		return nil
	}
	before := tokenRequests(tokens)
	if _, err := o.Token(t.Context()); !errors.Is(err, full) || tokenRequests(tokens) != before {
		t.Errorf("%v, asked %d times", err, tokenRequests(tokens)-before)
	}
	st.Hook = nil
	token(t, o)

	tokens.Refresh = "refresh-new"
	o.RefreshToken = fixedSecret("refresh-new")
	token(t, o)
}

// TestOneProcessRenewsToken checks that one of many processes that need a token requests it.
func TestOneProcessRenewsToken(t *testing.T) {
	o, tokens, _ := newOAuth(t)
	open := make(chan struct{})
	tokens.Wait = open
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			mine := withStore(o, &store.Store{Dir: o.Store.(*store.Store).Dir})
			if got, err := mine.Token(t.Context()); err != nil || got != anyAccess+"-1" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	close(open)
	wg.Wait()
	if n := tokenRequests(tokens); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestRefusedGrant checks that an error about our secrets is a credential failure, and an error of
// the endpoint itself is not. Neither repeats a secret.
func TestRefusedGrant(t *testing.T) {
	const clientSecret = "client-canary-0123"
	echo := firstRefresh + " " + clientSecret + " " + base64.StdEncoding.EncodeToString([]byte("client:"+clientSecret))
	refusal := func(code string) string { return `{"error":"` + code + `","error_description":"` + echo + `"}` }
	for name, c := range map[string]struct {
		status     int
		body, want string
		credential bool
	}{
		"revoked":        {400, refusal("invalid_grant"), "invalid_grant *** *** ", true},
		"client":         {401, refusal("invalid_client"), "invalid_client", true},
		"forbidden":      {403, echo, "403 Forbidden", true},
		"in a 200":       {200, refusal("invalid_grant"), "invalid_grant", true},
		"busy":           {429, refusal("slow_down"), "slow_down", false},
		"busy in a 400":  {400, refusal("temporarily_unavailable"), "temporarily_unavailable", false},
		"down":           {503, echo, "503", false},
		"another server": {200, "<html>" + echo, "cannot parse json", false},
		"not found":      {404, echo, "404", false},
		"elsewhere":      {302, echo, "302", false},
		"no token":       {200, `{"x":"` + echo + `"}`, "missing access_token", false},
	} {
		t.Run(name, func(t *testing.T) {
			o, tokens, _ := newOAuth(t)
			o.ClientSecret = fixedSecret(clientSecret)
			tokens.Status, tokens.Body = c.status, c.body
			err := tokenLogin(t, o)
			if err == nil || isCredential(err) != c.credential || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q, a credential failure: %v", err, c.want, c.credential)
			}
			for _, form := range append(secret.Disguises(firstRefresh), secret.Disguises(clientSecret)...) {
				if strings.Contains(err.Error(), form) {
					t.Errorf("%s is in %v", form, err)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		change     func(o *mail.OAuth)
		want       string
		credential bool
	}{
		"no server":           {func(o *mail.OAuth) { o.TokenURL = "https://127.0.0.1:1/token" }, "connection refused", false},
		"an untrusted server": {func(o *mail.OAuth) { o.CAFile = "" }, "certificate", false},
		"in clear text":       {func(o *mail.OAuth) { o.TokenURL = "http://tokens.example.com/token" }, "https", false},
		"no refresh token": {func(o *mail.OAuth) {
			o.RefreshToken = func(context.Context) (string, error) { return "", errors.New("no such file") }
		}, "no such file", true},
	} {
		t.Run(name, func(t *testing.T) {
			o, tokens, _ := newOAuth(t)
			c.change(&o)
			err := tokenLogin(t, o)
			if err == nil || isCredential(err) != c.credential || !strings.Contains(err.Error(), c.want) || tokenRequests(tokens) != 0 {
				t.Errorf("%v, want %q, a credential failure: %v", err, c.want, c.credential)
			}
		})
	}
}

func isCredential(err error) bool {
	_, is := state.CredentialFailure(err)
	return is
}

// tokenLogin opens a mailbox with a token of o. The mailbox would refuse the token.
func tokenLogin(t *testing.T, o mail.OAuth) error {
	t.Helper()
	servers := mailtest.StartMemory(t, mailtest.Options{Token: "another"})
	return openTwice(t, servers, o, mail.AuthXOAuth2)
}

// openTwice logs in to both servers and returns the first error.
func openTwice(t *testing.T, servers *mailtest.Servers, o mail.OAuth, auth string) error {
	t.Helper()
	imap := tlsServer(servers.IMAPTLS, servers.Username, "", servers.CAFile)
	imap.Auth, imap.Secret, imap.Renew = auth, o.Token, o.Renew
	session, err := mail.Mailbox{Server: imap}.Open(t.Context())
	if err != nil {
		return err
	}
	session.Close()
	smtp := imap
	smtp.Addr = servers.SMTPTLS
	sender, err := smtp.OpenSender(t.Context())
	if err != nil {
		return err
	}
	return sender.Close()
}

// TestTokenLogin checks that one token logs in to both servers by both mechanisms, and that a token
// that the server revokes before its expiry is renewed at once, and only once.
func TestTokenLogin(t *testing.T) {
	for _, auth := range []string{mail.AuthXOAuth2, mail.AuthOAuthBearer} {
		t.Run(auth, func(t *testing.T) {
			o, tokens, clock := newOAuth(t)
			servers := mailtest.StartMemory(t, mailtest.Options{Echo: true})
			tokens.OnToken = servers.SetToken
			for range 3 {
				if err := openTwice(t, servers, o, auth); err != nil {
					t.Fatal(err)
				}
			}
			if n := tokenRequests(tokens); n != 1 {
				t.Errorf("asked %d times for one token", n)
			}

			servers.SetToken("revoked all")
			if err := openTwice(t, servers, o, auth); err != nil || tokenRequests(tokens) != 2 {
				t.Errorf("after it was revoked: %v, asked %d times", err, tokenRequests(tokens))
			}

			// A server that rejects every token gets one more, and no further ones.
			tokens.Lock()
			tokens.OnToken = nil
			tokens.Unlock()
			servers.SetToken("closed")
			for range 5 {
				err := openTwice(t, servers, o, auth)
				refused, is := state.CredentialFailure(err)
				if !is || refused.Name != "imap" {
					t.Fatalf("%v", err)
				}
				if strings.Contains(err.Error(), anyAccess) || strings.Contains(err.Error(), tokens.Access) {
					t.Errorf("a token is in %v", err)
				}
			}
			if n := tokenRequests(tokens); n > 3 {
				t.Errorf("asked %d times", n)
			}
			clock.add(2 * time.Hour)
			tokens.Lock()
			tokens.OnToken = servers.SetToken
			tokens.Unlock()
			if err := openTwice(t, servers, o, auth); err != nil {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

// TestTokenEndpointDown checks that a token is used until it expires while the endpoint is
// unreachable.
func TestTokenEndpointDown(t *testing.T) {
	o, tokens, clock := newOAuth(t)
	want := token(t, o)
	tokens.Lock()
	tokens.Status = 503
	tokens.Unlock()
	clock.add(57 * time.Minute)
	if got := token(t, o); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	clock.add(4 * time.Minute)
	if _, err := o.Token(t.Context()); err == nil {
		t.Error("a token after its end")
	}
}
