package heartbeat_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/cycle/heartbeat"
	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
)

// ca and another are what this process takes for the roots of the system.
var ca, another *mailtest.CA

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "heartbeat")
	if err == nil {
		ca, err = mailtest.NewCA()
	}
	if err == nil {
		another, err = mailtest.NewCA()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "roots.pem"), slices.Concat(ca.PEM, another.PEM), 0o600)
	}
	if err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", filepath.Join(dir, "roots.pem"))
	os.Setenv("SSL_CERT_DIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// monitor returns a monitor with a fixed address.
func monitor(address string) *heartbeat.Monitor {
	return &heartbeat.Monitor{Address: func(context.Context) (string, error) { return address, nil }}
}

// ask connects and makes the request.
func ask(ctx context.Context, m *heartbeat.Monitor, reason string) error {
	call, err := m.Connect(ctx)
	if err != nil {
		return err
	}
	return call.Send(ctx, reason)
}

// A failure is reported at the URL that each kind of monitor expects. The rest of the address is
// unchanged.
func TestFailureURL(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	defer server.Close()
	for address, want := range map[string]string{
		"/0b7c3e0a-5b5f":                        "/0b7c3e0a-5b5f/fail",
		"/0b7c3e0a-5b5f/":                       "/0b7c3e0a-5b5f/fail",
		"/ping-key/my-agent?create=1":           "/ping-key/my-agent/fail?create=1",
		"/a%2Fb/c?x=1&y=%20#part":               "/a%2Fb/c/fail?x=1&y=%20",
		"/?status=upright":                      "/fail?status=upright",
		"/api/push/KEY?status=up&msg=OK&ping=":  "/api/push/KEY?status=down&msg=mail+failed%2C+a+turn+failed&ping=",
		"/api/push/KEY":                         "/api/push/KEY?status=down&msg=mail+failed%2C+a+turn+failed",
		"/kuma/api/push/KEY?ping=7":             "/kuma/api/push/KEY?ping=7&status=down&msg=mail+failed%2C+a+turn+failed",
		"/other?msg=OK&status=up&x=a%26status=": "/other?msg=mail+failed%2C+a+turn+failed&status=down&x=a%26status=",
	} {
		if err := ask(t.Context(), monitor(server.URL+address), "mail failed, a turn failed"); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if got.Method != http.MethodGet || got.RequestURI != want || got.Header.Get("User-Agent") != "agentStateLoop" {
			t.Errorf("%s: got %s %s, want %s", address, got.Method, got.RequestURI, want)
		}
		address, _, _ := strings.Cut(address, "#")
		if err := ask(t.Context(), monitor(server.URL+address), ""); err != nil || got.RequestURI != address {
			t.Errorf("%s: all is well: got %s, %v", address, got.RequestURI, err)
		}
	}
}

// The time to connect, and all that comes before it, is Patience, and 3 s by default.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for patience, want := range map[time.Duration]time.Duration{0: 3 * time.Second, time.Minute: time.Minute} {
			m := &heartbeat.Monitor{Patience: patience, Address: func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			}}
			began := time.Now()
			if _, err := m.Connect(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != want {
				t.Errorf("patience %v: %v after %v", patience, err, time.Since(began))
			}
		}
	})
}

