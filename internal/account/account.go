// Package account finds the user who runs the program.
package account

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// testHome names an environment variable that replaces the home directory. Only the tests of
// the built program set it, by a flag of the linker: they must not write into the home
// directory of the user who runs them.
var testHome string

// Account is the user who runs the program.
type Account struct {
	Name  string // "" if both passwd and USER lack it
	Home  string // an absolute path
	Known bool   // passwd lists the user
}

// Current returns the account of this process's user id. Passwd decides, because cron, shells
// and daemons agree on it, but not on HOME. A container may run under a user id that passwd
// does not list: then HOME and USER count. If passwd cannot be read, HOME does not count,
// because it may lead to another place than the agent's files.
func Current() (Account, error) {
	if home := os.Getenv(testHome); testHome != "" && home != "" {
		return Account{Name: os.Getenv("USER"), Home: home, Known: true}, nil
	}
	id := os.Getuid()
	u, err := user.LookupId(strconv.Itoa(id))
	if _, unknown := errors.AsType[user.UnknownUserIdError](err); unknown || errors.Is(err, fs.ErrNotExist) {
		return fromEnvironment(id, os.Getenv)
	}
	if err != nil {
		return Account{}, fmt.Errorf("look up user %d in passwd: %w", id, err)
	}
	if u.HomeDir == "" {
		return Account{}, fmt.Errorf("user %s has no home directory in passwd", u.Username)
	}
	return Account{Name: u.Username, Home: u.HomeDir, Known: true}, nil
}

// Environ returns the known ones of HOME, USER and LOGNAME for a program of the user.
func Environ() map[string]string {
	u, err := Current()
	if err != nil {
		return nil
	}
	env := map[string]string{"HOME": u.Home}
	if u.Name != "" {
		env["USER"], env["LOGNAME"] = u.Name, u.Name
	}
	return env
}

func fromEnvironment(id int, env func(string) string) (Account, error) {
	home := env("HOME")
	switch {
	case home == "":
		return Account{}, fmt.Errorf("user %d is not in passwd, and HOME is not set", id)
	case !filepath.IsAbs(home):
		return Account{}, fmt.Errorf("user %d is not in passwd, and HOME is %q, not an absolute path", id, home)
	}
	return Account{Name: env("USER"), Home: filepath.Clean(home)}, nil
}
