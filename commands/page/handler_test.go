package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agentstateloop/commands/page"
	"agentstateloop/cycle"
)

// TestRefusals sends each request that must not reach the page. The same request works for the page
// itself, and by each name of this machine.
func TestRefusals(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	port := b.base[strings.LastIndex(b.base, ":"):]
	act := fmt.Sprintf(`{"agent":%q,"act":"halt"}`, handle)
	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		code                     int
		text                     string
	}{
		{"a page of another site", "GET", "/page/document", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "from another web page"},
		{"a page of another port", "GET", "/page/events", "", []string{"Sec-Fetch-Site", "same-site"}, 403, "from another web page"},
		{"a name that was rebound", "GET", "/page/document", "", []string{"Host", "evil.example" + port}, 403, `does not serve the host \"evil.example`},
		{"a name that was rebound, the page", "GET", "/", "", []string{"Host", "evil.example" + port}, 403, `does not serve the host "evil.example`},
		{"a name like ours", "GET", "/", "", []string{"Host", "localhost.evil.example" + port}, 403, "does not serve"},
		{"an address of the network", "GET", "/page/document", "", []string{"Host", "192.0.2.1" + port}, 403, "does not serve"},
		{"no host", "GET", "/metrics", "", []string{"Host", "."}, 403, "does not serve"},
		{"a rebound name in both", "POST", "/page/act", act, []string{"Host", "evil.example", "Origin", "http://evil.example"}, 403, "does not serve"},
		{"a foreign Origin", "POST", "/page/act", act, []string{"Origin", "https://evil.example"}, 403, "does not come from the page"},
		{"another port", "POST", "/page/act", act, []string{"Origin", "http://127.0.0.1:1"}, 403, "does not come from the page"},
		{"another name of this machine", "POST", "/page/act", act, []string{"Origin", "http://localhost" + port}, 403, "does not come from the page"},
		{"https", "POST", "/page/act", act, []string{"Origin", "https://127.0.0.1" + port}, 403, "does not come from the page"},
		{"Origin null", "POST", "/page/act", act, []string{"Origin", "null"}, 403, "does not come from the page"},
		{"no Origin", "POST", "/page/act", act, []string{"Origin", ""}, 403, "does not come from the page"},
		{"no Origin at the login", "POST", "/page/login", `{"token":"open sesame"}`, []string{"Origin", ""}, 403, "does not come from the page"},
		{"a foreign Origin at the logout", "POST", "/page/logout", "{}", []string{"Origin", "https://evil.example"}, 403, "does not come from the page"},
		{"a form", "POST", "/page/act", "agent=" + handle + "&act=halt", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "application/json"},
		{"JSON as text", "POST", "/page/act", act, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{"JSON of no type", "POST", "/page/act", act, []string{"Content-Type", ""}, 415, "application/json"},
		{"no act token", "POST", "/page/act", act, []string{"X-Page-Token", ""}, 403, "your session"},
		{"a foreign act token", "POST", "/page/act", act, []string{"X-Page-Token", strings.Repeat("0", 64)}, 403, "your session"},
		{"no JSON", "POST", "/page/act", "{", nil, 400, "not the JSON object"},
		{"not UTF-8", "POST", "/page/act", "{\"agent\":\"\xff\"}", nil, 400, "not the JSON object"},
		{"a large body", "POST", "/page/act", `{"text":"` + strings.Repeat("x", 300<<10) + `"}`, nil, 413, "exceeds 256 KiB"},
		{"an unknown act", "POST", "/page/act", fmt.Sprintf(`{"agent":%q,"act":"purge"}`, handle), nil, 400, `cannot do \"purge\"`},
		{"an unknown agent", "POST", "/page/act", `{"agent":"<script>","act":"halt"}`, nil, 404, `does not show an agent`},
		{"a history of an unknown agent", "GET", "/page/history?agent=x", "", nil, 404, "does not show an agent"},
		{"an act by GET", "GET", "/page/act", "", nil, 405, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			inner := *b
			inner.t = t
			r := inner.send(test.method, test.path, test.body, test.header...)
			r.says(t, test.code, test.text)
			if strings.Contains(r.body, "<script>") {
				t.Errorf("foreign text is markup: %s", r.body)
			}
		})
	}
	if s.state().Halted() {
		t.Error("a refused request has halted the agent")
	}
	b.send("POST", "/page/act", act).says(t, 200, "is HALTED")
	if !s.state().Halted() {
		t.Error("the request of the page has not halted the agent")
	}
	for _, host := range []string{"localhost" + port, "127.0.0.1:9", "[::1]:9000", "LOCALHOST", "127.8.8.8"} {
		one := s.browser()
		one.send("POST", "/page/login", `{"token":"open sesame"}`, "Host", host, "Origin", "http://"+host).says(t, 200, "ok")
		var d page.Document
		check(t, json.Unmarshal([]byte(one.send("GET", "/page/document", "", "Host", host).body), &d))
		one.act = *d.ActToken
		one.send("POST", "/page/act", act, "Host", host, "Origin", "http://"+host).says(t, 200, "HALTED")
	}
}

