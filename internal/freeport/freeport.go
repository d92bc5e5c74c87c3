// Package freeport finds ports of this machine for servers of the tests and the demo,
// which take their port as an argument.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// The range lies below the ports that systems give to connections and to listeners on
// port 0 (Linux: from 32768 on). A port of theirs could be gone before the server
// listens, or while it restarts.
const (
	lowest  = 10_000
	highest = 29_999
)

// Find returns a port on which nothing of this machine listens. Nothing listens on the
// ports that lie so far above it either.
func Find(above ...int) (int, error) {
	const tries = 1000
	for range tries {
		port := lowest + rand.IntN(highest-lowest+1)
		if isFree(port, above) {
			return port, nil
		}
	}
	return 0, errors.New("no port of this machine is free")
}

func isFree(port int, above []int) bool {
	for _, offset := range append([]int{0}, above...) {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+offset))
		if err != nil {
			return false
		}
		if err := l.Close(); err != nil {
			return false
		}
	}
	return true
}
