package box

import (
	"errors"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// minLandlock is the first version of Landlock (Linux 5.19) that lets a program move files
// between folders. Without it git and other programs fail.
const minLandlock = 2

// suffices reports whether a version of Landlock is new enough.
func suffices(version uintptr) bool { return version >= minLandlock }

// devices are the device files that programs expect.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// landlock is a second wall: it grants by path the access that the mounts of the sandbox grant
// already. From Linux 6.12 on it also forbids signals and abstract sockets to the outside. With
// Strict a kernel without Landlock is an error.
func (s stage) landlock() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) // 1: LANDLOCK_CREATE_RULESET_VERSION
	if errno != 0 || !suffices(version) {
		if s.Strict {
			return errors.New("this kernel cannot confine programs with it (Linux 5.19 or later, with landlock in lsm=)")
		}
		return nil
	}
	rules := []landlock.Rule{
		landlock.RODirs("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc").IgnoreIfMissing(),
		// Every folder may be listed: the sandbox contains only granted files.
		landlock.PathAccess(ll.AccessFSReadDir, "/"),
		landlock.RWFiles(devices...).IgnoreIfMissing().WithIoctlDev(),
		landlock.RWDirs("/dev/pts").IgnoreIfMissing().WithIoctlDev(),
		landlock.RWDirs("/tmp", "/dev/shm").WithRefer(),
	}
	for _, g := range s.Paths {
		info, err := os.Stat(g.Path)
		if err != nil {
			return err
		}
		switch {
		case info.IsDir() && g.Write:
			rules = append(rules, landlock.RWDirs(g.Path).WithRefer())
		case info.IsDir():
			rules = append(rules, landlock.RODirs(g.Path))
		case g.Write:
			rules = append(rules, landlock.RWFiles(g.Path))
		default:
			rules = append(rules, landlock.ROFiles(g.Path))
		}
	}
	best := landlock.V9.BestEffort()
	if err := best.RestrictPaths(rules...); err != nil {
		return err
	}
	return best.RestrictScoped()
}
