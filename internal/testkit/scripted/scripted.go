// Package scripted is an inference service for tests, the demo and benchmarks. It speaks
// Anthropic's Messages API and the chat completions API, and answers from a script. It is as
// strict about requests as the real services.
package scripted

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Key is the API key that the service accepts.
const Key = "sk-scripted-0123456789"

// Reply is the script's answer to one request.
type Reply struct {
	Thinking string // for Anthropic
	Text     string
	Calls    []Call
	Stop     string // the stop reason in the API's words; "" means the one that fits Calls
	Refusal  string // the text of a refusal, for OpenAI

	// In and Out are the reported token counts; CacheRead is the part of In that came from a
	// cache. Zero means 100 for In and 20 for Out.
	In, Out, CacheRead int
	Cost               float64 // dollars, if the API reports costs

	// An error instead of an answer: its status, its text, and the time to wait.
	Status     int
	Fault      string
	RetryAfter string

	// Cut, if not nil, breaks the connection after that many events. With Midway the service
	// sends an error event there. With Short the answer ends there without an error, as behind
	// some proxies.
	Cut    *int
	Midway string
	Short  bool

	Piece int             // bytes of text or arguments in one event; zero is 16
	Hold  <-chan struct{} // the service sends nothing until it is closed
}

// Call is a tool call. The service sends Args unchanged, whether valid JSON or not.
type Call struct{ ID, Name, Args string }

// Request is a request in the terms that both APIs share.
type Request struct {
	API      string // "anthropic" or "openai"
	Number   int    // counts the requests from 1
	Model    string
	System   string
	Messages []Message
	Tools    []string
	Body     []byte
}

// Message is one message of a Request.
type Message struct {
	Role    string // "user" or "assistant"; tool results belong to "user"
	Text    string
	Shown   []Shown
	Calls   []Call
	Results []Result
}

// Shown is a picture or a PDF in a message.
type Shown struct {
	Type string // "image/png", "application/pdf"
	Data []byte
}

// Result is the result of a tool.
type Result struct{ ID, Text string }

// Last returns the last message.
func (r Request) Last() Message { return r.Messages[len(r.Messages)-1] }

// Server is the service. Script must be set before the first request.
type Server struct {
	// Script answers a valid request. Several goroutines may call it at once.
	Script func(Request) Reply

	// Lenient accepts requests that the real APIs accept but only other programs send.
	Lenient bool

	mu      sync.Mutex
	asked   []Request
	refused []string
}

// Replies returns a script that sends the replies in order and repeats the last one.
func Replies(replies ...Reply) func(Request) Reply {
	var mu sync.Mutex
	return func(Request) Reply {
		mu.Lock()
		defer mu.Unlock()
		next := replies[0]
		if len(replies) > 1 {
			replies = replies[1:]
		}
		return next
	}
}

// EachOnce returns a script that calls a tool with each of the arguments, and then answers. It repeats
// a call that did not run, but not one whose result is unknown.
func EachOnce(tool string, arguments []string, answer string) func(Request) Reply {
	return func(q Request) Reply {
		args, ran := map[string]string{}, map[string]bool{}
		for _, m := range q.Messages {
			for _, c := range m.Calls {
				args[c.ID] = c.Args
			}
			for _, r := range m.Results {
				ran[args[r.ID]] = ran[args[r.ID]] || !strings.Contains(r.Text, "Not run:")
			}
		}
		for _, a := range arguments {
			if !ran[a] {
				return Reply{Text: "Now " + a + ".", Calls: []Call{{ID: fmt.Sprintf("c%d", q.Number), Name: tool, Args: a}}}
			}
		}
		return Reply{Text: answer}
	}
}

// Start serves on loopback. url is the base URL of the Messages API. For chat completions,
// append "/v1".
func (s *Server) Start() (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("start scripted service: %w", err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener)
	return "http://" + listener.Addr().String(), func() { server.Close() }, nil
}

