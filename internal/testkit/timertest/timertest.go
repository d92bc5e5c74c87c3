// Package timertest provides a systemctl(1), launchctl(1) and loginctl(1) for tests, which must
// not touch the service manager of the user who runs them. They are real programs with a memory:
// which units are loaded and active.
package timertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentstateloop/internal/testkit"
)

// The faults of a Manager.
const (
	NoBus = "nobus" // no service manager of the user is running
	Hang  = "hang"  // programs do not end
	Deny  = "deny"  // calls fail
)

// prologue begins each program: it records the call, and behaves as the fault says.
const prologue = `#!/bin/sh
export LC_ALL=C
dir=%s
home=%s
echo "${0##*/} $*" >>"$dir/calls"
case "$(cat "$dir/fault")" in
nobus)
	echo "Failed to connect to bus: No medium found" >&2
	exit 1
	;;
hang)
	exec sleep 1000
	;;
deny)
	echo "Access denied" >&2
	exit 1
	;;
esac
`

// systemctl knows the units of the last daemon-reload, as systemd does.
const systemctl = `units=$home/.config/systemd/user
[ "$1" = --user ] || exit 2
shift
for name; do :; done
case "$1" in
daemon-reload)
	rm -rf "$dir/loaded"
	mkdir "$dir/loaded"
	for unit in "$units"/*.service "$units"/*.timer; do
		if [ -f "$unit" ]; then cp "$unit" "$dir/loaded"; fi
	done
	;;
enable)
	if [ ! -e "$dir/loaded/$name" ]; then
		echo "Failed to enable unit: Unit file $name does not exist." >&2
		exit 1
	fi
	mkdir -p "$units/timers.target.wants"
	ln -sf "$units/$name" "$units/timers.target.wants/$name"
	touch "$dir/active/$name"
	;;
disable)
	if [ ! -e "$units/$name" ]; then
		echo "Failed to disable unit: Unit file $name does not exist." >&2
		exit 1
	fi
	rm -f "$units/timers.target.wants/$name" "$dir/active/$name"
	;;
is-active)
	[ -e "$dir/active/$name" ] || exit 3
	;;
show | show-environment)
	[ ! -e "$dir/environment" ] || cat "$dir/environment"
	;;
reset-failed) ;;
*)
	exit 2
	;;
esac
`

// launchctl knows the session gui/UID and the agents that were bootstrapped into it.
const launchctl = `case "$1" in
print)
	case "$2" in
	*/*/*) [ -e "$dir/active/${2##*/}" ] || exit 113 ;;
	gui/*) ;;
	*) exit 113 ;;
	esac
	;;
enable) ;;
bootstrap)
	name=${3##*/}
	name=${name%.plist}
	if [ ! -e "$3" ] || [ -e "$dir/active/$name" ]; then
		echo "Bootstrap failed: 5: Input/output error" >&2
		exit 5
	fi
	touch "$dir/active/$name"
	;;
bootout)
	if [ ! -e "$dir/active/${2##*/}" ]; then
		echo "Boot-out failed: 3: No such process" >&2
		exit 3
	fi
	rm "$dir/active/${2##*/}"
	;;
*)
	exit 2
	;;
esac
`

const loginctl = `cat "$dir/linger"
`

// Manager is the service manager of a user with the home directory Home.
type Manager struct{ Dir, Home string }

// New writes the programs to dir/bin. The user does not linger, and no unit is active.
func New(dir, home string) (Manager, error) {
	m := Manager{Dir: dir, Home: home}
	for _, folder := range []string{m.Bin(), filepath.Join(dir, "active"), filepath.Join(dir, "loaded")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return m, err
		}
	}
	begin := fmt.Sprintf(prologue, quote(dir), quote(home))
	return m, errors.Join(
		testkit.WriteProgram(filepath.Join(m.Bin(), "systemctl"), begin+systemctl),
		testkit.WriteProgram(filepath.Join(m.Bin(), "launchctl"), begin+launchctl),
		testkit.WriteProgram(filepath.Join(m.Bin(), "loginctl"), begin+loginctl),
		m.Fail(""), m.write("linger", "no\n"), m.write("calls", ""),
	)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Bin returns the folder of the programs, for PATH.
func (m Manager) Bin() string { return filepath.Join(m.Dir, "bin") }

// Fail makes all programs fail in this way, or work again for "".
func (m Manager) Fail(fault string) error { return m.write("fault", fault) }

// Active returns the names of the active units, sorted.
func (m Manager) Active() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(m.Dir, "active"))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Calls returns the command lines since the last call of Calls.
func (m Manager) Calls() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(m.Dir, "calls"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), m.write("calls", "")
}

func (m Manager) write(name, text string) error {
	return os.WriteFile(filepath.Join(m.Dir, name), []byte(text), 0o600)
}
