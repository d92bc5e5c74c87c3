package mailtest

import (
	"net"
	"testing"
)

// Close ends the goroutines that accept connections, and the connections.
func TestClose(t *testing.T) {
	s, err := Start(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.ServeSMTP(l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 4)); err != nil { // its greeting
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err == nil {
		t.Error("no error")
	}
	for err = nil; err == nil; {
		_, err = c.Read(make([]byte, 1<<10))
	}
}
