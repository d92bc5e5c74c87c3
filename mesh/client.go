package mesh

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Client is one agent's side of a mesh. Make one for each cycle: it calls Token before the
// first request, and caches the token until the mesh refuses it. The methods may be called
// concurrently.
//
// Every method makes one request and follows no redirect. It returns an *Error if the mesh is
// down, slow, or answers outside the profile, within Timeout and some 4 MiB of memory. It
// returns a *state.CredentialError named "mesh" if the token cannot be read or is refused (401,
// 403).
type Client struct {
	URL    string // http://127.0.0.1:8801
	Handle string // of this agent

	// Token returns the bearer token. If Token is nil or returns "", the client sends no token.
	// Its error must not contain the token. The errors of the client never do.
	Token func(context.Context) (string, error)

	Timeout time.Duration // of one call, in addition to its wait; 0 means 30 s
	Paths   Paths         // the paths of a mesh that differs from the profile; zero means those of the profile

	// KeysIn and KeysOut rename the members of JSON answers and of JSON requests, for a mesh
	// with other names. nil means the names of the profile.
	KeysIn, KeysOut Keys

	// StatusIsReceipt means that the status of an answer alone confirms a message or a nudge.
	// Otherwise the answer must contain an id.
	StatusIsReceipt bool

	mu    sync.Mutex
	token string // the last token read, until the mesh refuses it
	http  *http.Client
}

// Paths holds the path of each call of a mesh. An empty field means the path of the profile,
// given in its comment. The client appends handles and ids.
type Paths struct {
	Message  string // /message
	Mailbox  string // /mailbox
	Nudge    string // /nudge
	Registry string // /registry
	Online   string // /registry/online
	Status   string // /status
	Halt     string // /kill
	Go       string // /resume
	Blob     string // /blob
}

// Mailbox returns the content of our mailbox and removes no message. With a wait above zero,
// the mesh answers for an empty mailbox when a message arrives, HALT changes or the wait ends.
// The mesh may shorten the wait.
func (c *Client) Mailbox(ctx context.Context, wait time.Duration) (Mailbox, error) {
	var box Mailbox
	r := request{
		op: "read mailbox", method: http.MethodGet,
		path: join(cmp.Or(c.Paths.Mailbox, "/mailbox"), c.Handle),
		into: &box, accept: []int{http.StatusOK},
	}
	if wait > 0 {
		r.query = "wait=" + url.QueryEscape(wait.String())
		r.wait = wait
	}
	if err := c.do(ctx, r); err != nil {
		return Mailbox{}, err
	}
	return box, nil
}

// Address returns the URL of the mesh without user name and password.
func (c *Client) Address() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// Take is Mailbox for a poll, which acknowledges the messages it takes.
func (c *Client) Take(ctx context.Context) (Mailbox, error) { return c.Mailbox(ctx, 0) }

// Watch is Mailbox for a listener.
func (c *Client) Watch(ctx context.Context, wait time.Duration) (Mailbox, error) {
	return c.Mailbox(ctx, wait)
}

// Ack removes a message or nudge from our mailbox. It returns no error if the message is
// already gone. Without an id it does nothing: a message without an id cannot be acknowledged,
// only recognized by its key.
func (c *Client) Ack(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return c.do(ctx, request{
		op: "acknowledge message", method: http.MethodDelete,
		path:   join(cmp.Or(c.Paths.Mailbox, "/mailbox"), c.Handle, id),
		accept: []int{http.StatusOK, http.StatusNoContent, http.StatusNotFound, http.StatusGone},
	})
}

// ErrNotTaken means that an answer does not confirm that the mesh took the message: another
// service may have answered.
var ErrNotTaken = errors.New("the answer lacks the message's id, so the message may be lost: check the url in [mesh], or set receipt = \"status\" there if this mesh never returns ids")

// Send posts m and returns its id. From defaults to our handle, the id to a new one. With an ID
// in m, the caller can repeat a Send whose answer was lost: the mesh stores the message once.
// Only an answer that repeats the id confirms the message, unless StatusIsReceipt is set. If
// any other answer is JSON, text or empty, the error is an *Error with ErrNotTaken.
func (c *Client) Send(ctx context.Context, m Message) (id string, err error) {
	var answer receiptBody
	m.ID = cmp.Or(m.ID, rand.Text())
	op := SendOp(m.To)
	err = c.do(ctx, request{
		op: op, method: http.MethodPost,
		path: cmp.Or(c.Paths.Message, "/message"),
		body: m.postBody(c.Handle),
		into: &answer, receipt: true, accept: confirmingStatuses,
	})
	if err != nil {
		return "", err
	}
	if answer.ID != m.ID && !c.StatusIsReceipt {
		return "", &Error{Op: op, Code: http.StatusOK, Err: ErrNotTaken}
	}
	return m.ID, nil
}

