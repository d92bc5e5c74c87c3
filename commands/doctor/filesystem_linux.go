package doctor

import "golang.org/x/sys/unix"

// fileSystem returns the type of a file system, from statfs(2), or "" for a type
// without known problems.
func fileSystem(s *unix.Statfs_t) string {
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC:
		return "smb"
	case unix.CIFS_SUPER_MAGIC:
		return "cifs"
	case unix.SMB2_SUPER_MAGIC:
		return "smb2"
	case unix.MSDOS_SUPER_MAGIC:
		return "vfat"
	case unix.EXFAT_SUPER_MAGIC:
		return "exfat"
	}
	return ""
}
