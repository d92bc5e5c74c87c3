package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// newKey returns a new key of a user.
func newKey(t *testing.T) (seed, public string) {
	t.Helper()
	seed, public, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return seed, public
}

// newSeed returns the Conn.Seed of a new key.
func newSeed(t *testing.T) func(context.Context) (string, error) {
	seed, _ := newKey(t)
	return func(context.Context) (string, error) { return seed, nil }
}

// TestParseServers checks which addresses of servers are accepted.
func TestParseServers(t *testing.T) {
	for urls, want := range map[string]string{
		"tls://n1.example.com":                         "tls://n1.example.com:4222",
		"tls://n1:4222, tls://n2:4223":                 "tls://n1:4222 tls://n2:4223",
		"tls://n1:4222,n2,n3:1":                        "tls://n1:4222 tls://n2:4222 tls://n3:1",
		"nats://127.0.0.1:4222,localhost,nats://[::1]": "nats://127.0.0.1:4222 nats://localhost:4222 nats://[::1]:4222",
		"nats://n1.example.com":                        "unencrypted",
		"tls://n1,nats://n2":                           "not both tls and nats",
		"http://127.0.0.1":                             "must begin with",
		"n1:4222":                                      "is not a server",
		"":                                             "is not a server",
		"tls://":                                       "is not a server",
		"tls://user:secret@n1":                         "are not supported",
		"tls://n1/path":                                "is not a server",
	} {
		servers, err := Servers(urls)
		var got []string
		for _, s := range servers {
			got = append(got, s.String())
		}
		if err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) || err == nil && strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", urls, got, err)
		}
	}
}

// TestBrokenServers checks the errors of servers that are away, silent, or not of NATS: each names the
// server, and comes within the timeout.
func TestBrokenServers(t *testing.T) {
	closed := startListener(t, func(net.Conn) {})
	closed.Close()
	silent := startListener(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	web := startListener(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); c.Close() })
	noise := startListener(t, func(c net.Conn) { _, _ = io.WriteString(c, "INFO {\"nonce\":}\r\n"); c.Close() })
	for name, tt := range map[string]struct {
		servers []net.Listener
		want    string
	}{
		"away":      {[]net.Listener{closed}, "connection refused"},
		"silent":    {[]net.Listener{silent}, "no answer"},
		"not NATS":  {[]net.Listener{web}, ""},
		"nonsense":  {[]net.Listener{noise}, ""},
		"all three": {[]net.Listener{closed, silent, web}, "no server is reachable"},
	} {
		var urls []string
		for _, s := range tt.servers {
			urls = append(urls, "nats://"+s.Addr().String())
		}
		c := &Conn{URL: strings.Join(urls, ","), Handle: "goulard", Timeout: 300 * time.Millisecond, Seed: newSeed(t)}
		_, err := c.Take(t.Context(), "", time.Now(), 1, 1<<20)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Denied || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range tt.servers {
			if err == nil || !strings.Contains(err.Error(), s.Addr().String()) {
				t.Errorf("%s: %v does not name %s", name, err, s.Addr())
			}
		}
	}
}

func startListener(t *testing.T, serve func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go serve(c)
		}
	}()
	return l
}

// TestUnreadableKeys checks that a missing or wrong seed is an error of the key, unless the caller gave
// up.
func TestUnreadableKeys(t *testing.T) {
	for name, seed := range map[string]func(context.Context) (string, error){
		"none":    nil,
		"missing": func(context.Context) (string, error) { return "", errors.New("no such file") },
		"wrong":   func(context.Context) (string, error) { return "SUAAA", nil },
	} {
		c := &Conn{URL: "nats://127.0.0.1:1", Handle: "goulard", Seed: seed}
		_, err := c.Take(t.Context(), "alpha", time.Now(), 1, 1)
		if e, ok := errors.AsType[*Error](err); !ok || !e.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &Conn{URL: "nats://127.0.0.1:1", Seed: func(context.Context) (string, error) { cancel(); return "", ctx.Err() }}
	if e, ok := errors.AsType[*Error](c.Ring(ctx, "x")); !ok || e.Denied {
		t.Errorf("given up: %v", e)
	}
}

// TestRetriesUnverifiedChain checks that a second TLS configuration is tried for a chain that the first
// one did not verify, and no third one.
func TestRetriesUnverifiedChain(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(web.Certificate())
	for name, tt := range map[string]struct {
		pools    []*x509.CertPool
		configs  int32
		verified bool
	}{
		"at once":       {[]*x509.CertPool{trusted}, 1, true},
		"at the second": {[]*x509.CertPool{x509.NewCertPool(), trusted}, 2, true},
		"never":         {[]*x509.CertPool{x509.NewCertPool(), x509.NewCertPool(), trusted}, 2, false},
	} {
		var configs, connected atomic.Int32
		verified := make([]chan bool, len(tt.pools)) // by connection
		for i := range verified {
			verified[i] = make(chan bool, 1)
		}
		server := startListener(t, func(c net.Conn) {
			defer c.Close()
			n := connected.Add(1) - 1 // before INFO: the client makes no other connection until it has that
			_, _ = io.WriteString(c, `INFO {"tls_required":true,"nonce":"a","max_payload":1024}`+"\r\n")
			verified[n] <- tls.Server(c, web.TLS).Handshake() == nil
		})
		conn := Conn{
			URL: "tls://" + server.Addr().String(), Seed: newSeed(t), Timeout: 10 * time.Second,
			TLS: func(host string) (*tls.Config, error) {
				return &tls.Config{ServerName: host, RootCAs: tt.pools[configs.Add(1)-1], MaxVersion: tls.VersionTLS12}, nil
			},
		}
		servers, err := Servers(conn.URL)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := conn.key(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, dialErr := conn.dial(t.Context(), servers[0], pair, time.Now().Add(10*time.Second))
		got := <-verified[configs.Load()-1]
		if configs.Load() != tt.configs || got != tt.verified {
			t.Errorf("%s: asked %d times, verified %v: %v", name, configs.Load(), got, dialErr)
		}
	}
}