// SendOp names the call that sends a message to an agent.
func SendOp(to string) string { return "send message to " + foreignLine(to) }

// confirmingStatuses are the statuses that confirm a call.
var confirmingStatuses = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}

// postBody returns the fields of a message that a sender may set.
func (m Message) postBody(handle string) postBody {
	return postBody{
		ID: m.ID, From: cmp.Or(m.From, handle), To: m.To, Text: m.Text, Kind: m.Kind,
		Correlation: m.Correlation, Hops: m.Hops, ResultFields: m.ResultFields, Trace: m.Trace,
		Status: m.Status, TurnID: m.TurnID, Epoch: m.Epoch, Fields: m.Fields, AfterExecution: m.AfterExecution,
		Files: m.Files,
	}
}

// Posted returns, as JSON for a mesh, the fields of a message that a sender may set.
func (m Message) Posted() ([]byte, error) { return encode(m.postBody("")) }

// Nudge sends a nudge to an agent. from defaults to our handle. Only an answer with the id of
// the nudge confirms it, unless StatusIsReceipt is set.
func (c *Client) Nudge(ctx context.Context, handle, from, reason string) error {
	var answer receiptBody
	op := "nudge " + foreignLine(handle)
	err := c.do(ctx, request{
		op: op, method: http.MethodPost,
		path: join(cmp.Or(c.Paths.Nudge, "/nudge"), handle),
		body: nudgeBody{From: cmp.Or(from, c.Handle), Reason: reason},
		into: &answer, receipt: true, accept: confirmingStatuses,
	})
	if err == nil && answer.ID == "" && !c.StatusIsReceipt {
		return &Error{Op: op, Code: http.StatusOK, Err: errNoNudge}
	}
	return err
}

var errNoNudge = errors.New("the answer lacks an id, so the nudge may be lost: check the url in [mesh]")

// Register publishes our presence, without p.Handle and p.SeenAt.
func (c *Client) Register(ctx context.Context, p Presence) error {
	p.Handle, p.SeenAt = "", time.Time{}
	return c.do(ctx, request{
		op: "register", method: http.MethodPut,
		path:   join(cmp.Or(c.Paths.Registry, "/registry"), c.Handle),
		body:   p,
		accept: confirmingStatuses,
	})
}

// Online returns the agents that are online.
func (c *Client) Online(ctx context.Context) ([]Presence, error) {
	var list onlineList
	err := c.do(ctx, request{
		op: "list agents", method: http.MethodGet,
		path: cmp.Or(c.Paths.Online, "/registry/online"),
		into: &list, accept: []int{http.StatusOK},
	})
	if err != nil {
		return nil, err
	}
	return list.Agents, nil
}

// Hosts returns nothing: a mesh over HTTP is on one machine.
func (c *Client) Hosts(context.Context) (here string, others []HostSeen, err error) {
	return "", nil, nil
}

// Seen returns the agents that are online: a mesh over HTTP forgets the others.
func (c *Client) Seen(ctx context.Context) ([]Presence, error) { return c.Online(ctx) }

// Status returns the health of the mesh.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	var date time.Time
	err := c.do(ctx, request{
		op: "read status", method: http.MethodGet,
		path: cmp.Or(c.Paths.Status, "/status"),
		into: &s, date: &date, accept: []int{http.StatusOK},
	})
	if err != nil {
		return Status{}, err
	}
	s.Date = date
	return s, nil
}

// Halt sets the HALT of the mesh, for all its agents.
func (c *Client) Halt(ctx context.Context) error {
	return c.do(ctx, request{
		op: "halt", method: http.MethodPost, path: cmp.Or(c.Paths.Halt, "/kill"),
		accept: []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent},
	})
}

// Go lifts the HALT of the mesh.
func (c *Client) Go(ctx context.Context) error {
	return c.do(ctx, request{
		op: "resume", method: http.MethodPost, path: cmp.Or(c.Paths.Go, "/resume"),
		accept: []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent},
	})
}

// Close does nothing: no connection outlives its call.
func (c *Client) Close() {}

// join appends escaped segments to a path. It also escapes a segment that consists of dots
// alone, which would otherwise mean a parent folder.
func join(path string, segments ...string) string {
	for _, s := range segments {
		s = url.PathEscape(s)
		if strings.Trim(s, ".") == "" {
			s = strings.ReplaceAll(s, ".", "%2E")
		}
		path += "/" + s
	}
	return path
}