// TestSecurityHeaders checks the headers of every kind of answer.
func TestSecurityHeaders(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	for _, path := range []string{"/", "/page/page.js", "/page/page.css", "/page/icon.svg", "/page/document", "/page/nothing", "/metrics"} {
		r := b.send("GET", path, "")
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
		} {
			if got := r.head.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if r.head.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s can be read by other pages", path)
		}
	}
	for path, want := range map[string]string{"/": "text/html; charset=utf-8", "/page/page.js": "text/javascript; charset=utf-8", "/page/page.css": "text/css; charset=utf-8", "/page/icon.svg": "image/svg+xml"} {
		if got := b.send("GET", path, ""); got.head.Get("Content-Type") != want || got.code != 200 {
			t.Errorf("%s: %d %s", path, got.code, got.head.Get("Content-Type"))
		}
	}
}

// TestClosedPage checks a listener without a token, and agents that switch the page off or limit it.
func TestClosedPage(t *testing.T) {
	s := serve(t, func(s *served) { s.server.Token = nil })
	b := s.browser()
	for _, path := range []string{"/", "/page/document", "/metrics", "/page/page.js"} {
		b.send("GET", path, "").says(t, 403, "the page is closed: this listener has no token")
	}
	if r := b.send("GET", "/", ""); !strings.HasPrefix(r.head.Get("Content-Type"), "text/plain") || !strings.Contains(r.body, "--token-file") {
		t.Errorf("a person reads %s: %s", r.head.Get("Content-Type"), r.body)
	}

	off := serve(t, func(s *served) {
		s.agent.Page = cycle.PageOff
		s.more = []*cycle.Agent{s.newAgent("reader1")}
		s.more[0].Page = cycle.PageRead
	})
	b = off.browser().login()
	d := b.document()
	if len(d.Agents) != 1 || d.Agents[0].Handle != "reader1" || d.Agents[0].MayAct || d.ActToken != nil {
		t.Errorf("the page shows %+v, act token %v", d.Agents, d.ActToken)
	}
	b.do("halt", "", "").says(t, 403, "your session") // it has no act token
	if r := b.send("GET", "/page/metrics", ""); r.code != 200 || !strings.Contains(r.body, `"reader1"`) || strings.Contains(r.body, handle) {
		t.Errorf("the metrics of a session: %d %s", r.code, r.body)
	}
	off.browser().send("GET", "/metrics", "", "Authorization", "Bearer "+theToken).says(t, 200, handle)
	act := serve(t, func(s *served) { s.more = []*cycle.Agent{s.newAgent("reader1")}; s.more[0].Page = cycle.PageRead })
	b = act.browser().login()
	b.send("POST", "/page/act", `{"agent":"reader1","act":"halt"}`).says(t, 403, `the page only shows @reader1: [listen] page is \"read\"`)
	if st, err := act.more[0].Store.Read(); err != nil || st.Halted() {
		t.Errorf("an agent that is only shown is halted: %v", err)
	}
	b.do("halt", "", "").says(t, 200, "HALTED")

	none := serve(t, func(s *served) { s.agent.Page = cycle.PageOff })
	b = none.browser()
	b.send("GET", "/", "").says(t, 403, `the page is closed: [listen] page is "off"`)
	b.send("POST", "/page/login", `{"token":"open sesame"}`).says(t, 200, "ok")
	b.send("GET", "/page/document", "").says(t, 403, "the page is closed")
	b.send("GET", "/page/events", "").says(t, 403, "the page is closed")
	b.send("GET", "/page/metrics", "").says(t, 403, "the page is closed")
	b.send("GET", "/metrics", "", "Authorization", "Bearer "+theToken).says(t, 200, "")
}

