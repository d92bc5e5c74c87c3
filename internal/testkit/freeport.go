// Package testkit is the machinery of the tests, the demo and the simulator. Here are ports and
// folders; the subfolders have servers, stand-ins and tables.
package testkit

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range is below the ports that systems give to connections and to listeners on port 0
// (Linux: from 32768 on). Such a port could be taken before the server listens, or while it
// restarts.
const (
	lowest  = 10_000
	highest = 29_999
)

// held are UDP sockets on the ports that Find has returned. They stay open until this process
// ends, so that no other process finds these ports before their server listens, or while it
// restarts.
var held struct {
	mu    sync.Mutex
	ports []net.PacketConn
}

// FreePort returns a port that is free on this machine and that no other call of FreePort
// returns. The same holds for the ports at the offsets above from it.
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
