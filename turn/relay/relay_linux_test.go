package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/secret"
)

// serve starts a server in a folder whose path is longer than a unix address.
func serve(t *testing.T, handle Handler) (folder string, s *Server) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	s, err := Listen(folder, new(secret.Known), handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return folder, s
}

func dial(t *testing.T, folder string) net.Conn {
	t.Helper()
	dir, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	conn, err := net.Dial("unix", address(dir))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestCallArrives(t *testing.T) {
	want := Request{Verb: Submit, Text: "text\n\x00\"", Fields: []Field{{Name: "a", Text: "b"}, {Text: "=\n", Value: []byte("[1]")}}, For: time.Hour, Most: 3, To: "x"}
	var got Request
	folder, _ := serve(t, func(_ context.Context, r Request) Answer { got = r; return Answer{Text: "done\n"} })
	a, err := Call(t.Context(), folder, want)
	if err != nil || a != (Answer{Text: "done\n"}) || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, %+v", a, err, got)
	}
	if _, err := Call(t.Context(), filepath.Join(folder, "nowhere"), want); err == nil {
		t.Error("a call without a server succeeded")
	}
}

// TestInvalidRequests checks that invalid bytes do not reach the handler.
func TestInvalidRequests(t *testing.T) {
	folder, _ := serve(t, func(context.Context, Request) Answer {
		t.Error("the handler was called")
		return Answer{}
	})
	long := append([]byte(`{"verb":"submit","text":"`), bytes.Repeat([]byte("x"), maxRequest)...)
	for name, request := range map[string][]byte{
		"empty":       nil,
		"no line":     []byte(`{"verb":"submit"}`),
		"half a line": []byte(`{"verb":`),
		"no JSON":     []byte("submit me\n"),
		"an array":    []byte("[]\n"),
		"a number":    []byte("{\"verb\":7}\n"),
		"too long":    append(long, "\"}\n"...),
		"HTTP":        []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		conn := dial(t, folder)
		_, _ = conn.Write(request) // the server may close the connection before its end
		conn.(*net.UnixConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		conn.Close()
		var a Answer
		if err := json.Unmarshal(answer, &a); err == nil && a.Error == "" {
			t.Errorf("%s: %q", name, answer)
		}
	}
}

// TestSilentCallers checks that callers without a request do not block Close.
func TestSilentCallers(t *testing.T) {
	folder, s := serve(t, func(context.Context, Request) Answer { return Answer{} })
	for range 3 * maxCalls {
		defer dial(t, folder).Close()
	}
	s.Close()
	if _, err := Call(t.Context(), folder, Request{Verb: Sleep}); err == nil {
		t.Error("a call after Close was answered")
	}
}

// TestCloseWaits checks that Close waits for the calls that have begun.
func TestCloseWaits(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	done := false
	folder, s := serve(t, func(context.Context, Request) Answer {
		close(begun)
		<-end
		done = true
		return Answer{}
	})
	go Call(t.Context(), folder, Request{Verb: Sleep})
	<-begun
	go close(end)
	s.Close()
	if !done {
		t.Error("Close returned before the end of a call")
	}
}

// TestExistingFolderIsRefused checks that a link in the place of the folder is not used.
func TestExistingFolderIsRefused(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "relay")
	if err := os.Symlink(t.TempDir(), folder); err != nil {
		t.Fatal(err)
	}
	if s, err := Listen(folder, new(secret.Known), nil); err == nil {
		s.Close()
		t.Error("it listens in the target of a link")
	}
}
