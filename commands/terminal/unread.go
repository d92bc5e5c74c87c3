package terminal

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// Unread reports whether w is a pipe or a terminal whose other end is closed, so that its output is
// never read.
func Unread(w io.Writer) bool {
	f, ok := w.(syscall.Conn)
	if !ok {
		return false
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = conn.Control(func(fd uintptr) {
		end := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(end, 0)
		gone = err == nil && n > 0 && end[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && gone
}
