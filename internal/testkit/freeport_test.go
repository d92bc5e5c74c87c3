package testkit

import (
	"net"
	"strconv"
	"testing"
)

func TestFreePort(t *testing.T) {
	port, err := FreePort(1)
	if err != nil {
		t.Fatal(err)
	}
	if port < lowest || port > highest {
		t.Errorf("FreePort() = %d", port)
	}
	for _, p := range []int{port - 1, port, port + 1} {
		if reserve(p, []int{1}) {
			t.Errorf("reserve(%d, 1) = true, but FreePort has returned %d and the port above it", p, port)
		}
	}
	for _, p := range []int{port, port + 1} {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if p := listener.Addr().(*net.TCPAddr).Port; reserve(p, nil) || reserve(p-1, []int{1}) {
		t.Errorf("reserve(%d) = true while a listener is open", p)
	}
}
