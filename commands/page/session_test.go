package page_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// cookieOf returns the cookie of a login, as name=value.
func cookieOf(t *testing.T, r reply) string {
	t.Helper()
	r.says(t, 200, `"ok":true`)
	cookie, _, _ := strings.Cut(r.head.Get("Set-Cookie"), ";")
	return cookie
}

// TestSessions checks which cookies the page accepts.
func TestSessions(t *testing.T) {
	s := serve(t)
	bare := func(cookie string) reply { // without a jar
		return s.browser().send("GET", "/page/document", "", "Cookie", cookie)
	}
	login := func() reply { return s.browser().send("POST", "/page/login", `{"token":"open sesame"}`) }
	first := login()
	cookie := cookieOf(t, first)
	for _, want := range []string{"; HttpOnly", "; SameSite=Strict", "; Max-Age=2592000"} {
		if !strings.Contains(first.head.Get("Set-Cookie"), want) {
			t.Errorf("the cookie is %s, want %s", first.head.Get("Set-Cookie"), want)
		}
	}
	for _, no := range []string{"Secure", "Path=", "Domain=", theToken} {
		if strings.Contains(first.head.Get("Set-Cookie"), no) {
			t.Errorf("the cookie is %s, with %s", first.head.Get("Set-Cookie"), no)
		}
	}
	bare(cookie).says(t, 200, handle)
	bare("").says(t, 401, "not logged in")
	name, value, _ := strings.Cut(cookie, "=")
	parts := strings.Split(value, ".")
	for what, forged := range map[string]string{
		"no value": "", "another name": "", "words": "a.b.c", "no sum": parts[0] + "." + parts[1] + ".", "a longer life": parts[0] + ".9999999999." + parts[2],
		"another nonce": "X" + parts[0] + "." + parts[1] + "." + parts[2], "four parts": value + ".x", "parts moved": parts[0] + parts[1] + ".." + parts[2],
	} {
		key := name
		if what == "another name" {
			key, forged = "agentstateloop", value
		}
		if r := bare(key + "=" + forged); r.code != http.StatusUnauthorized {
			t.Errorf("%s: answered %d", what, r.code)
		}
	}

	// The act token of one session is refused in another.
	one, two := s.browser().login(), s.browser().login()
	if one.act == two.act || one.act == "" {
		t.Errorf("act tokens %q and %q", one.act, two.act)
	}
	one.act, two.act = two.act, one.act
	one.do("halt", "", "").says(t, 403, "your session")
	one.act = two.act
	one.do("halt", "", "").says(t, 200, "HALTED")
	noSession := s.browser()
	noSession.act = one.act
	noSession.do("resume", "", "").says(t, 401, "not logged in")

	s.later.Store(int64(30*24*time.Hour - time.Minute))
	bare(cookie).says(t, 200, handle)
	s.later.Store(int64(30*24*time.Hour + time.Minute))
	bare(cookie).says(t, 401, "your session has ended")
	s.later.Store(0)

	one.act = one.login().act
	out := one.send("POST", "/page/logout", "")
	out.says(t, 200, "ok")
	one.send("GET", "/page/document", "").says(t, 401, "not logged in")

	// A new token ends all sessions.
	s.token.Store("another")
	bare(cookie).says(t, 401, "not logged in")
	s.browser().send("POST", "/page/login", `{"token":"open sesame"}`).says(t, 401, "not the token")
	s.token.Store(theToken)
	bare(cookie).says(t, 200, handle)
}

// TestWrongTokens checks that a login with the eleventh wrong token within a minute is refused, as is
// the right one then, and that a right token costs nothing.
func TestWrongTokens(t *testing.T) {
	s := serve(t)
	b := s.browser()
	login := func(token string) reply { return b.send("POST", "/page/login", `{"token":"`+token+`"}`) }
	for range 20 {
		login(theToken+`\n`).says(t, 200, "ok") // pasted with its line break
	}
	for range 10 {
		login("wrong").says(t, 401, "this is not the token of this listener")
	}
	r := login("wrong")
	r.says(t, 429, "too many wrong tokens: wait a minute")
	if r.head.Get("Retry-After") != "60" {
		t.Errorf("Retry-After %q", r.head.Get("Retry-After"))
	}
	login(theToken).says(t, 429, "too many wrong tokens")
	b.send("GET", "/page/document", "").says(t, 200, handle) // a session goes on
	s.later.Store(int64(61 * time.Second))
	login(theToken).says(t, 200, "ok")
	login("").says(t, 401, "not the token")
}

// TestUnreadableToken checks that the page is closed while its token cannot be read.
func TestUnreadableToken(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	s.server.Token = func(context.Context) (string, error) { return "", errors.New("/home/you/token: no such file") }
	for _, r := range []reply{b.send("GET", "/page/document", ""), b.send("POST", "/page/login", `{"token":""}`), b.send("GET", "/metrics", "", "Authorization", "Bearer "), b.send("POST", "/page/logout", "")} {
		r.says(t, 500, "cannot read the token: /home/you/token: no such file")
	}
}
