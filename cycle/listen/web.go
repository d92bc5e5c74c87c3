package listen

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"agentstateloop/cycle"
	"agentstateloop/internal/secret"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// maxBody limits the body of a request, in bytes.
const maxBody = 64 << 10

// maxMessage limits a body with a message, in bytes. JSON may escape each byte of it.
const maxMessage = 6*store.MaxEventText + 4<<10

// webServer serves the webhook and the wake addresses that the mesh calls.
type webServer struct {
	*Listener
	secret string       // part of the wake addresses; only the mesh knows it
	page   http.Handler // nil without a page

	followers chan struct{}   // holds one value per follower of events
	running   context.Context // ends with the listener
}

func newWeb(ctx context.Context, l *Listener) *webServer {
	w := &webServer{Listener: l, secret: rand.Text(), followers: make(chan struct{}, maxFollowers), running: ctx}
	if l.Page != nil {
		w.page = l.Page(ctx, l.shown)
	}
	return w
}

// address returns the wake address of an agent.
func (w *webServer) address(p *servedAgent) string {
	return "http://" + w.Web.Addr().String() + mesh.WakePath(p.Handle, w.secret)
}

// server returns the HTTP server, which serves:
//
//	POST /nudge, /nudge/{handle}   {from?, reason?}; bearer token; 202 once the nudge is durable
//	POST /report/{id}, /report/{handle}/{id}   {status?, fields?, message?, from?}; bearer token; 202 once it
//	                               is durable, 200 if it already was, 404 unknown, 410 late
//	POST /message, /message/{handle} {from?, subject?, text}; bearer token; 202 {key} once it is in the inbox
//	GET /events, /events/{handle}  bearer token; server-sent events, until one side disconnects
//	POST mesh.WakePath             called by the mesh, which keeps the message; 202
//	GET /, /page/, GET /metrics    the page, if there is one
func (w *webServer) server() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /nudge", w.nudge)
	mux.HandleFunc("POST /nudge/{handle}", w.nudge)
	mux.HandleFunc("POST /report/{id}", w.report)
	mux.HandleFunc("POST /report/{handle}/{id}", w.report)
	mux.HandleFunc("POST /message", w.message)
	mux.HandleFunc("POST /message/{handle}", w.message)
	mux.HandleFunc("GET /events", w.events)
	mux.HandleFunc("GET /events/{handle}", w.events)
	mux.HandleFunc("POST "+mesh.WakePath("{handle}", "{secret}"), w.wake)
	return &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if w.page != nil && ofPage(r.URL.Path) {
				w.page.ServeHTTP(rw, r)
				return
			}
			w.refuseBrowsers(mux, rw, r)
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// ofPage reports whether a path belongs to the page.
func ofPage(path string) bool {
	return path == "/" || path == "/metrics" || strings.HasPrefix(path, "/page/")
}

// shown returns the served agents for the page.
func (l *Listener) shown() (all []Shown) {
	for _, p := range l.served() {
		all = append(all, Shown{Agent: p.Agent, Poll: p.requestPoll})
	}
	return all
}

// shutDown stops the server when ctx ends. Pending requests get 3 seconds.
func shutDown(ctx context.Context, server *http.Server) {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close()
	}
}

// refuseBrowsers refuses every request from a web page.
func (w *webServer) refuseBrowsers(mux http.Handler, rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.Header().Set("Cache-Control", "no-store")
	if err := mesh.CheckBrowser(r); err != nil {
		refuse(rw, http.StatusForbidden, err.Error())
		return
	}
	mux.ServeHTTP(rw, r)
}

// nudge nudges one of our agents. It answers once the nudge is a file in nudges/.
func (w *webServer) nudge(rw http.ResponseWriter, r *http.Request) {
	p := w.admitted(rw, r, "POST /nudge/HANDLE")
	if p == nil {
		return
	}
	var body struct {
		From   string `json:"from"`
		Reason string `json:"reason"`
	}
	if !decode(rw, r, maxBody, &body, `{"from": "backup", "reason": "it failed"}`) {
		return
	}
	if err := p.Ring(body.From, body.Reason); err != nil {
		fail(rw, err)
		return
	}
	p.requestPoll()
	answer(rw, http.StatusAccepted, map[string]string{"nudged": p.Handle})
}

