package mesh

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/state"
)

// Options configure a Server. With the zero Options, the server refuses every call except GET
// /status, since no token exists.
type Options struct {
	// Tokens holds the bearer token of each agent, by handle. A token proves the
	// sender. The mailbox and registry row of a handle that has a token require it.
	Tokens map[string]string

	// Open allows calls without a token from loopback, with an unproven sender. It also allows
	// messages to handles without a token. A proxy on this machine makes every caller look like
	// loopback.
	Open bool

	// Hosts are the names allowed in the Host header besides localhost and the
	// loopback addresses (against DNS rebinding).
	Hosts []string

	// OnlineFor is how long an agent stays online after it was last seen. 0 means 35 minutes,
	// because an idle agent polls every 30 minutes.
	OnlineFor time.Duration

	// Secrets are kept out of crash reports. nil means that no secrets are known.
	Secrets *secret.Known

	// Now is the clock; nil means time.Now. Long polls and timeouts use the real clock.
	Now func() time.Time
}

// Check returns an error if the options are invalid. The error never contains a
// token.
func (o Options) Check() error {
	owner := map[string]string{}
	for handle, token := range o.Tokens {
		if !state.ValidHandle(handle) {
			return fmt.Errorf("mesh token of %q: invalid handle", handle)
		}
		if strings.Trim(token, " \t\r\n") != token || token == "" {
			return fmt.Errorf("mesh token of %s: the token is empty or surrounded by spaces", handle)
		}
		if other, taken := owner[token]; taken {
			return fmt.Errorf("mesh tokens of %s and %s are the same: give each agent its own", min(handle, other), max(handle, other))
		}
		owner[token] = handle
	}
	return nil
}

// Server is an embedded localMesh (docs/protocol.md, "The mesh"), an http.Handler
// for any number of concurrent connections. Its memory is limited. Above the
// limit it answers 503, and the sender tries again later.
type Server struct {
	options Options
	now     func() time.Time
	tokens  map[[sha256.Size]byte]string // handles by the digest of their token
	mux     *http.ServeMux
	wake    *http.Client // for calls to wake addresses

	done    chan struct{} // closed to end the long polls
	release func()        // closes done, once
	close   func() error  // closeOnce, once
	rings   sync.WaitGroup

	journal  *journal // nil: in memory
	blobs    *blobs
	setAside string

	mu        sync.Mutex
	ledger    ledger
	rateLimit rateLimit
	waiters   map[string]*waiters
	polling   map[string]int // long polls, by handle
	pollingBy map[string]int // long polls, by caller; all unproven callers are ""

	pollingAll int // all long polls
	ringing    map[string]*ringState
}

// NewServer returns a mesh that keeps its content in memory. It panics if Check rejects the
// options.
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
		polling:   map[string]int{},
		pollingBy: map[string]int{},
		ringing:   map[string]*ringState{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.blobs = newBlobs(&memoryBlobs{blobs: map[blobKey][]byte{}}, memoryQuota, s.clock)
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
	s.mux.HandleFunc("PUT /blob/{sha256}", s.endpoint(s.putBlob, known))
	s.mux.HandleFunc("GET /blob/{sha256}", s.endpoint(s.getBlob, known))
	s.mux.HandleFunc("POST /nudge/{handle}", s.endpoint(s.postNudge, known))
	s.mux.HandleFunc("PUT /registry/{handle}", s.endpoint(s.putPresence, owner))
	s.mux.HandleFunc("GET /registry/online", s.endpoint(s.getOnline, known))
	s.mux.HandleFunc("POST /kill", s.endpoint(s.postHalt, known))
	s.mux.HandleFunc("POST /resume", s.endpoint(s.postGo, known))
	return s
}

// HTTPServer returns an http.Server for this mesh. Its timeouts end slow and
// silent connections: 5 s for the header, 15 s for the whole request, 30 s for
// the answer, plus the wait of a long poll. Its Shutdown ends the long polls.
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

// Close ends the long polls, waits at most a few seconds for calls to wake addresses, and
// closes the log. Stop the http.Server first. A second Close returns the result of the first.
func (s *Server) Close() error { return s.close() }

func (s *Server) closeOnce() error {
	s.release()
	s.rings.Wait()
	if s.journal == nil {
		return nil
	}
	return errors.Join(s.persist(true), s.journal.close())
}

