package page

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentstateloop/internal/secret"
)

// sessionTime is how long a session lasts.
const sessionTime = 30 * 24 * time.Hour

// session is a browser that has given the token. It exists only in the browser's cookie:
// NONCE.EXPIRY.MAC, where MAC is made with a key from the token. So a new token ends all sessions.
type session struct {
	actToken string // belongs to the session, and must come with each act
}

// keyOf returns the key for sessions.
func keyOf(token string) []byte { return mac([]byte(token), "agentstateloop page") }

// mac returns the authentication code of parts.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(strings.Join(parts, "\x00")))
	return h.Sum(nil)
}

// cookieName returns the name of the cookie. A browser sends a cookie to every port of a machine, so
// listeners with different tokens have different names.
func cookieName(key []byte) string {
	return "agentstateloop_" + hex.EncodeToString(mac(key, "name"))[:8]
}

// newCookie returns the value of a new session's cookie.
func newCookie(key []byte, now time.Time) string {
	nonce, expiry := rand.Text(), strconv.FormatInt(now.Add(sessionTime).Unix(), 10)
	return nonce + "." + expiry + "." + hex.EncodeToString(mac(key, "session", nonce, expiry))
}

// parseCookie returns the session of a cookie's value. ok is false if the key did not make it, or if
// it has expired.
func parseCookie(key []byte, value string, now time.Time) (of session, ok bool) {
	parts := strings.Split(value, ".")
	if len(parts) != 3 {
		return session{}, false
	}
	nonce, expiry := parts[0], parts[1]
	sum, err := hex.DecodeString(parts[2])
	if err != nil || !hmac.Equal(sum, mac(key, "session", nonce, expiry)) {
		return session{}, false
	}
	until, err := strconv.ParseInt(expiry, 10, 64)
	if err != nil || now.Unix() >= until {
		return session{}, false
	}
	return session{actToken: hex.EncodeToString(mac(key, "act", nonce))}, true
}

// unreadToken is the answer if the token cannot be read.
func unreadToken(err error) *problem {
	return &problem{code: http.StatusInternalServerError, text: "cannot read the token: " + err.Error(), hint: "correct the file that listen --token-file names"}
}

// session returns the session of a request.
func (s *Server) session(r *http.Request) (session, *problem) {
	token, err := s.Token(r.Context())
	if err != nil {
		return session{}, unreadToken(err)
	}
	key := keyOf(token)
	for _, cookie := range r.CookiesNamed(cookieName(key)) {
		if of, ok := parseCookie(key, cookie.Value, s.Now()); ok {
			return of, nil
		}
	}
	return session{}, &problem{code: http.StatusUnauthorized, text: "you are not logged in, or your session has ended", hint: "open the page and enter the token"}
}

// admitted returns the session of a request for an open page.
func (s *Server) admitted(r *http.Request) (session, *problem) {
	of, p := s.session(r)
	if p == nil {
		p = s.closed()
	}
	return of, p
}

// login begins a session.
func (s *Server) login(rw http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	p := decode(rw, r, &body)
	if p == nil {
		p = s.checkToken(r.Context(), &s.logins, body.Token)
	}
	if p != nil {
		p.write(rw, r)
		return
	}
	token, err := s.Token(r.Context())
	if err != nil {
		unreadToken(err).write(rw, r)
		return
	}
	key := keyOf(token)
	s.setCookie(rw, r, key, newCookie(key, s.Now()), int(sessionTime/time.Second))
	answer(rw, http.StatusOK, map[string]bool{"ok": true})
}

// logout ends the session of this browser. Only a new token ends one that was copied.
func (s *Server) logout(rw http.ResponseWriter, r *http.Request) {
	token, err := s.Token(r.Context())
	if err != nil {
		unreadToken(err).write(rw, r)
		return
	}
	s.setCookie(rw, r, keyOf(token), "", -1)
	answer(rw, http.StatusOK, map[string]bool{"ok": true})
}

// setCookie sets the cookie of a session. Without a path the browser sends it only below the folder
// of the login, behind a path prefix too.
func (s *Server) setCookie(rw http.ResponseWriter, r *http.Request, key []byte, value string, maxAge int) {
	http.SetCookie(rw, &http.Cookie{
		Name: cookieName(key), Value: value, MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: s.throughProxy(r) && s.URL.Scheme == "https",
	})
}

// checkToken refuses a wrong token, and every token after too many wrong ones.
func (s *Server) checkToken(ctx context.Context, l *limiter, given string) *problem {
	token, err := s.Token(ctx)
	if err != nil {
		return unreadToken(err)
	}
	right := secret.Equal(strings.TrimSpace(given), strings.TrimSpace(token))
	switch ok, limited := l.try(s.Now(), right); {
	case limited:
		return &problem{code: http.StatusTooManyRequests, text: "too many wrong tokens: wait a minute", hint: tokenHint, retrySecond: 60}
	case !ok:
		return &problem{code: http.StatusUnauthorized, text: "this is not the token of this listener", hint: tokenHint}
	}
	return nil
}

const tokenHint = "the token is in the file that listen --token-file names"

// maxWrong limits the wrong tokens within a minute.
const maxWrong = 10

// limiter counts the wrong tokens of the last minute.
type limiter struct {
	mu    sync.Mutex
	wrong []time.Time
}

// try counts a wrong token. It reports whether the token is accepted, or why not: limited is true
// after too many wrong ones.
func (l *limiter) try(now time.Time, right bool) (ok, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = slices.DeleteFunc(l.wrong, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if len(l.wrong) >= maxWrong {
		return false, true
	}
	if !right {
		l.wrong = append(l.wrong, now)
	}
	return right, false
}
