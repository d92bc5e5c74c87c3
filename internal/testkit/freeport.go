// Package freeport finds ports of this machine for servers of the tests and the demo,
// which take their port as an argument.
package testkit

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range lies below the ports that systems give to connections and to listeners on
// port 0 (Linux: from 32768 on). A port of theirs could be gone before the server
// listens, or while it restarts.
const (
	lowest  = 10_000
	highest = 29_999
)

// held are UDP sockets on the ports that Find has returned, until this process ends: so
// no other process finds these ports before their server listens, or while it restarts.
var held struct {
	mu    sync.Mutex
	ports []net.PacketConn
}

// FreePort returns a port on which nothing of this machine listens, and which no other call of
// FreePort returns. The same is true of the ports that lie so far above it.
func FreePort(above ...int) (int, error) {
	const tries = 1000
	for range tries {
		port := lowest + rand.IntN(highest-lowest+1)
		if hold(port, above) {
			return port, nil
		}
	}
	return 0, errors.New("no port of this machine is free")
}

// hold holds the ports if all of them are free.
func hold(port int, above []int) bool {
	var ports []net.PacketConn
	for _, offset := range append([]int{0}, above...) {
		address := "127.0.0.1:" + strconv.Itoa(port+offset)
		udp, err := net.ListenPacket("udp", address)
		if err == nil {
			ports = append(ports, udp)
			var l net.Listener
			if l, err = net.Listen("tcp", address); err == nil {
				err = l.Close()
			}
		}
		if err != nil {
			for _, p := range ports {
				p.Close()
			}
			return false
		}
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	held.ports = append(held.ports, ports...)
	return true
}
