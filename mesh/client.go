package mesh

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Client is one agent's side of a mesh. Make one for each cycle: Token is
// asked before the first call and its answer kept until the mesh refuses it.
// The methods may be called side by side.
//
// Every method makes one request and follows no redirect. A mesh that is down,
// slow, or answers anything but the profile is an *Error, within Timeout and
// some 4 MiB of memory. A token that cannot be read or is refused (401, 403)
// is a *state.CredentialError named "mesh" (DESIGN 10).
type Client struct {
	URL    string // http://127.0.0.1:8801
	Handle string // ours

	// Token gives the bearer token; nil or "" sends none. Its error must not
	// hold the token; ours never do.
	Token func(context.Context) (string, error)

	Timeout time.Duration // of one call, beside the wait asked for; 0: 30 s
	Paths   Paths         // where another mesh keeps its calls; zero: the profile's

	mu    sync.Mutex
	token string // the last one read, until it is refused
	http  *http.Client
}

// Paths says under which paths a mesh has its calls (DESIGN 8); an empty one
// stands for the profile's, named behind it. Handles and ids are appended.
type Paths struct {
	Message  string // /message
	Mailbox  string // /mailbox
	Nudge    string // /nudge
	Registry string // /registry
	Online   string // /registry/online
	Status   string // /status
	Halt     string // /kill
	Go       string // /resume
}

// Mailbox looks into our mailbox and consumes nothing. With a wait above zero
// an empty mailbox is answered when something arrives, HALT changes, or the
// wait is over; the mesh may shorten it.
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

// Ack takes a message or nudge out of our mailbox; one that is gone already is
// no error. A message that came without an id cannot be acknowledged, only
// recognised by its key: an empty id does nothing.
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

// Send posts m and returns the id the mesh knows it by. From defaults to our
// handle. Give m an ID: sending it again then makes nothing new, so that a
// Send whose answer was lost can be repeated.
func (c *Client) Send(ctx context.Context, m Message) (id string, err error) {
	var answer struct {
		ID string `json:"id"`
	}
	err = c.do(ctx, request{
		op: "send message", method: http.MethodPost,
		path: cmp.Or(c.Paths.Message, "/message"),
		body: postBody{
			ID: m.ID, From: cmp.Or(m.From, c.Handle), To: m.To, Text: m.Text, Kind: m.Kind,
			Correlation: m.Correlation, Hops: m.Hops, ResultFields: m.ResultFields,
		},
		into: &answer, accept: []int{http.StatusOK, http.StatusAccepted},
	})
	if err != nil {
		return "", err
	}
	return cmp.Or(answer.ID, m.ID), nil
}

// Nudge rings another agent, or ours. from defaults to our handle.
func (c *Client) Nudge(ctx context.Context, handle, from, reason string) error {
	return c.do(ctx, request{
		op: "nudge " + foreignLine(handle), method: http.MethodPost,
		path:   join(cmp.Or(c.Paths.Nudge, "/nudge"), handle),
		body:   nudgeBody{From: cmp.Or(from, c.Handle), Reason: reason},
		accept: []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent},
	})
}

// Register publishes our presence; p.Handle and p.SeenAt are not sent.
func (c *Client) Register(ctx context.Context, p Presence) error {
	p.Handle, p.SeenAt = "", time.Time{}
	return c.do(ctx, request{
		op: "register", method: http.MethodPut,
		path:   join(cmp.Or(c.Paths.Registry, "/registry"), c.Handle),
		body:   p,
		accept: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent},
	})
}

// Online lists the agents the mesh has seen lately.
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

// Status asks how the mesh is.
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

// Halt sets the mesh's HALT, for every agent on it.
func (c *Client) Halt(ctx context.Context) error {
	return c.do(ctx, request{
		op: "halt", method: http.MethodPost, path: cmp.Or(c.Paths.Halt, "/kill"),
		accept: []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent},
	})
}

// Go lifts the mesh's HALT.
func (c *Client) Go(ctx context.Context) error {
	return c.do(ctx, request{
		op: "resume", method: http.MethodPost, path: cmp.Or(c.Paths.Go, "/resume"),
		accept: []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent},
	})
}

// join appends escaped segments to a path. Dots are escaped by hand: a segment
// of dots alone would be taken for a way up.
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
