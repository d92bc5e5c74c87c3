//go:build !linux

package doctor

import "golang.org/x/sys/unix"

// fileSystem returns the type of a file system.
func fileSystem(s *unix.Statfs_t) string { return unix.ByteSliceToString(s.Fstypename[:]) }
