package freeport

import (
	"net"
	"strconv"
	"testing"
)

func TestFind(t *testing.T) {
	port, err := Find(1)
	if err != nil {
		t.Fatal(err)
	}
	if port < lowest || port > highest {
		t.Errorf("Find() = %d", port)
	}
	for _, p := range []int{port, port + 1} {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	for _, p := range []int{port, port - 1} {
		if isFree(p, []int{1}) {
			t.Errorf("isFree(%d, 1) = true while something listens", p)
		}
	}
}
