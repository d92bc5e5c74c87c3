package react

import (
	"fmt"
	"os"
	"os/exec"

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
// named, and it becomes the program. It returns only if that fails, and then
// nothing was run. The limits are Landlock's (Linux 6.2 and later; the third
// version, without which a file elsewhere could still be truncated).
func Confine(args []string) error {
	c, argv, err := unlist(args)
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
	return fmt.Errorf("%s: %w", argv[0], unix.Exec(program, argv, os.Environ()))
}
