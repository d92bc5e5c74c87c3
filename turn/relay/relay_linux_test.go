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

// say sends bytes to the server and returns what it answers.
func say(t *testing.T, folder string, said []byte, closing bool) string {
	t.Helper()
	conn := dial(t, folder)
	defer conn.Close()
	_, _ = conn.Write(said) // the server may have had enough
	if closing {
		conn.(*net.UnixConn).CloseWrite()
	}
	answer, _ := io.ReadAll(conn)
	return string(answer)
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

func TestCall(t *testing.T) {
	want := Request{Verb: Submit, Text: "text\n\x00\"", Fields: []Field{{Name: "a", Text: "b"}, {Text: "=\n", Value: []byte("[1]")}}, For: time.Hour, Most: 3, To: "x"}
	var got Request
	folder, _ := serve(t, func(_ context.Context, r Request) Answer { got = r; return Answer{Text: "done\n"} })
	a, err := Call(t.Context(), folder, want)
	if err != nil || a != (Answer{Text: "done\n"}) || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, %+v", a, err, got)
	}
	if _, err := Call(t.Context(), filepath.Join(folder, "nowhere"), want); err == nil {
		t.Error("nobody listens there")
	}
}

// What is not a request reaches no handler.
func TestInvalidRequests(t *testing.T) {
	folder, _ := serve(t, func(context.Context, Request) Answer {
		t.Error("the handler was called")
		return Answer{}
	})
	long := append([]byte(`{"verb":"submit","text":"`), bytes.Repeat([]byte("x"), maxRequest)...)
	for name, said := range map[string][]byte{
		"nothing":     nil,
		"no line":     []byte(`{"verb":"submit"}`),
		"half a line": []byte(`{"verb":`),
		"no JSON":     []byte("submit me\n"),
		"an array":    []byte("[]\n"),
		"a number":    []byte("{\"verb\":7}\n"),
		"too long":    append(long, "\"}\n"...),
		"HTTP":        []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		answer := say(t, folder, said, true)
		var a Answer
		if err := json.Unmarshal([]byte(answer), &a); err == nil && a.Error == "" {
			t.Errorf("%s: %q", name, answer)
		}
	}
}

// Callers that say nothing hold up neither the others for ever nor Close.
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

// Close waits for what has begun: when it returns, nothing more is done.
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
		t.Error("Close returned while a call was under way")
	}
}

// What stands in the place of the folder already is not used.
func TestExistingFolderIsRefused(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "relay")
	if err := os.Symlink(t.TempDir(), folder); err != nil {
		t.Fatal(err)
	}
	if s, err := Listen(folder, new(secret.Known), nil); err == nil {
		s.Close()
		t.Error("it listens where a link leads")
	}
}
