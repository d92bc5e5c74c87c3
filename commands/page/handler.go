package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
	"agentstateloop/mesh"
)

// Server serves the page of a listener. Its fields are set before Handler.
type Server struct {
	// Token returns the token of the listener. It is called for each request. nil closes the page.
	// Its error must not contain the token.
	Token func(context.Context) (string, error)

	URL *url.URL // the address at which a reverse proxy serves the page; nil without a proxy

	Version, Host string        // of this program and this machine
	User          string        // the operator, as a message from the terminal names them
	Heartbeat     time.Duration // of streams; 0: as a Listener
	Now           func() time.Time
	Secrets       *secret.Known // kept out of crash reports

	agents  func() []listen.Shown
	running context.Context // ends with the listener
	logins  limiter         // wrong tokens of logins
	scrapes limiter         // wrong tokens of Prometheus
	streams chan struct{}   // holds one value per stream
	newest  *watcher

	mu   sync.Mutex
	told map[told]time.Time // recent messages, and until when the same one is a second click
}

// maxBody limits the body of a request, in bytes.
const maxBody = 256 << 10

// csp is the policy of the page: its own files, and nothing else.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'none'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// Handler returns the handler for a listener (see listen.Listener.Page), which serves:
//
//	GET /                    the page; it asks for the token
//	GET page/page.js, …      its files
//	POST page/login          {token}: begins a session
//	POST page/logout         ends it
//	GET page/document        the Document; session
//	GET page/events          the Document after each change, as server-sent events; session
//	GET page/history         agent, before, q, kind: Found; session
//	POST page/act            an order: see act.go; session and its act token
//	GET metrics, page/metrics   for Prometheus; session or bearer token
//
// Every request must name this machine or the host of URL in Host, and each POST the page in Origin.
func (s *Server) Handler(running context.Context, agents func() []listen.Shown) http.Handler {
	s.running, s.agents, s.streams, s.told = running, agents, make(chan struct{}, maxStreams), map[told]time.Time{}
	s.newest = &watcher{server: s}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	for name, file := range map[string]asset{
		"page.js": {"text/javascript; charset=utf-8", Script}, "page.css": {"text/css; charset=utf-8", Style}, "icon.svg": {"image/svg+xml", Icon},
	} {
		mux.HandleFunc("GET /page/"+name, file.serve)
	}
	mux.HandleFunc("POST /page/login", s.login)
	mux.HandleFunc("POST /page/logout", s.logout)
	mux.HandleFunc("GET /page/document", s.document)
	mux.HandleFunc("GET /page/events", s.events)
	mux.HandleFunc("GET /page/history", s.history)
	mux.HandleFunc("POST /page/act", s.act)
	mux.HandleFunc("GET /page/metrics", s.metrics)
	mux.HandleFunc("GET /metrics", s.metrics)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if p := s.checkCaller(r); p != nil {
			p.write(rw, r)
			return
		}
		mux.ServeHTTP(rw, r)
	})
}

// problem is the answer to a request that is refused or fails.
type problem struct {
	code        int
	text, hint  string
	retrySecond int // after how many seconds the caller may try again; 0: not by itself
}

func (p *problem) write(rw http.ResponseWriter, r *http.Request) {
	if p.retrySecond > 0 {
		rw.Header().Set("Retry-After", fmt.Sprint(p.retrySecond))
	}
	if r.URL.Path == "/" { // a person reads it
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.WriteHeader(p.code)
		_, _ = io.WriteString(rw, strings.TrimSuffix(p.text+"\n"+p.hint, "\n")+"\n") // a failure means that the caller has disconnected
		return
	}
	answer(rw, p.code, map[string]string{"error": p.text, "hint": p.hint})
}

// answer writes a JSON body.
func answer(rw http.ResponseWriter, code int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		code, data = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON","hint":""}`)
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_, _ = rw.Write(append(data, '\n')) // a failure means that the caller has disconnected
}

