package mesh

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"time"
)

// maxHeader limits what is read of an answer before its body.
const maxHeader = 64 << 10

// plainClient returns a client that uses no proxy and follows no redirect: neither may
// see the token. It does not ask for gzip, so the limit on bytes read limits the answer.
// No connection outlives its call.
func plainClient(d *net.Dialer) *http.Client {
	return &http.Client{
		Transport:     &exchanger{dial: d.DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// exchanger makes each call on a connection of its own, in the goroutine that calls.
// http.Transport has two more for each connection, and larger buffers: a listener that
// waits for a thousand mailboxes pays for them a thousand times, and a poll pays for
// starting them. It serves what exchanger leaves to it.
type exchanger struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// RoundTrip is that of http.RoundTripper. An error after the end of the request's
// context is the context's.
func (e *exchanger) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "http" || req.Header.Get("Expect") != "" {
		return e.transport().RoundTrip(req)
	}
	ctx := req.Context()
	if req.Body != nil {
		defer req.Body.Close()
	}
	conn, err := e.dial(ctx, "tcp", hostPort(req))
	if err != nil {
		return nil, orCause(ctx, err)
	}
	left := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	resp, err := exchange(conn, req)
	if err != nil {
		left()
		conn.Close()
		return nil, orCause(ctx, err)
	}
	resp.Body = &lastBody{ReadCloser: resp.Body, ctx: ctx, left: left, conn: conn}
	return resp, nil
}

// transport returns what serves TLS, and a body that the server may refuse before it is
// sent.
func (e *exchanger) transport() *http.Transport {
	return &http.Transport{
		DialContext:            e.dial,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		ExpectContinueTimeout:  time.Second,
	}
}

// exchange writes the request and reads the header of its answer.
func exchange(conn net.Conn, req *http.Request) (*http.Response, error) {
	last := req.Clone(req.Context())
	last.Close = true
	unwritten := last.Write(conn) // a server may answer, and close, before it has read everything
	limited := &io.LimitedReader{R: conn, N: maxHeader}
	r := bufio.NewReaderSize(limited, 1<<10)
	for {
		resp, err := http.ReadResponse(r, req)
		switch {
		case err != nil && unwritten != nil:
			return nil, unwritten
		case err != nil && limited.N == 0:
			return nil, errors.New("the header of the answer is too long")
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errors.New("the connection was closed before an answer")
		case err != nil:
			return nil, err
		case resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols:
			continue // more is to come
		}
		limited.N = math.MaxInt64 // the caller limits the body
		return resp, nil
	}
}

// lastBody is the body of an answer behind which the connection is closed.
type lastBody struct {
	io.ReadCloser
	ctx  context.Context // the request's
	left func() bool     // stops watching it
	conn net.Conn
}

func (b *lastBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = orCause(b.ctx, err)
	}
	return n, err
}

// Close closes the connection. What is left of the body is not read.
func (b *lastBody) Close() error {
	b.left()
	return b.conn.Close()
}

// orCause returns why ctx has ended, or err.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// hostPort returns the address that a request over http goes to.
func hostPort(req *http.Request) string {
	if port := req.URL.Port(); port != "" {
		return req.URL.Host
	}
	return net.JoinHostPort(req.URL.Hostname(), "80")
}
