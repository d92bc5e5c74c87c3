//go:build darwin || freebsd

package listen

import "syscall"

// changed returns the time of the last change of a file's inode, in nanoseconds.
func changed(s *syscall.Stat_t) int64 { return syscall.TimespecToNsec(s.Ctimespec) }