// TestWebhookBesideThePage checks that the webhook refuses browsers, and works, as without a page.
func TestWebhookBesideThePage(t *testing.T) {
	s := serve(t)
	b := s.browser().login()
	for _, path := range []string{"/nudge", "/message", "/report/x", "/pagex"} {
		b.send("POST", path, `{}`).says(t, 403, "web pages are not allowed")
	}
	b.send("POST", "/nudge", `{}`, "Origin", "").says(t, 401, "bearer token")
	b.send("POST", "/nudge", `{}`, "Origin", "", "Authorization", "Bearer "+theToken).says(t, 202, "nudged")
	b.send("POST", "/", `{}`).says(t, 405, "")
}

// TestMetricsNeedTheToken checks who may read /metrics.
func TestMetricsNeedTheToken(t *testing.T) {
	s := serve(t)
	b := s.browser()
	bearer := func(token string) reply { return b.send("GET", "/metrics", "", "Authorization", token) }
	r := b.send("GET", "/metrics", "")
	r.says(t, 401, "requires the bearer token")
	if r.head.Get("WWW-Authenticate") == "" {
		t.Error("the refusal names no scheme")
	}
	bearer("Bearer wrong").says(t, 401, "not the token")
	for range 11 { // the login of a proxy
		bearer("Basic "+theToken).says(t, 401, "requires the bearer token")
	}
	r = bearer("Bearer " + theToken)
	r.says(t, 200, "")
	if got := r.head.Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("Content-Type %q", got)
	}
	b.login()
	b.send("GET", "/page/metrics", "").says(t, 200, "")
	b.send("GET", "/page/metrics", "", "Authorization", "Basic of a proxy").says(t, 200, "")
	stranger := s.browser()
	bearer = func(token string) reply { return stranger.send("GET", "/metrics", "", "Authorization", token) }
	for range 9 {
		bearer("Bearer wrong").says(t, 401, "not the token")
	}
	bearer("Bearer "+theToken).says(t, 429, "too many wrong tokens")
	s.browser().login() // has its own limit
	s.later.Store(int64(61 * time.Second))
	bearer("Bearer "+theToken).says(t, 200, "")
}

// TestBehindAProxy checks which requests the address of a proxy admits.
func TestBehindAProxy(t *testing.T) {
	s := serve(t, func(s *served) { s.server.URL = &url.URL{Scheme: "https", Host: "agents.example.com:443", Path: "/p/"} })
	b := s.browser()
	const site = "https://agents.example.com"
	for _, test := range []struct {
		host, origin string
		code         int
	}{
		{"agents.example.com", site, 200},
		{"127.0.0.1:8802", site, 200}, // a proxy that sets Host
		{"AGENTS.example.com", "https://Agents.example.com", 200},
		{"agents.example.com", "http://agents.example.com", 403}, // anybody on the way can change that page
		{"agents.example.com:443", site, 200},
		{"127.0.0.1:8802", "http://127.0.0.1:8802", 200}, // ssh -L
		{"127.0.0.1:8802", "http://agents.example.com", 403},
		{"agents.example.com:8443", site, 403},
		{"other.example.com", site, 403},
		{"agents.example.com", "https://other.example.com", 403},
		{"agents.example.com", "https://agents.example.com:8443", 403},
		{"agents.example.com", "null", 403},
	} {
		r := b.send("POST", "/page/login", `{"token":"open sesame"}`, "Host", test.host, "Origin", test.origin)
		if r.code != test.code {
			t.Errorf("Host %s, Origin %s: %d %s, want %d", test.host, test.origin, r.code, r.body, test.code)
		}
		cookie := r.head.Get("Set-Cookie")
		if secure := strings.Contains(cookie, "; Secure"); r.code == http.StatusOK && secure != strings.EqualFold(test.origin, site) {
			t.Errorf("Host %s, Origin %s: cookie %s", test.host, test.origin, cookie)
		}
	}
	local := serve(t, func(s *served) { s.server.URL = &url.URL{Scheme: "https", Host: "localhost", Path: "/"} })
	for origin, code := range map[string]int{"https://localhost": 200, "http://localhost": 403} {
		local.browser().send("POST", "/page/login", `{"token":"open sesame"}`, "Host", "localhost", "Origin", origin).says(t, code, "")
	}
}
