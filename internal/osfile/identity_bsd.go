//go:build darwin || freebsd

package osfile

import (
	"os"
	"syscall"
)

// Identify returns the identity of an open file. Here a program that copies a file may set its
// birth time: then the copy is not recognized.
func Identify(f *os.File) Identity {
	info, err := f.Stat()
	if err != nil {
		return Identity{}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Identity{}
	}
	return Identity{Inode: st.Ino, Born: st.Birthtimespec.Nano()}
}
