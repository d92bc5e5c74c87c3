package react

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// systemFolders hold programs and what programs need, but no secrets of users.
var systemFolders = []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/run/systemd/resolve", "/sbin", "/sys", "/usr"}

// devices are files that programs expect to open.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// Confine runs `__confined FOLDER… -- PROGRAM [ARG…]`. It limits this process and
// all that it starts, and becomes the program. From then on they see only the
// folders of the system and those that are named, reach no local socket, have no
// capability, and, from Linux 6.12 on, signal no other process. Confine returns only
// if that fails; nothing was run then.
//
// The limits on files are those of Landlock, of its third version (Linux 6.2),
// because without it a file elsewhere could still be truncated.
func Confine(args []string) error {
	c, argv, err := parseConfined(args)
	if err != nil {
		return err
	}
	// Looked up before the limits apply, because afterwards a folder of PATH may
	// be unreadable.
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	err = landlock.V3.RestrictPaths(
		landlock.RODirs(systemFolders...).IgnoreIfMissing(),
		landlock.RODirs(c.Read...).IgnoreIfMissing(),
		landlock.RWFiles(devices...).IgnoreIfMissing(),
		landlock.RWDirs(c.Write...),
	)
	if err != nil {
		return fmt.Errorf("exec is not available: this kernel cannot confine programs (Landlock): %w", err)
	}
	if err := landlock.V6.BestEffort().RestrictScoped(); err != nil {
		return fmt.Errorf("exec is not available: this kernel cannot confine signals (Landlock): %w", err)
	}
	runtime.LockOSThread() // the thread that becomes the program
	if err := errors.Join(dropCapabilities(), forbidSockets()); err != nil {
		return fmt.Errorf("exec is not available: this kernel cannot confine programs: %w", err)
	}
	return fmt.Errorf("%s: %w", argv[0], unix.Exec(program, argv, os.Environ()))
}
