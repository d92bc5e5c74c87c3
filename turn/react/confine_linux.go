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

// systemFolders are where programs and what they need lie; secrets of users
// do not.
var systemFolders = []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/run/systemd/resolve", "/sbin", "/sys", "/usr"}

// devices are what programs open without a second thought.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// Confine is what `__confined FOLDER… -- PROGRAM [ARG…]` does: from here on this
// process and all that it starts see the system's folders and those that are
// named, reach no local socket, have no capability, and, from Linux 6.12 on,
// signal nobody else; and it becomes the program. It returns only if that fails,
// and then nothing was run. The limits on files are Landlock's (Linux 6.2 and
// later; the third version, without which a file elsewhere could still be
// truncated).
func Confine(args []string) error {
	c, argv, err := parseConfined(args)
	if err != nil {
		return err
	}
	// Looked for before the limits, so that a folder of PATH that cannot be read
	// is not the reason.
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
		return fmt.Errorf("exec is not to be had: this kernel cannot confine programs (Landlock): %w", err)
	}
	if err := landlock.V6.BestEffort().RestrictScoped(); err != nil {
		return fmt.Errorf("exec is not to be had: this kernel cannot confine signals (Landlock): %w", err)
	}
	runtime.LockOSThread() // the one that becomes the program
	if err := errors.Join(dropCapabilities(), forbidSockets()); err != nil {
		return fmt.Errorf("exec is not to be had: this kernel cannot confine programs: %w", err)
	}
	return fmt.Errorf("%s: %w", argv[0], unix.Exec(program, argv, os.Environ()))
}