// ServeHTTP answers one call of the profile. A refusal is JSON: {"error":
// reason}.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := CheckBrowser(r, s.options.Hosts...); err != nil {
		answerError(w, err)
		return
	}
	// The mux would redirect an unclean path to another call.
	if p := r.URL.EscapedPath(); path.Clean(p) != p {
		answerError(w, refuse(http.StatusBadRequest, "the path contains //, /./ or /../, or ends in a slash"))
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.mux.ServeHTTP(&jsonErrorWriter{w}, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// jsonErrorWriter turns the mux's own 404 and 405 into JSON.
type jsonErrorWriter struct{ http.ResponseWriter }

func (b *jsonErrorWriter) WriteHeader(code int) {
	b.Header().Set("Content-Type", "application/json")
	b.Header().Del("Content-Length")
	b.ResponseWriter.WriteHeader(code)
	body, _ := encode(refusal{Text: "invalid call: " + strings.ToLower(http.StatusText(code))})
	b.ResponseWriter.Write(body)
}

func (b *jsonErrorWriter) Write(p []byte) (int, error) { return len(p), nil }

// endpoint returns the handler of one call. do receives the proven handle of
// the caller, or "".
func (s *Server) endpoint(do func(http.ResponseWriter, *http.Request, string) (int, any, error), access access) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, err := s.authenticate(r, access)
		if err != nil {
			answerError(w, err)
			return
		}
		code, body, err := do(w, r, caller)
		switch {
		case err != nil:
			answerError(w, err)
		case code != answerWritten:
			answerJSON(w, code, body)
		}
	}
}

// answerWritten is the code of a call that has written its own answer.
const answerWritten = 0

// refusal is an error answer.
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

// answerJSON writes code and body. A json.RawMessage is written as it is; nil
// means no body. If the peer does not read, the connection times out.
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

// readBody decodes a request's JSON object into v. It does not replace r.Body:
// net/http must recognize it to answer a long body at once, without reading on.
func readBody(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength > MaxMessage {
		return refuse(http.StatusRequestEntityTooLarge, "the body has %d bytes, and the limit is %d", r.ContentLength, MaxMessage)
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxMessage))
	err := dec.Decode(v)
	if err == nil {
		if _, err = dec.Token(); err == nil {
			err = errors.New("unexpected data after the object")
		} else if err == io.EOF {
			err = nil
		}
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes, which is the limit", MaxMessage)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "invalid JSON body: %s", foreignLine(err.Error()))
	}
	return nil
}

const (
	// callsPerMinute limits each sender, for each kind of call (docs/protocol.md,
	// "The mesh").
	callsPerMinute = 5

	// maxUnprovenSenders limits the unproven senders of one minute, because they choose their
	// names.
	maxUnprovenSenders = 50_000
)

// rateLimit holds the times of each sender's calls in the last minute.
type rateLimit struct {
	senders  map[rateKey][]time.Time
	unproven int       // number of keys of unproven senders
	swept    time.Time // when silent senders were last removed
}

// rateKey is a sender and a kind of call. Each kind is counted separately, so that an agent
// that sends a lot can still HALT.
type rateKey struct {
	call   pacedCall
	from   string
	proven bool
}

// pacedCall is a kind of limited call, with the name that errors use.
type pacedCall string

const (
	callMessage pacedCall = "messages"
	callNudge   pacedCall = "nudges"
	callHalt    pacedCall = "calls to /kill"
	callGo      pacedCall = "calls to /resume"
	callRing    pacedCall = "rings" // of a wake address by unproven senders; from is the recipient
)

func newRateLimit() rateLimit { return rateLimit{senders: map[rateKey][]time.Time{}} }

// take counts a call and returns 0. If the limit is reached, it returns how long the sender has
// to wait.
func (p *rateLimit) take(caller rateKey, now time.Time) (wait time.Duration) {
	if age := now.Sub(p.swept); age < 0 || age > time.Minute {
		p.sweep(now)
	}
	before, known := p.senders[caller]
	if !known && !caller.proven {
		if p.unproven >= maxUnprovenSenders {
			return time.Minute
		}
		p.unproven++
	}
	times := lastMinute(before, now)
	if len(times) >= callsPerMinute {
		return times[0].Add(time.Minute).Sub(now)
	}
	p.senders[caller] = append(times, now)
	return 0
}

// sweep forgets the senders that were silent for a minute.
func (p *rateLimit) sweep(now time.Time) {
	maps.DeleteFunc(p.senders, func(_ rateKey, times []time.Time) bool { return len(lastMinute(times, now)) == 0 })
	p.unproven, p.swept = 0, now
	for caller := range p.senders {
		if !caller.proven {
			p.unproven++
		}
	}
}

// lastMinute returns the times that are less than a minute old. It drops times in
// the future, which appear when the clock is set back.
func lastMinute(times []time.Time, now time.Time) []time.Time {
	var recentTimes []time.Time
	for _, t := range times {
		if age := now.Sub(t); age >= 0 && age < time.Minute {
			recentTimes = append(recentTimes, t)
		}
	}
	return recentTimes
}

// pace counts a call. It returns a refusal if the call comes too soon. The caller holds mu.
func (s *Server) pace(call pacedCall, from string, proven bool) error {
	wait := s.rateLimit.take(rateKey{call, from, proven}, s.clock())
	if wait <= 0 {
		return nil
	}
	r := refuse(http.StatusTooManyRequests, "more than %d %s of %s within a minute: try again in %d seconds", callsPerMinute, call, from, (wait+time.Second-1)/time.Second)
	r.after = wait
	return r
}
