package doctor

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Free space, in bytes, below which doctor warns, and below which it reports an
// error. A commit needs some KB, a mail some MB.
const (
	littleSpace = 200 << 20
	noSpace     = 10 << 20
)

// checkFileSystem checks that the file system of dir has what a commit needs:
// free space, hard links and flock.
func checkFileSystem(dir string) []Finding {
	const name = "state"
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return []Finding{bad(Warn, name, "", "cannot examine the file system of %s: %v", dir, err)}
	}
	var found []Finding
	switch kind := fileSystem(&stat); {
	case slices.Contains([]string{"vfat", "msdos", "exfat"}, kind):
		found = append(found, bad(Error, name, "set state_dir in [agent] to a folder on a local disk of Linux or macOS", "%s is on %s, which has no hard links", dir, kind))
	case slices.Contains([]string{"nfs", "smb", "cifs", "smb2", "smbfs", "webdav", "afpfs"}, kind):
		found = append(found, bad(Warn, name, "set state_dir in [agent] to a folder on a local disk", "%s is on %s, where locks may not work", dir, kind))
	}
	free := uint64(stat.Bavail) * uint64(stat.Bsize)
	switch hint := "free some space: a poll that cannot write accepts no mail"; {
	case free < noSpace:
		found = append(found, bad(Error, name, hint, "its file system has only %d MiB free", free>>20))
	case free < littleSpace:
		found = append(found, bad(Warn, name, hint, "its file system has only %d MiB free", free>>20))
	}
	if stat.Files > 0 && stat.Ffree < 100 {
		found = append(found, bad(Error, name, "remove small files: the file system runs out of inodes", "its file system has room for only %d more files", stat.Ffree))
	}
	return found
}
