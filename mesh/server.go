package mesh

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/state"
)

// Options say how a Server behaves. The zero Options refuse every call but
// GET /status: there is no token to prove anything.
type Options struct {
	// Tokens holds the bearer token of each agent, by handle. A token proves
	// who sends, and is needed for the mailbox and registry row of a handle
	// that has one.
	Tokens map[string]string

	// Open takes calls without a token from loopback, their sender unproven,
	// and holds messages for handles nobody has named before. A proxy on this
	// machine makes every caller look like loopback.
	Open bool

	// Hosts are names beside localhost and the loopback addresses under which
	// the mesh may be asked (DNS rebinding).
	Hosts []string

	// OnlineFor is how long an agent counts as online after it was last seen;
	// 0: 35 minutes, since an idle agent polls every 30.
	OnlineFor time.Duration

	// Secrets are kept out of crash reports; nil: none are known.
	Secrets *secret.Known

	// Now is the clock; nil: time.Now. Long polls and timeouts run on the
	// real one.
	Now func() time.Time
}

// Check says what is wrong with the options, without telling a token.
func (o Options) Check() error {
	owner := map[string]string{}
	for handle, token := range o.Tokens {
		if !state.ValidHandle(handle) {
			return fmt.Errorf("mesh token of %q: not a handle", handle)
		}
		if strings.Trim(token, " \t\r\n") != token || token == "" {
			return fmt.Errorf("mesh token of %s: empty, or with space around it", handle)
		}
		if other, taken := owner[token]; taken {
			return fmt.Errorf("mesh tokens of %s and %s are the same: give each agent its own", min(handle, other), max(handle, other))
		}
		owner[token] = handle
	}
	return nil
}

// Server is an embedded localMesh (DESIGN 8): an http.Handler for any number
// of connections at once. What it holds is bounded; above that it answers 503
// and a sender comes again.
type Server struct {
	options Options
	now     func() time.Time
	tokens  map[[sha256.Size]byte]string // of a token: whose it is
	mux     *http.ServeMux
	wake    *http.Client // for wake addresses

	done    chan struct{} // closed when long polls should end
	release func()        // closes done, once
	close   func() error  // closeOnce, once
	rings   sync.WaitGroup

	journal  *journal // nil: in memory
	setAside string

	mu        sync.Mutex
	ledger    ledger
	rateLimit rateLimit
	waiters   map[string]*waiters
	ringing   map[string]*ringState
}

