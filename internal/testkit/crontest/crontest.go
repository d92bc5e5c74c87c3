// Package crontest provides a crontab(1) for tests and for the demo, and a procfs for tests. A
// test must not touch the crontab of the user who runs it, and must not depend on the cron
// daemon of the machine.
package crontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/testkit"
)

// script keeps the table in one file. Like Debian's crontab it supports -l, -r and -, prints
// "no crontab for" if the table is missing, refuses a table without a newline at its end, and
// replaces the table atomically. The shell itself copies the table, without NUL bytes, which a
// table does not have: tests call it thousands of times.
const script = `#!/bin/sh
table=%s
export LC_ALL=C
copy() {
	while IFS= read -r line; do
		printf '%%s\n' "$line" || exit 1
	done
	printf '%%s' "$line" # a last line without a newline
	[ -z "$line" ]
}
case "$#:$1" in
1:-l)
	if [ ! -e "$table" ]; then
		echo "no crontab for ${LOGNAME:-you}" >&2
		exit 1
	fi
	copy <"$table"
	exit 0
	;;
1:-r)
	exec rm "$table"
	;;
1:-)
	new="$table.$$"
	if ! copy >"$new"; then
		rm -f "$new"
		echo "new crontab file is missing newline before EOF, can't install." >&2
		exit 1
	fi
	exec mv "$new" "$table"
	;;
*)
	echo "usage: crontab -l | -r | -" >&2
	exit 2
	;;
esac
`

// Write writes a program named crontab to dir. It returns the path of the program and the path
// of its table file. The file does not exist until a table is installed or the caller writes
// it. The program needs a shell and coreutils.
func Write(dir string) (command, tablePath string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", "", fmt.Errorf("write a test crontab: %w", err)
	}
	command, tablePath = filepath.Join(dir, "crontab"), filepath.Join(dir, "crontab.table")
	text := fmt.Sprintf(script, "'"+strings.ReplaceAll(tablePath, "'", `'\''`)+"'")
	if err := testkit.WriteProgram(command, text); err != nil {
		return "", "", fmt.Errorf("write a test crontab: %w", err)
	}
	return command, tablePath, nil
}

// Play returns the Run of a [agentstateloop/cron.Table] with the program and the table from
// Write. Like the program, it reads and writes the table, but without a process, and a missing
// table is not an error. It starts the program when the program would fail or remove the table.
// It also starts every other program.
func Play(command, table string) func(context.Context, *exec.Cmd, capture.Limits) (capture.Printed, error) {
	return func(ctx context.Context, cmd *exec.Cmd, most capture.Limits) (capture.Printed, error) {
		if cmd.Path == command && ctx.Err() == nil {
			switch strings.Join(cmd.Args[1:], " ") {
			case "-l":
				text, err := os.ReadFile(table)
				if os.IsNotExist(err) {
					return capture.Printed{Stderr: []byte("no crontab for you\n")}, nil
				}
				if err == nil && len(text) <= most.Stdout {
					return capture.Printed{Stdout: bytes.ReplaceAll(text, []byte{0}, nil)}, nil
				}
			case "-":
				if stdin, ok := cmd.Stdin.(*os.File); ok && replace(table, stdin) {
					return capture.Printed{}, nil
				}
			}
		}
		return capture.Run(ctx, cmd, most)
	}
}

// number makes the names of new tables unique.
var number atomic.Int64

// replace installs the text of stdin as the table. It returns false if the program would refuse
// the table; then stdin can be read again.
func replace(table string, stdin *os.File) bool {
	text, err := io.ReadAll(stdin)
	if err == nil && (len(text) == 0 || text[len(text)-1] == '\n') {
		made := fmt.Sprintf("%s.%d", table, number.Add(1))
		if os.WriteFile(made, text, 0o600) == nil && os.Rename(made, table) == nil {
			return true
		}
	}
	_, _ = stdin.Seek(0, io.SeekStart) // the program reports the error
	return false
}

// WriteProc writes the processes of a machine with cron, in the form of procfs: init is process
// 1, and cron is process 7. It returns the folder.
func WriteProc(dir string) (proc string, err error) {
	proc = filepath.Join(dir, "proc")
	for pid, cmdline := range map[string]string{"1": "/sbin/init\x00", "7": "/usr/sbin/cron\x00-f\x00"} {
		folder := filepath.Join(proc, pid)
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "cmdline"), []byte(cmdline), 0o600)); err != nil {
			return "", fmt.Errorf("write a test procfs: %w", err)
		}
	}
	return proc, nil
}