// Any answer of a server costs one request and at most Patience, and no error names the address.
func TestServerAnswers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	requests := map[string]int{}
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests[r.URL.Path]++
		mu.Unlock()
		switch r.URL.Path[1 : len(r.URL.Path)-len("/a-key-that-nobody-sees")] {
		case "ok":
			fmt.Fprint(w, "OK")
		case "created":
			w.WriteHeader(201)
		case "failed":
			http.Error(w, "cannot GET "+r.URL.String(), 500)
		case "gone":
			w.WriteHeader(404)
		case "moved":
			http.Redirect(w, r, "/ok/a-key-that-nobody-sees", http.StatusFound)
		case "unknown":
			fmt.Fprint(w, "OK (not found)\n")
		case "often":
			fmt.Fprint(w, "OK (rate limited)")
		case "endless":
			for r.Context().Err() == nil {
				fmt.Fprint(w, strings.Repeat("x", 1<<16))
			}
		case "hangs":
			<-hang
		case "dies":
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	for path, want := range map[string]string{
		"ok": "", "created": "", "endless": "", "failed": "500 Internal Server Error", "gone": "404 Not Found",
		"moved": "302 Found, and redirects are not followed", "unknown": "does not know this address", "often": "too many requests",
		"hangs": "no answer within ", "dies": "EOF",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			m := monitor(server.URL + "/" + path + "/a-key-that-nobody-sees")
			asked := func() int { mu.Lock(); defer mu.Unlock(); return requests["/"+path+"/a-key-that-nobody-sees"] }
			if path == "hangs" {
				m.Patience = 100 * time.Millisecond
			}
			err := ask(t.Context(), m, "")
			for ; path == "hangs" && asked() == 0; m.Patience *= 2 { // how soon the server is asked depends on the machine
				err = ask(t.Context(), m, "")
			}
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("got %v, want %q", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "a-key") {
				t.Errorf("the error holds the address: %v", err)
			}
			if n := asked(); n != 1 && path != "ok" || path == "ok" && n > 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A server that does not accept, or is silent in TLS, costs at most Patience.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for address, want := range map[string]string{
		"https://" + silent.Addr().String() + "/a-key": "no answer within 100ms",
		"http://" + silent.Addr().String() + "/a-key":  "no answer within 100ms",
		"http://" + closed.Addr().String() + "/a-key":  "connection refused",
		"https://no-such-host.invalid/a-key":           "",
	} {
		t.Run(address[:5]+want, func(t *testing.T) {
			t.Parallel()
			m := monitor(address)
			if strings.HasPrefix(want, "no answer") {
				m.Patience = 100 * time.Millisecond
			}
			err := ask(t.Context(), m, "")
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "a-key") {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ask(ctx, monitor("http://"+silent.Addr().String()), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TLS is verified with the roots of the system, for the name in the address.
func TestTLS(t *testing.T) {
	other, err := mailtest.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from *mailtest.CA
		name string
		ok   bool
	}{{ca, "127.0.0.1", true}, {ca, "monitor.test", false}, {other, "127.0.0.1", false}} {
		cert, err := test.from.Issue(test.name, func(c *x509.Certificate) {
			if test.name != "127.0.0.1" {
				c.IPAddresses = nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		err = ask(t.Context(), monitor(server.URL+"/a-key"), "mail failed")
		server.Close()
		if (err == nil) != test.ok || err != nil && strings.Contains(err.Error(), "a-key") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// A monitor whose chain ends in another root than before is accepted at the second connection.
func TestChangedRootIsAccepted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roots")
	for _, test := range []struct {
		from        *mailtest.CA
		connections int32
	}{{another, 1}, {ca, 2}, {ca, 1}} {
		cert, err := test.from.Issue("monitor.test")
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		var connections atomic.Int32
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections.Add(1)
			}
		}
		server.StartTLS()
		m := monitor(server.URL)
		m.Roots = mail.NewRoots(file)
		err = ask(t.Context(), m, "")
		server.Close()
		if err != nil || connections.Load() != test.connections {
			t.Errorf("%v after %d connections, want %d", err, connections.Load(), test.connections)
		}
	}
}

// The connection that was made ahead carries the request. If the server has ended it,
// no second one is made.
func TestConnectionIsMadeOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	m := monitor("http://" + l.Addr().String() + "/x")
	call, err := m.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := <-accepted
	go func() {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	}()
	if err := call.Send(t.Context(), ""); err != nil || len(accepted) != 0 {
		t.Errorf("%v, %d further connections", err, len(accepted))
	}
	if call, err = m.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-accepted).Close()
	if err := call.Send(t.Context(), ""); err == nil || len(accepted) != 0 {
		t.Errorf("after the server has gone: %v, %d further connections", err, len(accepted))
	}
}

// An invalid address is refused, and the error does not repeat it.
func TestInvalidAddresses(t *testing.T) {
	for address, want := range map[string]error{
		"":                                     heartbeat.ErrNotURL,
		"hc-ping.com/secret-key":               heartbeat.ErrNotURL,
		"ftp://hc-ping.com/secret-key":         heartbeat.ErrNotURL,
		"https:///secret-key":                  heartbeat.ErrNotURL,
		"https://a/%zz-secret-key":             heartbeat.ErrNotURL,
		"https://a/secret-key\x7f":             heartbeat.ErrNotURL,
		"https://a:99999/secret-key":           heartbeat.ErrPort,
		"https://a:x/secret-key":               heartbeat.ErrPort,
		"https://u:secret-key@a/":              heartbeat.ErrPassword,
		"http://192.168.1.7/secret-key":        heartbeat.ErrUnencrypted,
		"http://127.0.0.1.example/secret-key":  heartbeat.ErrUnencrypted,
		"http://localhost:3001/secret-key":     nil,
		"http://[::1]:3001/secret-key":         nil,
		"https://hc-ping.com/secret-key?a=b#c": nil,
	} {
		err := heartbeat.Check(address, false)
		if !errors.Is(err, want) || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want %v", address, err, want)
		}
		if want == nil {
			continue
		}
		if _, err := monitor(address).Connect(t.Context()); !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: Connect: %v", address, err)
		}
	}
	if err := heartbeat.Check("http://192.168.1.7/secret-key", true); err != nil {
		t.Errorf("insecure: %v", err)
	}
	unread := &heartbeat.Monitor{Address: func(context.Context) (string, error) { return "", os.ErrNotExist }}
	if _, err := unread.Connect(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an address that cannot be read: %v", err)
	}
}

// The address and its keys are redacted in every form, but names that also occur elsewhere are
// not.
func TestAddressIsRedacted(t *testing.T) {
	for address, test := range map[string]struct{ hidden, shown []string }{
		"https://hc-ping.com/073305d2-3582-4dd6-b6a3-425e88583ca2": {
			[]string{"073305d2-3582-4dd6-b6a3-425e88583ca2", "/073305d2-3582-4dd6-b6a3-425e88583ca2/fail"}, []string{"hc-ping.com"},
		},
		"https://hc-ping.com/fqOOd6-F4MMNuCEnzTU01w/goulard3120?create=1": {
			[]string{"fqOOd6-F4MMNuCEnzTU01w", "/fqOOd6-F4MMNuCEnzTU01w/goulard3120"}, []string{"goulard3120", "create=1"},
		},
		"https://kuma.example/api/push/4Gdp9cHeNu7MHZ6P6RPiiVbHgSdEHJz7?status=up&msg=OK&ping=": {
			[]string{"4Gdp9cHeNu7MHZ6P6RPiiVbHgSdEHJz7"}, []string{"status=up&msg=OK", "kuma.example", "/api/push/"},
		},
		"https://kuma.example/api/push/lowercase123":  {[]string{"/api/push/lowercase123"}, []string{"lowercase123"}},
		"https://monitor.example/goulard3120":         {[]string{"https://monitor.example/goulard3120"}, []string{"state/goulard3120/log"}},
		"https://monitor.example/?token=S3cretTokenX": {[]string{"S3cretTokenX"}, nil},
	} {
		known := new(secret.Known)
		for i, text := range heartbeat.Secrets(address) {
			known.Learn(fmt.Sprint(i), text)
		}
		for _, text := range append(test.hidden, address) {
			if got := known.Redact("Get " + text + ": refused"); strings.Contains(got, text) || !strings.Contains(got, "***") {
				t.Errorf("%s: %s became %s", address, text, got)
			}
		}
		for _, text := range test.shown {
			if got := known.Redact(text); got != text {
				t.Errorf("%s: %s became %s", address, text, got)
			}
		}
	}
}