// checkCaller refuses a request while the page is closed, and one that a web page of somebody else
// may have sent. A foreign Host reveals a name that was rebound to this machine. A foreign Origin
// reveals a request of another page.
func (s *Server) checkCaller(r *http.Request) *problem {
	if !mesh.LoopbackHost(r.Host) && !s.ofURL(r.Host) { // any port of this machine, because of `ssh -L`
		return &problem{code: http.StatusForbidden, text: "this listener does not serve the host " + inQuotes(r.Host),
			hint: "use 127.0.0.1 or localhost; behind a reverse proxy, start listen with --page-url and the address of the page"}
	}
	if s.Token == nil {
		return &problem{code: http.StatusForbidden, text: "the page is closed: this listener has no token",
			hint: "start listen with --token-file FILE"}
	}
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case r.Method == http.MethodPost && !s.ownOrigin(r):
		return &problem{code: http.StatusForbidden, text: "this request does not come from the page: its Origin is " + inQuotes(r.Header.Get("Origin")),
			hint: "use the buttons of the page; behind a reverse proxy, start listen with --page-url and the address of the page"}
	case r.URL.Path != "/" && site != "" && site != "same-origin" && site != "none":
		return &problem{code: http.StatusForbidden, text: "this request came from another web page", hint: "open the page itself"}
	}
	return nil
}

// maxHost limits the foreign text in a refusal, in bytes.
const maxHost = 100

func inQuotes(text string) string {
	if len(text) > maxHost {
		text = text[:maxHost] + "…"
	}
	return `"` + plain.Line(text) + `"`
}

// ofURL reports whether a Host header names the host of URL.
func (s *Server) ofURL(host string) bool {
	return s.URL != nil && strings.EqualFold(withoutPort(s.URL.Scheme, host), withoutPort(s.URL.Scheme, s.URL.Host))
}

