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

// Client is one agent's side of a mesh. Make one for each cycle: it calls Token
// before the first request, and keeps the token until the mesh refuses it. The
// methods may be called concurrently.
//
// Every method makes one request and follows no redirect. It returns an *Error
// if the mesh is down, slow, or answers outside the profile, within Timeout and
// some 4 MiB of memory. It returns a *state.CredentialError named "mesh" if the
// token cannot be read or is refused (401, 403).
type Client struct {
	URL    string // http://127.0.0.1:8801
	Handle string // of this agent

	// Token returns the bearer token; if it is nil or returns "", none is sent.
	// Its error must not contain the token. Our errors never do.
	Token func(context.Context) (string, error)

	Timeout time.Duration // of one call, in addition to its wait; 0: 30 s
	Paths   Paths         // the paths of another mesh; zero: those of the profile

	// KeysIn and KeysOut are the names that another mesh gives to members of what
	// it answers and of what it is sent; nil: those of the profile.
	KeysIn, KeysOut Keys

	// StatusIsReceipt says that the status of an answer alone shows that the mesh took a
	// message or a nudge. Without it, the answer must show an id.
	StatusIsReceipt bool

	mu    sync.Mutex
	token string // the last one read, until the mesh refuses it
	http  *http.Client
}

// Paths holds the path of each call of a mesh. An empty field stands for the
// path of the profile, given in its comment. Handles and ids are appended.
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

// Mailbox returns the content of our mailbox and consumes nothing. With a wait
// above zero, an empty mailbox is answered when something arrives, HALT changes
// or the wait is over. The mesh may shorten the wait.
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

// Address returns the URL of the mesh, without a name and a password in it.
func (c *Client) Address() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// Take is Mailbox for a poll, which acknowledges what it takes.
func (c *Client) Take(ctx context.Context) (Mailbox, error) { return c.Mailbox(ctx, 0) }

// Watch is Mailbox for a listener.
func (c *Client) Watch(ctx context.Context, wait time.Duration) (Mailbox, error) {
	return c.Mailbox(ctx, wait)
}

// Ack removes a message or nudge from our mailbox. It is not an error if the
// message is gone already. An empty id does nothing: a message without an id
// cannot be acknowledged, only recognized by its key.
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

// ErrNotTaken means that an answer does not show that the mesh took what it was
// sent: another service may have answered.
var ErrNotTaken = errors.New("the answer does not repeat the message's id, so nothing shows that the mesh took it: is this the mesh? For one that never repeats an id set receipt = \"status\" in [mesh]")

// Send posts m and returns its id. From defaults to our handle, the id to a new
// one. With an ID in m, a Send whose answer was lost can be repeated: the mesh
// stores the message once. Only an answer that repeats the id means that the mesh
// took the message, unless StatusIsReceipt; after any other answer of JSON, of text or of
// nothing the error is an *Error with ErrNotTaken.
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

// taken are the statuses by which a mesh says that it took something.
var taken = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}

// posted returns what a sender may say of a message.
func (m Message) posted(handle string) postBody {
	return postBody{
		ID: m.ID, From: cmp.Or(m.From, handle), To: m.To, Text: m.Text, Kind: m.Kind,
		Correlation: m.Correlation, Hops: m.Hops, ResultFields: m.ResultFields, Trace: m.Trace,
		Status: m.Status, TurnID: m.TurnID, Epoch: m.Epoch, Fields: m.Fields, AfterExecution: m.AfterExecution,
		Files: m.Files,
	}
}

// Posted returns what a sender may say of a message as JSON, as a mesh carries it.
func (m Message) Posted() ([]byte, error) { return encode(m.posted("")) }

// Nudge sends a nudge to an agent. from defaults to our handle. Only an answer with
// the id of the nudge means that the mesh took it, unless StatusIsReceipt.
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

// Register publishes our presence. It does not send p.Handle and p.SeenAt.
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

// join appends escaped segments to a path. It also escapes a segment of dots
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
