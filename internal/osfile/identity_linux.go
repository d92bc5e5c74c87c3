package osfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// Identify returns the identity of an open file.
func Identify(f *os.File) Identity {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_INO == 0 || st.Mask&unix.STATX_BTIME == 0 {
		return Identity{}
	}
	return Identity{Inode: st.Ino, Born: st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}
}