// message gives a program's message to one of our agents. It answers once the message is in the
// inbox.
func (w *webServer) message(rw http.ResponseWriter, r *http.Request) {
	p := w.admitted(rw, r, "POST /message/HANDLE")
	if p == nil {
		return
	}
	var body struct {
		From    string `json:"from"`
		Subject string `json:"subject"`
		Text    string `json:"text"`
		Message string `json:"message"`
		Body    string `json:"body"`
	}
	if !decode(rw, r, maxMessage, &body, `{"from": "ci", "text": "the build is red"}`) {
		return
	}
	key, err := p.TellEvent(r.Context(), cycle.EventMessage{
		From: cmp.Or(body.From, "webhook"), Subject: body.Subject, Text: cmp.Or(body.Text, body.Message, body.Body),
	})
	switch {
	case errors.Is(err, cycle.ErrEventText):
		refuse(rw, http.StatusBadRequest, err.Error())
	case errors.Is(err, cycle.ErrEventsFull):
		refuseForNow(rw, err)
	case err != nil:
		fail(rw, err)
	default:
		p.requestPoll()
		answer(rw, http.StatusAccepted, map[string]string{"key": key})
	}
}

// fail answers a call that failed. If another host acts for the agent, the caller tries again later.
func fail(rw http.ResponseWriter, err error) {
	if standsBy(err) {
		refuseForNow(rw, err)
		return
	}
	refuse(rw, http.StatusInternalServerError, err.Error())
}

// refuseForNow asks the caller to try again in a minute.
func refuseForNow(rw http.ResponseWriter, err error) {
	rw.Header().Set("Retry-After", "60")
	refuse(rw, http.StatusServiceUnavailable, err.Error())
}

// admitted returns the recipient of a call with the token. Otherwise it answers the call and
// returns nil. An agent for which another host acts takes no call.
func (w *webServer) admitted(rw http.ResponseWriter, r *http.Request, call string) *servedAgent {
	if !w.authorized(rw, r) {
		return nil
	}
	p, why := w.recipient(r.PathValue("handle"), call)
	if p == nil {
		refuse(rw, http.StatusNotFound, why)
		return nil
	}
	if err := p.Acts(); err != nil {
		refuseForNow(rw, err)
		return nil
	}
	return p
}

// decode reads the body of a call, which may be empty. It answers the call and returns false if
// the body is too long or is not an object like example.
func decode(rw http.ResponseWriter, r *http.Request, most int64, into any, example string) bool {
	data, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, most))
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		refuse(rw, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body exceeds %d KiB", most>>10))
	case err != nil:
		refuse(rw, http.StatusBadRequest, "the body is incomplete")
	case !utf8.Valid(data): // JSON would replace the invalid bytes
		refuse(rw, http.StatusBadRequest, "the body is not UTF-8")
	case len(bytes.TrimSpace(data)) > 0 && json.Unmarshal(data, into) != nil:
		refuse(rw, http.StatusBadRequest, "the body must be a JSON object such as "+example)
	default:
		return true
	}
	return false
}

