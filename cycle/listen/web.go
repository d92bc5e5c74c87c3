package listen

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"agentstateloop/mesh"
)

// maxBody is the largest body of a call, in bytes.
const maxBody = 64 << 10

// webServer is the webhook, and the wake addresses that the mesh rings.
type webServer struct {
	*Listener
	secret string // part of the wake addresses: only the mesh knows it
}

func newWeb(l *Listener) *webServer { return &webServer{Listener: l, secret: rand.Text()} }

// address is the wake address of an agent.
func (w *webServer) address(p *servedAgent) string {
	return "http://" + w.Web.Addr().String() + "/wake/" + p.Handle + "/" + w.secret
}

// server serves:
//
//	POST /nudge, /nudge/{handle}   {from?, reason?}; bearer token; 202 when the nudge is durable
//	POST /wake/{handle}/{secret}   from the mesh, which holds what it rings for; 202
func (w *webServer) server() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /nudge", w.nudge)
	mux.HandleFunc("POST /nudge/{handle}", w.nudge)
	mux.HandleFunc("POST /wake/{handle}/{secret}", w.wake)
	return &http.Server{
		Handler:           http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.refuseBrowsers(mux, rw, r) }),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// shutDown ends a server with ctx, and gives the calls under way a moment.
func shutDown(ctx context.Context, server *http.Server) {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close()
	}
}

// refuseBrowsers refuses web pages, whatever they ask for.
func (w *webServer) refuseBrowsers(mux http.Handler, rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.Header().Set("Cache-Control", "no-store")
	if err := mesh.CheckBrowser(r); err != nil {
		refuse(rw, http.StatusForbidden, err.Error())
		return
	}
	mux.ServeHTTP(rw, r)
}

// nudge rings one of our agents: the nudge is a file in nudges/ before it is
// answered.
func (w *webServer) nudge(rw http.ResponseWriter, r *http.Request) {
	if code, why := w.checkToken(r); why != "" {
		if code == http.StatusUnauthorized {
			rw.Header().Set("WWW-Authenticate", `Bearer realm="agentstateloop"`)
		}
		refuse(rw, code, why)
		return
	}
	p, why := w.recipient(r.PathValue("handle"))
	if p == nil {
		refuse(rw, http.StatusNotFound, why)
		return
	}
	var body struct {
		From   string `json:"from"`
		Reason string `json:"reason"`
	}
	err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, maxBody)).Decode(&body)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		refuse(rw, http.StatusRequestEntityTooLarge, "the body is over 64 KiB")
		return
	}
	if err != nil && !errors.Is(err, io.EOF) {
		refuse(rw, http.StatusBadRequest, `the body is no JSON object like {"from": "backup", "reason": "it failed"}`)
		return
	}
	if err := p.Ring(body.From, body.Reason); err != nil {
		refuse(rw, http.StatusInternalServerError, err.Error())
		return
	}
	p.wake()
	answer(rw, http.StatusAccepted, map[string]string{"nudged": p.Handle})
}

// checkToken checks the token.
func (w *webServer) checkToken(r *http.Request) (code int, why string) {
	if w.Token == nil {
		return http.StatusForbidden, "the webhook is closed: start listen with --token-file"
	}
	token, err := w.Token(r.Context())
	if err != nil {
		return http.StatusInternalServerError, "the token of the webhook cannot be read: " + err.Error()
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !equalSecrets(strings.TrimSpace(given), token) {
		return http.StatusUnauthorized, "this call needs the bearer token of listen --token-file"
	}
	return 0, ""
}

// equalSecrets compares secrets in the same time whatever they are.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// recipient finds the agent that is meant; without a handle the only one.
func (w *webServer) recipient(handle string) (p *servedAgent, why string) {
	agents := w.served()
	switch {
	case len(agents) == 0:
		return nil, "no agent is served here at the moment"
	case handle == "" && len(agents) == 1:
		return agents[0], ""
	case handle == "":
		return nil, "several agents are served here: POST /nudge/HANDLE"
	}
	if p = w.find(strings.TrimPrefix(handle, "@")); p == nil {
		return nil, "no such agent is served here"
	}
	return p, ""
}

// wake is the mesh's ring. What it is for lies in the mailbox, so that the mesh
// is asked; what it says itself counts for nothing.
func (w *webServer) wake(rw http.ResponseWriter, r *http.Request) {
	p := w.find(r.PathValue("handle"))
	if p == nil || !equalSecrets(r.PathValue("secret"), w.secret) {
		refuse(rw, http.StatusNotFound, "no such address")
		return
	}
	signal(p.askMesh)
	answer(rw, http.StatusAccepted, map[string]string{"woken": p.Handle})
}

// register keeps our wake address in the mesh's registry.
func (p *servedAgent) register(ctx context.Context) {
	s, err := p.Store.Read()
	for err == nil {
		published := s.Phase
		if err = p.Mesh.Client.Register(ctx, mesh.Presence{
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
		p.listener.Logf("@%s: %v; the long poll wakes it all the same", p.Handle, err)
	}
}

func refuse(rw http.ResponseWriter, code int, why string) {
	answer(rw, code, map[string]string{"error": why})
}

func answer(rw http.ResponseWriter, code int, body map[string]string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	json.NewEncoder(rw).Encode(body) // a caller that is gone needs no answer
}
