package mesh

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
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
var ErrNotTaken = errors.New("the answer does not repeat the message's id, so nothing shows that the mesh took it: is this the mesh? For one that never repeats an id set receipt = \"status\" in [mesh]")

// Send posts m and returns its id. From defaults to our handle, the id to a new one. With an ID
// in m, the caller can repeat a Send whose answer was lost: the mesh stores the message once.
// Only an answer that repeats the id confirms the message, unless StatusIsReceipt is set. If
// any other answer is JSON, text or empty, the error is an *Error with ErrNotTaken.
func (c *Client) Send(ctx context.Context, m Message) (id string, err error) {
	var answer posted
	m.ID = cmp.Or(m.ID, rand.Text())
	const op = "send message"
	err = c.do(ctx, request{
		op: op, method: http.MethodPost,
		path: cmp.Or(c.Paths.Message, "/message"),
		body: m.posted(c.Handle),
		into: &answer, receipt: true, accept: taken,
	})
	if err != nil {
		return "", err
	}
	if answer.ID != m.ID && !c.StatusIsReceipt {
		return "", &Error{Op: op, Code: http.StatusOK, Err: ErrNotTaken}
	}
	return m.ID, nil
}

// taken are the statuses that confirm a call.
var taken = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}

// posted returns the fields of a message that a sender may set.
func (m Message) posted(handle string) postBody {
	return postBody{
		ID: m.ID, From: cmp.Or(m.From, handle), To: m.To, Text: m.Text, Kind: m.Kind,
		Correlation: m.Correlation, Hops: m.Hops, ResultFields: m.ResultFields, Trace: m.Trace,
		Status: m.Status, TurnID: m.TurnID, Epoch: m.Epoch, Fields: m.Fields, AfterExecution: m.AfterExecution,
		Files: m.Files,
	}
}

// Posted returns, as JSON for a mesh, the fields of a message that a sender may set.
func (m Message) Posted() ([]byte, error) { return encode(m.posted("")) }

// Nudge sends a nudge to an agent. from defaults to our handle. Only an answer with the id of
// the nudge confirms it, unless StatusIsReceipt is set.
func (c *Client) Nudge(ctx context.Context, handle, from, reason string) error {
	var answer posted
	op := "nudge " + foreignLine(handle)
	err := c.do(ctx, request{
		op: op, method: http.MethodPost,
		path: join(cmp.Or(c.Paths.Nudge, "/nudge"), handle),
		body: nudgeBody{From: cmp.Or(from, c.Handle), Reason: reason},
		into: &answer, receipt: true, accept: taken,
	})
	if err == nil && answer.ID == "" && !c.StatusIsReceipt {
		return &Error{Op: op, Code: http.StatusOK, Err: errNoNudge}
	}
	return err
}

var errNoNudge = errors.New("the answer names no id, so nothing shows that the mesh took the nudge: is this the mesh?")

// Register publishes our presence, without p.Handle and p.SeenAt.
func (c *Client) Register(ctx context.Context, p Presence) error {
	p.Handle, p.SeenAt = "", time.Time{}
	return c.do(ctx, request{
		op: "register", method: http.MethodPut,
		path:   join(cmp.Or(c.Paths.Registry, "/registry"), c.Handle),
		body:   p,
		accept: taken,
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
