// Package testkit supports the tests, the demo and the simulator. It provides ports and folders;
// its subfolders have servers, stand-ins and tables.
package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The range is below the ports that systems give to connections and to listeners on port 0
// (Linux: from 32768 on). Such a port could be taken before the server listens, or while it
// restarts.
const (
	lowest  = 10_000
	highest = 29_999
)

// reserved holds UDP sockets on the ports that FreePort has returned. They stay open until this
// process ends, so that no other process finds these ports before their server listens, or while
// it restarts.
var reserved struct {
	mu    sync.Mutex
	ports []net.PacketConn
}

// FreePort returns a port that is free on this machine and that no other call of FreePort
// returns. The same holds for the ports at the offsets above from it.
func FreePort(above ...int) (int, error) {
	const tries = 1000
	for range tries {
		port := lowest + rand.IntN(highest-lowest+1)
		if reserve(port, above) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("found no free port in %d tries", tries)
}

// reserve keeps the ports for this process if all of them are free.
func reserve(port int, above []int) bool {
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
	reserved.mu.Lock()
	defer reserved.mu.Unlock()
	reserved.ports = append(reserved.ports, ports...)
	return true
}

// Listens waits until a server listens at an address.
func Listens(addr string, patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// InMemory puts the folders of the tests into memory if the machine has enough room there:
// these tests make thousands of polls, and each poll waits for the disk many times. A run that
// requires everything to be real stays on the disk.
func InMemory() error {
	const memory, room, noExec = "/dev/shm", 1 << 30, 8
	var fs syscall.Statfs_t
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" || os.Getenv("TMPDIR") != "" {
		return nil
	}
	if err := syscall.Statfs(memory, &fs); err != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < room || fs.Flags&noExec != 0 {
		return nil
	}
	return os.Setenv("TMPDIR", memory)
}

// InMemoryWithoutSandboxes is InMemory for tests that make sandboxes if bubblewrap is installed.
// A sandbox has its own /dev/shm, so with bubblewrap the tests stay on the disk.
func InMemoryWithoutSandboxes() error {
	if _, err := exec.LookPath("bwrap"); err == nil {
		return nil
	}
	return InMemory()
}

// WriteProgram writes a program that can be started at once, even while other goroutines start
// processes. A process that is just starting holds a copy of every open file for a moment, and
// a program that is open for writing cannot be started ("text file busy").
func WriteProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o700)
}
