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

// maxHeader limits the bytes of an answer before its body.
const maxHeader = 64 << 10

// plainClient returns a client that uses no proxy and follows no redirect, because they must
// not see the token. It does not ask for gzip, so the limit on bytes read also limits the
// answer. Each connection ends with its call.
func plainClient(d *net.Dialer) *http.Client {
	return &http.Client{
		Transport:     &exchanger{dial: d.DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// exchanger makes each call on its own connection, in the calling goroutine. http.Transport
// uses two more goroutines and larger buffers for each connection. A listener that waits for a
// thousand mailboxes would pay for them a thousand times, and a poll would pay for starting
// them. exchanger uses http.Transport only for requests that it cannot make itself.
type exchanger struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// RoundTrip implements http.RoundTripper. After the end of the request's context it returns the
// error of the context.
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

// transport returns the transport for TLS, and for a body that the server may refuse before the
// client sends it.
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
	unwritten := last.Write(conn) // a server may answer and close before it has read the whole request
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
			continue // the final answer follows
		}
		limited.N = math.MaxInt64 // the caller limits the body
		return resp, nil
	}
}

// lastBody is the body of an answer. Its Close closes the connection.
type lastBody struct {
	io.ReadCloser
	ctx  context.Context // of the request
	left func() bool     // stops watching ctx
	conn net.Conn
}

func (b *lastBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = orCause(b.ctx, err)
	}
	return n, err
}

// Close closes the connection without reading the rest of the body.
func (b *lastBody) Close() error {
	b.left()
	return b.conn.Close()
}

// orCause returns the error of ctx if ctx has ended, and err otherwise.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// hostPort returns the address for a request over http.
func hostPort(req *http.Request) string {
	if port := req.URL.Port(); port != "" {
		return req.URL.Host
	}
	return net.JoinHostPort(req.URL.Hostname(), "80")
}
