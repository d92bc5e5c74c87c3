package mesh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// serveRaw starts a server that runs script on each connection, and returns its URL.
func serveRaw(t *testing.T, script func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); script(conn) }()
		}
	}()
	return "http://" + l.Addr().String()
}

// postRaw makes one call and returns the status and the body.
func postRaw(ctx context.Context, url string, body io.Reader) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, "", err
	}
	resp, err := plainClient(&net.Dialer{}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// readHeader reads a request's header.
func readHeader(conn net.Conn) {
	r := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			return
		}
	}
}

// TestAnswersAreRead checks that a client reads an answer in each form of HTTP.
func TestAnswersAreRead(t *testing.T) {
	for name, answer := range map[string]string{
		"length":            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"chunks":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
		"until the end":     "HTTP/1.0 200 OK\r\n\r\nhello",
		"behind early ones": "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	} {
		url := serveRaw(t, func(conn net.Conn) { readHeader(conn); io.WriteString(conn, answer) })
		if code, body, err := postRaw(t.Context(), url, nil); err != nil || code != 200 || body != "hello" {
			t.Errorf("%s: %d %q, %v", name, code, body, err)
		}
	}
	const long = 2 * maxHeader
	url := serveRaw(t, func(conn net.Conn) {
		readHeader(conn)
		io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\n"+strings.Repeat("x", long))
	})
	if _, body, err := postRaw(t.Context(), url, nil); err != nil || len(body) != long {
		t.Errorf("%d bytes of %d, %v", len(body), long, err)
	}
}

// TestRefusalOfUnreadBody checks that a client reads a refusal from a server that does not read the
// body.
func TestRefusalOfUnreadBody(t *testing.T) {
	url := serveRaw(t, func(conn net.Conn) {
		readHeader(conn)
		io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!")
		conn.(*net.TCPConn).CloseWrite()
		io.CopyN(io.Discard, conn, 1<<20)
	})
	code, body, err := postRaw(t.Context(), url, strings.NewReader(strings.Repeat("x", 8<<20)))
	if err == nil && (code != 413 || body != "no!") {
		t.Errorf("%d %q", code, body)
	}
	if err != nil && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
		t.Error(err) // the kernel may have dropped the response
	}
}

func TestInvalidAnswers(t *testing.T) {
	for want, script := range map[string]func(net.Conn){
		"closed before an answer": readHeader,
		"header of the answer is too long": func(conn net.Conn) {
			readHeader(conn)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX: %s\r\n\r\n", strings.Repeat("x", maxHeader))
		},
		"malformed HTTP": func(conn net.Conn) { readHeader(conn); io.WriteString(conn, "220 smtp.example.org ESMTP\r\n") },
	} {
		if _, _, err := postRaw(t.Context(), serveRaw(t, script), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestCallsEndWithTheirContext checks that the end of the context ends a call that waits for the
// header or reads the body.
func TestCallsEndWithTheirContext(t *testing.T) {
	for name, begin := range map[string]string{"header": "", "body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"} {
		closed := make(chan error, 1)
		url := serveRaw(t, func(conn net.Conn) {
			readHeader(conn)
			io.WriteString(conn, begin)
			_, err := conn.Read(make([]byte, 1))
			closed <- err
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err := postRaw(ctx, url, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-closed; err == nil {
			t.Errorf("%s: the connection stays open", name)
		}
	}
}

// TestCallStartsNoGoroutine checks that a call runs in its caller's goroutine: a listener waits for
// a thousand mailboxes.
func TestCallStartsNoGoroutine(t *testing.T) {
	waiting, answer := make(chan struct{}), make(chan struct{})
	url := serveRaw(t, func(conn net.Conn) {
		readHeader(conn)
		waiting <- struct{}{}
		<-answer
		io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := runtime.NumGoroutine()
	const calls = 20
	ended := make(chan error)
	for range calls {
		go func() { _, _, err := postRaw(ctx, url, nil); ended <- err }()
	}
	for range calls {
		<-waiting
	}
	// One goroutine of the client and one of the server for each call.
	if more := runtime.NumGoroutine() - before; more > 2*calls {
		t.Errorf("%d goroutines for %d calls", more, calls)
	}
	close(answer)
	for range calls {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