// checkToken returns a status and a reason unless r carries the token.
func (w *webServer) checkToken(r *http.Request) (code int, why string) {
	if w.Token == nil {
		return http.StatusForbidden, "the webhook is closed: start listen with --token-file"
	}
	token, err := w.Token(r.Context())
	if err != nil {
		return http.StatusInternalServerError, "cannot read the webhook token: " + err.Error()
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !secret.Equal(strings.TrimSpace(given), token) {
		return http.StatusUnauthorized, "this call requires the bearer token of listen --token-file"
	}
	return 0, ""
}

// recipient returns the agent with that handle, or the only agent if handle is "". Otherwise it
// returns the reason.
func (w *webServer) recipient(handle, call string) (p *servedAgent, why string) {
	agents := w.served()
	switch {
	case len(agents) == 0:
		return nil, "this listener serves no agent at the moment"
	case handle == "" && len(agents) == 1:
		return agents[0], ""
	case handle == "":
		return nil, "this listener serves several agents: use " + call
	}
	if p = w.find(strings.TrimPrefix(handle, "@")); p == nil {
		return nil, "this listener does not serve that agent"
	}
	return p, ""
}

// wake handles a call of the mesh. It ignores the body and reads the mailbox, which holds the
// message.
func (w *webServer) wake(rw http.ResponseWriter, r *http.Request) {
	p := w.find(r.PathValue("handle"))
	if p == nil || !secret.Equal(r.PathValue("secret"), w.secret) {
		refuse(rw, http.StatusNotFound, "unknown address")
		return
	}
	signal(p.askMesh)
	answer(rw, http.StatusAccepted, map[string]string{"woken": p.Handle})
}

// register publishes our wake address in the registry of the mesh. A standby has no row there.
func (p *servedAgent) register(ctx context.Context) {
	if p.Acts() != nil {
		return
	}
	s, err := p.Store.Read()
	for err == nil {
		published := s.Phase
		if err = p.Mesh.Carrier.Register(ctx, mesh.Presence{
			Phase: published, Asleep: s.Asleep, Tier: s.Tier(p.Policy, p.Now()), Callsign: "@" + p.Handle, Wake: p.wakeURL,
		}); err != nil {
			break
		}
		// A poll may have published another phase before ours arrived.
		if s, err = p.Store.Read(); s.Phase == published {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		p.listener.Logf("@%s: %v; the long poll still wakes the agent", p.Handle, err)
	}
}

func refuse(rw http.ResponseWriter, code int, why string) {
	answer(rw, code, map[string]string{"error": why})
}

func answer(rw http.ResponseWriter, code int, body map[string]string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	json.NewEncoder(rw).Encode(body) // an error means that the caller has disconnected
}

// report accepts a report that a turn of one of our agents waits for. It answers once the report
// is durable.
func (w *webServer) report(rw http.ResponseWriter, r *http.Request) {
	p := w.admitted(rw, r, "POST /report/HANDLE/ID")
	if p == nil {
		return
	}
	var body struct {
		From    string        `json:"from"`
		Status  state.Outcome `json:"status"`
		Fields  mesh.Fields   `json:"fields"`
		Message string        `json:"message"`
	}
	if !decode(rw, r, maxBody, &body, `{"status": "success", "message": "deployed", "fields": {"commit": "4f2a"}}`) {
		return
	}
	report := cycle.LocalReport{From: body.From, Status: body.Status, Text: body.Message, Fields: body.Fields}
	if report.From == "" {
		report.From = "webhook"
	}
	if err := report.Check(); err != nil {
		refuse(rw, http.StatusBadRequest, err.Error())
		return
	}
	id := r.PathValue("id")
	taken, err := p.TakeReport(r.Context(), id, report)
	switch {
	case errors.Is(err, cycle.ErrUnknownReport), errors.Is(err, cycle.ErrNotTheirs):
		refuse(rw, http.StatusNotFound, err.Error())
	case errors.Is(err, cycle.ErrLateReport):
		refuse(rw, http.StatusGone, err.Error())
	case err != nil:
		fail(rw, err)
	case taken:
		p.requestPoll()
		answer(rw, http.StatusAccepted, map[string]string{"reported": id})
	default:
		answer(rw, http.StatusOK, map[string]string{"reported": id})
	}
}

// authorized reports whether r carries the token. If not, it refuses the request.
func (w *webServer) authorized(rw http.ResponseWriter, r *http.Request) bool {
	code, why := w.checkToken(r)
	if why == "" {
		return true
	}
	if code == http.StatusUnauthorized {
		rw.Header().Set("WWW-Authenticate", `Bearer realm="agentstateloop"`)
	}
	refuse(rw, code, why)
	return false
}
