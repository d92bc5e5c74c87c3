//go:build !linux

package doctor

import "golang.org/x/sys/unix"

// fileSystem names the kind of a file system.
func fileSystem(s *unix.Statfs_t) string { return unix.ByteSliceToString(s.Fstypename[:]) }
