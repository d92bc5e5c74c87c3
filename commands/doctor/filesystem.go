package doctor

import (
	"slices"

	"golang.org/x/sys/unix"
)

// littleSpace and noSpace are the free space, in bytes, below which doctor reports a warning and an
// error. A commit needs some KB, a mail some MB.
const (
	littleSpace = 200 << 20
	noSpace     = 10 << 20

	// fewFiles is the number of free inodes below which doctor reports an error.
	fewFiles = 100
)

// checkFileSystem checks that the file system of dir has the features a commit needs: free space,
// hard links and flock.
func checkFileSystem(dir string) []Finding {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return []Finding{bad(Warn, "state", "", "cannot examine the file system of %s: %v", dir, err)}
	}
	return slices.Concat(checkType(dir, fileSystem(&stat)), checkSpace(&stat))
}

// checkType checks that a type of file system has hard links and flock.
func checkType(dir, kind string) []Finding {
	switch kind {
	case "vfat", "msdos", "exfat":
		return []Finding{bad(Error, "state", "set state_dir in [agent] to a folder on a local disk of Linux or macOS", "%s is on %s, which has no hard links", dir, kind)}
	case "nfs", "smb", "cifs", "smb2", "smbfs", "webdav", "afpfs":
		return []Finding{bad(Warn, "state", "set state_dir in [agent] to a folder on a local disk", "%s is on %s, where locks may not work", dir, kind)}
	}
	return nil
}

// checkSpace checks that a file system has room for more bytes and more files.
func checkSpace(stat *unix.Statfs_t) []Finding {
	var found []Finding
	free := uint64(stat.Bavail) * uint64(stat.Bsize)
	if free < littleSpace {
		level := Warn
		if free < noSpace {
			level = Error
		}
		found = append(found, bad(level, "state", "free some space: a poll that cannot write accepts no mail", "its file system has only %d MiB free", free>>20))
	}
	if stat.Files > 0 && stat.Ffree < fewFiles {
		found = append(found, bad(Error, "state", "remove small files: the file system is running out of inodes", "its file system has room for only %d more files", stat.Ffree))
	}
	return found
}