// withoutPort returns a host with its port unless that is the default of the scheme, as in an Origin.
func withoutPort(scheme, host string) string {
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

// ownOrigin reports whether the page itself has sent the request. At the host of URL only the scheme of
// URL counts: without TLS, others can read and change the page.
func (s *Server) ownOrigin(r *http.Request) bool {
	return s.throughProxy(r) || mesh.LoopbackHost(r.Host) && !s.ofURL(r.Host) && strings.EqualFold(r.Header.Get("Origin"), "http://"+r.Host)
}

// throughProxy reports whether the Origin of a request is that of URL.
func (s *Server) throughProxy(r *http.Request) bool {
	return s.URL != nil && strings.EqualFold(r.Header.Get("Origin"), s.URL.Scheme+"://"+withoutPort(s.URL.Scheme, s.URL.Host))
}

// shown returns the agents that the page shows: those that do not switch it off, by handle. The
// listener moves an agent with a new configuration to its end.
func (s *Server) shown() (all []listen.Shown) {
	for _, a := range s.agents() {
		if a.Agent.Page != cycle.PageOff {
			all = append(all, a)
		}
	}
	order.Stable(all, func(a, b listen.Shown) int { return strings.Compare(a.Agent.Handle, b.Agent.Handle) })
	return all
}

// sources returns agents for a document.
func sources(agents []listen.Shown) []Source {
	all := []Source{}
	for _, a := range agents {
		all = append(all, Source{Agent: a.Agent, MayAct: mayAct(a.Agent)})
	}
	return all
}

// mayAct reports whether the page takes orders for an agent. On a host that does not act for the
// agent it only shows a copy.
func mayAct(a *cycle.Agent) bool {
	return cmp.Or(a.Page, cycle.PageAct) == cycle.PageAct && a.Acts() == nil
}

// closed refuses a request if no agent lets the page show it.
func (s *Server) closed() *problem {
	if len(s.agents()) == 0 {
		return &problem{code: http.StatusNotFound, text: "this listener serves no agent at the moment"}
	}
	if len(s.shown()) == 0 {
		return &problem{code: http.StatusForbidden, text: `the page is closed: [listen] page is "off" for every agent of this listener`,
			hint: `set it to "read" or "act" in agent.toml`}
	}
	return nil
}

// asset is a file of the page.
type asset struct{ mediaType, text string }

func (a asset) serve(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", a.mediaType)
	_, _ = io.WriteString(rw, a.text) // a failure means that the caller has disconnected
}

func (s *Server) index(rw http.ResponseWriter, r *http.Request) {
	if p := s.closed(); p != nil {
		p.write(rw, r)
		return
	}
	asset{"text/html; charset=utf-8", Index}.serve(rw, r)
}

// document answers with the current Document, for programs. The page itself follows the events.
func (s *Server) document(rw http.ResponseWriter, r *http.Request) {
	session, p := s.admitted(r)
	if p != nil {
		p.write(rw, r)
		return
	}
	d := NewDocument(sources(s.shown()), s.Now())
	answer(rw, http.StatusOK, s.complete(d, session))
}

// complete sets the fields of a document that the listener knows.
func (s *Server) complete(d Document, of session) Document {
	d.Now, d.Version, d.Host, d.Live = s.Now().UTC(), s.Version, s.Host, true
	for _, a := range d.Agents {
		if a.MayAct {
			d.ActToken = &of.actToken
		}
	}
	return d
}

// historyPage is the number of entries in an answer to a search.
const historyPage = 50

// history searches the history of an agent.
func (s *Server) history(rw http.ResponseWriter, r *http.Request) {
	_, p := s.admitted(r)
	if p != nil {
		p.write(rw, r)
		return
	}
	q := r.URL.Query()
	a, p := s.find(q.Get("agent"))
	if p != nil {
		p.write(rw, r)
		return
	}
	found, err := History(Source{Agent: a.Agent, MayAct: mayAct(a.Agent)}, q.Get("before"), q.Get("q"), q.Get("kind"), historyPage, s.Now())
	if err != nil {
		s.failure(a.Agent, err).write(rw, r)
		return
	}
	answer(rw, http.StatusOK, found)
}

// metrics answers Prometheus: about every agent to the bearer of the token, and about the agents that
// the page shows to a session of the page.
func (s *Server) metrics(rw http.ResponseWriter, r *http.Request) {
	agents := s.shown
	_, p := s.admitted(r)
	if p != nil && p.code == http.StatusUnauthorized {
		p.text, p.hint = "/metrics requires the bearer token of this listener, or a session of the page", tokenHint
	}
	// Another scheme is for a proxy.
	if scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " "); p != nil && strings.EqualFold(scheme, "Bearer") {
		agents, p = s.agents, s.checkToken(r.Context(), &s.scrapes, given)
	}
	if p != nil {
		rw.Header().Set("WWW-Authenticate", `Bearer realm="agentstateloop"`)
		p.write(rw, r)
		return
	}
	rw.Header().Set("Content-Type", MetricsType)
	_ = Metrics(rw, sources(agents()), s.Version, s.Now()) // a failure means that the caller has disconnected
}

// find returns the shown agent with this handle.
func (s *Server) find(handle string) (listen.Shown, *problem) {
	for _, a := range s.shown() {
		if a.Agent.Handle == handle {
			return a, nil
		}
	}
	return listen.Shown{}, &problem{code: http.StatusNotFound, text: "the page does not show an agent " + inQuotes("@"+handle), hint: "reload the page"}
}

// failure is the answer to an act or a search that failed, in the words of the command.
func (s *Server) failure(a *cycle.Agent, err error) *problem {
	p := &problem{code: http.StatusConflict, text: s.Secrets.Redact(err.Error())}
	if a.Explain != nil {
		p.hint, _, _ = a.Explain(err)
	}
	return p
}

// decode reads the JSON body of a POST into an object. A form or a plain text, which another page
// could send, is refused.
func decode(rw http.ResponseWriter, r *http.Request, into any) *problem {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return &problem{code: http.StatusUnsupportedMediaType, text: "the body must be application/json", hint: "use the buttons of the page"}
	}
	data, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBody))
	switch {
	case err != nil:
		return &problem{code: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body is incomplete, or exceeds %d KiB", maxBody>>10), hint: "send less text"}
	case !utf8.Valid(data), json.Unmarshal(data, into) != nil:
		return &problem{code: http.StatusBadRequest, text: "the body is not the JSON object that this call needs", hint: "reload the page"}
	}
	return nil
}