// Asked returns the valid requests so far.
func (s *Server) Asked() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Refused returns the errors of the invalid requests so far.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// maxRequest bounds a request, in bytes. The real APIs have the same limit.
const maxRequest = 32 << 20

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var api dialect
	switch r.URL.Path {
	case "/v1/messages":
		api = anthropic{}
	case "/v1/chat/completions":
		api = openai{}
	case "/v1/models":
		s.list(w, r)
		return
	default:
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		s.refuse(w, api, http.StatusRequestEntityTooLarge, "request too large")
		return
	}
	if err != nil {
		return // a client that was killed while writing sent no request
	}
	if r.Method != http.MethodPost {
		s.refuse(w, api, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	if !api.authorized(r) {
		s.refuse(w, api, http.StatusUnauthorized, "invalid api key")
		return
	}
	q, err := api.read(r, body, s.Lenient)
	if err != nil {
		s.refuse(w, api, http.StatusBadRequest, err.Error())
		return
	}
	q.Body = body
	s.mu.Lock()
	q.Number = len(s.asked) + 1
	s.asked = append(s.asked, q)
	s.mu.Unlock()
	s.reply(w, r, api, q, s.Script(q))
}

// list answers a request for the list of models.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	api := dialect(openai{})
	if r.Header.Get("Anthropic-Version") != "" {
		api = anthropic{}
	}
	if !api.authorized(r) {
		writeFault(w, api, http.StatusUnauthorized, "invalid api key")
		return
	}
	io.WriteString(w, marshal(object{"object": "list", "data": []object{{"id": "gpt-4o"}, {"id": "gpt-4o-mini-2024-07-18"}}}))
}

func (s *Server) refuse(w http.ResponseWriter, api dialect, status int, why string) {
	s.mu.Lock()
	s.refused = append(s.refused, why)
	s.mu.Unlock()
	writeFault(w, api, status, why)
}

func (s *Server) reply(w http.ResponseWriter, r *http.Request, api dialect, q Request, reply Reply) {
	if reply.Hold != nil {
		select {
		case <-reply.Hold:
		case <-r.Context().Done():
			return
		}
	}
	if reply.Status != 0 {
		if reply.RetryAfter != "" {
			w.Header().Set("Retry-After", reply.RetryAfter)
		}
		writeFault(w, api, reply.Status, reply.Fault)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, event := range Events(q.API, q, reply) {
		if reply.Cut != nil && i >= *reply.Cut {
			switch {
			case reply.Midway != "":
				io.WriteString(w, api.midway(reply.Midway))
			case !reply.Short:
				panic(http.ErrAbortHandler)
			}
			return
		}
		if _, err := io.WriteString(w, event); err != nil {
			return
		}
		http.NewResponseController(w).Flush()
	}
}

// Events returns the events that an API sends for a reply.
func Events(api string, q Request, reply Reply) []string {
	reply.In, reply.Out = cmp.Or(reply.In, 100), cmp.Or(reply.Out, 20)
	if api == "anthropic" {
		return anthropic{}.events(q, reply)
	}
	return openai{}.events(q, reply)
}

// dialect is one of the two APIs.
type dialect interface {
	authorized(*http.Request) bool
	read(r *http.Request, body []byte, lenient bool) (Request, error)
	error(status int, text string) object
	midway(text string) string
}

// object is a JSON object.
type object = map[string]any

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a bug in this package
	}
	return string(b)
}

func writeFault(w http.ResponseWriter, api dialect, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, marshal(api.error(status, text)))
}

// pieces splits a text like a stream, into pieces of at most size bytes and whole characters.
func pieces(text string, size int) (all []string) {
	size = cmp.Or(size, 16)
	for len(text) > size {
		n := size
		for n > 1 && !utf8.RuneStart(text[n]) {
			n--
		}
		all = append(all, text[:n])
		text = text[n:]
	}
	return append(all, text)
}
