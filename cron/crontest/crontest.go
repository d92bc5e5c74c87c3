// Package crontest writes a crontab(1) for tests and for the demo. Neither may
// ever touch the crontab of the user who runs them.
package crontest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// script keeps the table in one file. Like Debian's crontab it supports -l, -r
// and -, prints "no crontab for" if the table is missing, refuses a table without
// a newline at its end, and replaces the table atomically.
const script = `#!/bin/sh
table=%s
case "$#:$1" in
1:-l)
	if [ ! -e "$table" ]; then
		echo "no crontab for ${LOGNAME:-you}" >&2
		exit 1
	fi
	exec cat "$table"
	;;
1:-r)
	exec rm "$table"
	;;
1:-)
	new="$table.$$"
	trap 'rm -f "$new"' EXIT
	cat >"$new" || exit 1
	if [ -n "$(tail -c 1 "$new" | tr '\000' x)" ]; then # $() takes a newline away
		echo "new crontab file is missing newline before EOF, can't install." >&2
		exit 1
	fi
	mv "$new" "$table"
	;;
*)
	echo "usage: crontab -l | -r | -" >&2
	exit 2
	;;
esac
`

// Write writes a program named crontab to dir. It returns the path of the program
// and the path of the file that holds its table. That file does not exist until
// a table is installed or the caller writes it. The program needs a shell and
// coreutils.
func Write(dir string) (command, tablePath string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", "", fmt.Errorf("write a test crontab: %w", err)
	}
	command, tablePath = filepath.Join(dir, "crontab"), filepath.Join(dir, "crontab.table")
	text := fmt.Sprintf(script, "'"+strings.ReplaceAll(tablePath, "'", `'\''`)+"'")
	if err := WriteScript(command, text); err != nil {
		return "", "", err
	}
	return command, tablePath, nil
}

// WriteScript writes an executable file that can be started at once, even while
// other goroutines start processes. A process that is being started holds a copy
// of every open file for a moment, and a program that is open for writing cannot
// be started ("text file busy").
func WriteScript(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		return fmt.Errorf("write a test crontab: %w", err)
	}
	return nil
}