// ErrNoFiles means that a mesh does not support files: it does not know the call, like an older
// version.
var ErrNoFiles = errors.New("this mesh does not support files")

// PutBlob uploads the bytes of a file. The mesh refuses a message that names a file before the
// file is uploaded. The caller can repeat a PutBlob whose answer was lost. The recipient does
// not matter: the mesh stores the file for its uploader.
func (c *Client) PutBlob(ctx context.Context, _, sum string, size int64, content io.Reader) error {
	var answer struct {
		SHA256 string `json:"sha256"`
	}
	const op = "upload file"
	err := c.do(ctx, request{
		op: op, method: http.MethodPut, path: join(cmp.Or(c.Paths.Blob, "/blob"), sum),
		content: content, length: size,
		into: &answer, accept: []int{http.StatusOK, http.StatusCreated},
	})
	if e, ok := errors.AsType[*Error](err); ok && (e.Code == http.StatusNotFound || e.Code == http.StatusMethodNotAllowed || e.Code == http.StatusNotImplemented) {
		return &Error{Op: op, Code: e.Code, Err: ErrNoFiles}
	}
	if err != nil {
		return err
	}
	if answer.SHA256 != sum {
		return &Error{Op: op, Code: http.StatusOK, Err: fmt.Errorf("the answer lacks the file's SHA-256, so the file may be lost: check the url in [mesh]")}
	}
	return nil
}

// GetBlob downloads the bytes of a file that a message in our mailbox names, from any sender.
// It calls take once with a reader. At the end, the reader returns an error unless the bytes
// match the message. GetBlob returns the error of take unchanged. An *Error with the code 404
// means that the mesh does not have the file.
func (c *Client) GetBlob(ctx context.Context, _ string, f File, take func(io.Reader) error) error {
	var taken error
	err := c.do(ctx, request{
		op: "download file", method: http.MethodGet, path: join(cmp.Or(c.Paths.Blob, "/blob"), f.SHA256),
		accept: []int{http.StatusOK},
		receive: func(resp *http.Response) error {
			meshFault, err := TakeVerified(f, resp.Body, take)
			if meshFault == nil {
				taken = err
			}
			return cmp.Or(meshFault, err)
		},
	})
	return cmp.Or(taken, err)
}

// TakeVerified calls take once with a reader of content. At the end, the reader returns an
// error unless the bytes match f. meshFault is that error, or the error from reading content.
// err is the error of take.
func TakeVerified(f File, content io.Reader, take func(io.Reader) error) (meshFault, err error) {
	v := &verified{file: f, hashingReader: hashingReader{r: content, hash: sha256.New()}}
	err = take(v)
	return v.err, err
}

// verified reads a file. At the end it returns an error unless the bytes match the message.
type verified struct {
	hashingReader
	file File
	err  error
}

func (v *verified) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.hashingReader.Read(p)
	switch {
	case v.n > v.file.Size:
		err = fmt.Errorf("the downloaded file exceeds the %d bytes that the message names", v.file.Size)
	case err == io.EOF && (v.n != v.file.Size || v.text() != v.file.SHA256):
		err = errors.New("the downloaded file does not match the SHA-256 that the message names")
	}
	if err != nil && err != io.EOF {
		v.err, n = err, 0
	}
	return n, err
}

// Error is the error of a mesh call. The error for an answer 401 or 403 is wrapped in a
// *state.CredentialError named "mesh".
type Error struct {
	Op         string        // "read mailbox", "send message to goulard", ...
	Code       int           // HTTP status; 0 if the call got no answer
	RetryAfter time.Duration // the Retry-After of a 429 or 503; 0 if the header is missing
	Err        error
}

func (e *Error) Error() string {
	switch {
	case e.Code == 0:
		return fmt.Sprintf("mesh: %s: %v", e.Op, e.Err)
	case e.Err == nil:
		return fmt.Sprintf("mesh: %s: answered %d %s", e.Op, e.Code, http.StatusText(e.Code))
	default:
		return fmt.Sprintf("mesh: %s: answered %d: %v", e.Op, e.Code, e.Err)
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same call may succeed later. Only a refusal is permanent: any
// 4xx except 408 and 429. An answer that does not come from a mesh, such as garbage or a
// redirect, is not a refusal, so it is temporary.
func (e *Error) Temporary() bool {
	switch {
	case e.Code == http.StatusRequestTimeout, e.Code == http.StatusTooManyRequests:
		return true
	default:
		return e.Code/100 != 4
	}
}