// NewServer makes a mesh that lives in memory. Options that do not pass Check
// are a mistake of the program: it panics.
func NewServer(o Options) *Server {
	if err := o.Check(); err != nil {
		panic(err)
	}
	s := &Server{
		options:   o,
		now:       o.Now,
		tokens:    map[[sha256.Size]byte]string{},
		mux:       http.NewServeMux(),
		wake:      plainClient(&net.Dialer{Control: loopbackOnly}),
		done:      make(chan struct{}),
		ledger:    newLedger(),
		rateLimit: newRateLimit(),
		waiters:   map[string]*waiters{},
		ringing:   map[string]*ringState{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.options.OnlineFor = cmp.Or(o.OnlineFor, 35*time.Minute)
	s.release = sync.OnceFunc(func() { close(s.done) })
	s.close = sync.OnceValue(s.closeOnce)
	for handle, token := range o.Tokens {
		s.tokens[sha256.Sum256([]byte(token))] = handle
	}
	s.mux.HandleFunc("GET /status", s.endpoint(s.getStatus, anyone))
	s.mux.HandleFunc("POST /message", s.endpoint(s.postMessage, known))
	s.mux.HandleFunc("GET /mailbox/{handle}", s.endpoint(s.getMailbox, owner))
	s.mux.HandleFunc("DELETE /mailbox/{handle}/{id}", s.endpoint(s.deleteMessage, owner))
	s.mux.HandleFunc("POST /nudge/{handle}", s.endpoint(s.postNudge, known))
	s.mux.HandleFunc("PUT /registry/{handle}", s.endpoint(s.putPresence, owner))
	s.mux.HandleFunc("GET /registry/online", s.endpoint(s.getOnline, known))
	s.mux.HandleFunc("POST /kill", s.endpoint(s.postHalt, known))
	s.mux.HandleFunc("POST /resume", s.endpoint(s.postGo, known))
	return s
}

// HTTPServer gives an http.Server for this mesh whose timeouts leave a slow or
// silent peer no connection for long: 5 s for the header, 15 s for the whole
// request, 30 s for the answer (a long poll adds its wait). Its Shutdown ends
// the long polls.
func (s *Server) HTTPServer() *http.Server {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	h.RegisterOnShutdown(s.release)
	return h
}

const writeTimeout = 30 * time.Second

// Close ends the long polls, waits for rings on their way, some seconds at
// most, and closes the log. Stop the http.Server first. A second Close gives
// what the first gave.
func (s *Server) Close() error { return s.close() }

func (s *Server) closeOnce() error {
	s.release()
	s.rings.Wait()
	if s.journal == nil {
		return nil
	}
	return errors.Join(s.persist(true), s.journal.close())
}

// ServeHTTP answers one call of the profile. Refusals are JSON: {"error": why}.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := CheckBrowser(r, s.options.Hosts...); err != nil {
		answerError(w, err)
		return
	}
	// The mux would answer an unclean path with a redirect to another call.
	if p := r.URL.EscapedPath(); path.Clean(p) != p {
		answerError(w, refuse(http.StatusBadRequest, "the path is not a clean one"))
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.mux.ServeHTTP(&bareError{w}, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// bareError turns the mux's own 404 and 405 into JSON.
type bareError struct{ http.ResponseWriter }

func (b *bareError) WriteHeader(code int) {
	b.Header().Set("Content-Type", "application/json")
	b.Header().Del("Content-Length")
	b.ResponseWriter.WriteHeader(code)
	body, _ := encode(refusal{Text: "no such call: " + strings.ToLower(http.StatusText(code))})
	b.ResponseWriter.Write(body)
}

func (b *bareError) Write(p []byte) (int, error) { return len(p), nil }

// endpoint makes a handler of one call. do gets the caller, whose handle is ""
// where nothing proves it.
func (s *Server) endpoint(do func(http.ResponseWriter, *http.Request, string) (int, any, error), access access) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, err := s.authenticate(r, access)
		if err != nil {
			answerError(w, err)
			return
		}
		code, body, err := do(w, r, caller)
		if err != nil {
			answerError(w, err)
			return
		}
		answerJSON(w, code, body)
	}
}

// refusal is an answer other than success.
type refusal struct {
	code  int
	after time.Duration // Retry-After, if above zero
	Text  string        `json:"error"`
}

func (r *refusal) Error() string { return r.Text }

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code: code, Text: fmt.Sprintf(format, args...)}
}

func answerError(w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		r = refuse(http.StatusInternalServerError, "%v", err)
	}
	if r.after > 0 {
		seconds := int((r.after + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	if r.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mesh"`)
	}
	answerJSON(w, r.code, r)
}

// answerJSON writes body, which json.RawMessage gives ready-made and nil not
// at all. A peer that does not read it is the connection's timeout.
func answerJSON(w http.ResponseWriter, code int, body any) {
	if body == nil {
		w.WriteHeader(code)
		return
	}
	b, ok := body.(json.RawMessage)
	if !ok {
		var err error
		if b, err = encode(body); err != nil {
			code, b = http.StatusInternalServerError, []byte(`{"error":"answer cannot be encoded"}`)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(code)
	w.Write(b)
}

// readBody decodes a request's JSON object into v. It leaves r.Body as it is:
// net/http answers at once, rather than read on, only where it knows the body.
func readBody(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength > MaxMessage {
		return refuse(http.StatusRequestEntityTooLarge, "the body is over %d bytes", MaxMessage)
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxMessage))
	err := dec.Decode(v)
	if err == nil && dec.More() {
		err = errors.New("something follows the object")
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return refuse(http.StatusRequestEntityTooLarge, "the body is over %d bytes", MaxMessage)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body is not the JSON object wanted here: %s", foreignLine(err.Error()))
	}
	return nil
}

// loopbackOnly is a net.Dialer's Control: whatever a name resolves to, a ring
// does not leave the machine.
func loopbackOnly(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return errors.New("the wake address is not loopback")
	}
	return nil
}

// ringContext bounds one ring at a wake address.
func (s *Server) ringContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Second)
}
