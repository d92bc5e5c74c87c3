package box

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Fixed limits, which no setting changes.
const (
	maxFiles = 4096 // descriptors of one process
	maxStack = 64 << 20
)

// program puts up the inner walls and becomes argv. It returns only if that fails. A probe has
// an empty argv: then program returns Exit(0) after the walls.
func (s stage) program(argv []string) error {
	runtime.LockOSThread() // the thread that becomes the program
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	env := s.environ(os.Environ())
	var program string
	if len(argv) > 0 {
		var err error
		if program, err = exec.LookPath(argv[0]); err != nil {
			return notFound(err)
		}
	}
	for _, wall := range []struct {
		name string
		up   func() error
	}{
		{"priority", s.Limits.lowerPriority},
		{"capabilities", dropCapabilities},
		{"Landlock", s.landlock},
		{"limits", s.Limits.set},
		{"seccomp", func() error { return filterCalls(s.Local) }},
	} {
		if err := wall.up(); err != nil {
			return fmt.Errorf("sandbox: %s: %w", wall.name, err)
		}
	}
	if program == "" {
		return Exit(0)
	}
	return fmt.Errorf("%s: %w", argv[0], unix.Exec(program, argv, env))
}

// notFound returns the error for a program that does not exist in the sandbox.
func notFound(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w; the sandbox contains only /usr and the granted folders", err)
	}
	return err
}

// environ returns env with the variables that differ inside the sandbox replaced.
func (s stage) environ(env []string) []string {
	ours := []string{"HOME=" + s.Home, "TMPDIR=/tmp", "USER=" + nameInside, "LOGNAME=" + nameInside}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return slices.ContainsFunc(ours, func(our string) bool {
			name, _, _ := strings.Cut(our, "=")
			return strings.HasPrefix(kv, name+"=")
		})
	})
	return append(env, ours...)
}

// The low priority of a limited program: its nice value, and its preference as a victim when
// the kernel runs out of memory.
const (
	niceInside = 10
	oomInside  = "1000"
)

// lowerPriority lowers the priority of a limited program, above all below the first process of the
// sandbox, which must notice in time that there are too many processes.
func (l Limits) lowerPriority() error {
	if l == (Limits{}) {
		return nil
	}
	return errors.Join(
		unix.Setpriority(unix.PRIO_PROCESS, 0, niceInside),
		os.WriteFile("/proc/self/oom_score_adj", []byte(oomInside), 0),
	)
}

// set sets the limits of this process and its children.
func (l Limits) set() error {
	limits := []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NOFILE, maxFiles},
		{unix.RLIMIT_STACK, maxStack},
		{unix.RLIMIT_MEMLOCK, 8 << 20},
		{unix.RLIMIT_NPROC, uint64(l.Processes)},
		{unix.RLIMIT_DATA, uint64(l.Memory)},
		{unix.RLIMIT_FSIZE, uint64(l.FileSize)},
		{unix.RLIMIT_CPU, uint64((l.CPU + time.Second - 1) / time.Second)},
	}
	for _, r := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(r.resource, &now); err != nil {
			return err
		}
		if r.most == 0 && r.resource != unix.RLIMIT_CORE {
			continue
		}
		// Never raise a limit.
		most := min(r.most, now.Max)
		if err := unix.Setrlimit(r.resource, &unix.Rlimit{Cur: min(most, now.Cur), Max: most}); err != nil {
			return err
		}
	}
	return nil
}

// dropCapabilities removes every capability from this thread for good.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	// The loop ends at the last capability, or at once if the thread may not drop any from the
	// bounding set. Such a thread has no capabilities and cannot gain one.
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) == nil; c++ {
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// minLandlock is the first version of Landlock (Linux 5.19) that lets a program move files
// between folders. Without it git and other programs fail.
const minLandlock = 2

// isSupported reports whether a version of Landlock is new enough.
func isSupported(version uintptr) bool { return version >= minLandlock }

// devices are the device files that programs expect.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// landlock is a second wall: it grants by path the access that the mounts of the sandbox grant
// already. From Linux 6.12 on it also forbids signals and abstract sockets to the outside. With
// Strict a kernel without Landlock is an error.
func (s stage) landlock() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) // 1: LANDLOCK_CREATE_RULESET_VERSION
	if errno != 0 || !isSupported(version) {
		if s.Strict {
			return errors.New("not supported by this kernel (requires Linux 5.19 or later, with landlock in lsm=)")
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
