package cron

import "golang.org/x/sys/unix"

// mountedNosuid reports whether the file system of path ignores set-id bits.
func mountedNosuid(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_NOSUID != 0
}
