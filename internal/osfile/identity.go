package osfile

import (
	"fmt"
	"strconv"
	"strings"
)

// Identity tells a file from a copy of it. A rename keeps it, and so do a change of the content,
// the mode or the owner, a remount and a restart. Programs that copy files or put them back make
// another file, and on Linux they cannot set its birth time. The zero Identity is unknown: the
// file system does not record birth times.
type Identity struct {
	Inode uint64
	Born  int64 // nanoseconds since 1970
}

// String returns the identity as text, or "" if it is unknown.
func (id Identity) String() string {
	if id == (Identity{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", id.Inode, id.Born)
}

// ParseIdentity returns the identity that String wrote. Any other text is the unknown identity.
func ParseIdentity(text string) Identity {
	inode, born, _ := strings.Cut(text, ".")
	i, errInode := strconv.ParseUint(inode, 10, 64)
	b, errBorn := strconv.ParseInt(born, 10, 64)
	if errInode != nil || errBorn != nil {
		return Identity{}
	}
	return Identity{Inode: i, Born: b}
}

// IsCopyOf reports whether the file is certainly another one than the file that had the identity
// original. Network file systems may change inode numbers, and the system gives the number of a
// removed file to another one. A server on Windows may give a renamed file the birth time of the
// file that it replaces. So it takes both.
func (id Identity) IsCopyOf(original Identity) bool {
	switch {
	case id.Born == 0 || original.Born == 0:
		return false
	case id.Inode == original.Inode:
		return id.Born > original.Born
	}
	return id.Born != original.Born
}
