package listen

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestStalledFollowerIsDropped checks that a follower that does not read is disconnected, and
// blocks nothing for long.
func TestStalledFollowerIsDropped(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		f := Stream{rw: rw, connection: http.NewResponseController(rw), patience: 100 * time.Millisecond}
		for text := strings.Repeat("x", 1<<20); ; {
			if err := f.Write(text); err != nil {
				ended <- err
				return
			}
		}
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, errFollowerGone) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a follower that does not read is waited for")
	}
}
