package cron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cron/crontest"
)

const foreign = "MAILTO=me@example.com\r\n# caf\xe9\n0 5 * * * backup\n"

// newTable returns a Table over a crontab program of its own, and the path of
// the file behind it. mood, if any, is sh that runs before the true program,
// which it finds as $real and may run itself; the table is in $table, and
// $dir is for its notes.
func newTable(t *testing.T, mood string) (Table, string) {
	t.Helper()
	dir := t.TempDir()
	command, path, err := crontest.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	if mood != "" {
		moody := filepath.Join(dir, "moody")
		text := fmt.Sprintf("#!/bin/sh\ndir='%s' real='%s' table='%s'\n%s\nexec \"$real\" \"$@\"\n", dir, command, path, mood)
		if err := crontest.WriteScript(moody, text); err != nil {
			t.Fatal(err)
		}
		command = moody
	}
	return Table{
		Command: command,
		Lock:    filepath.Join(dir, "locks", "crontab.lock"),
		Backup:  filepath.Join(dir, "backups"),
		Timeout: 20 * time.Second,
	}, path
}

func put(t *testing.T, path, table string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s:\ngot  %q\nwant %q", filepath.Base(path), got, want)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one with %q", err, part)
		}
	}
}

func TestInstallAndRemove(t *testing.T) {
	table, path := newTable(t, "")
	put(t, path, foreign)
	j := job("goulard3120")

	change, err := table.Install(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, foreign+ours+"\n")
	if !change.Wrote || change.Line != ours || string(change.Before) != foreign || string(change.After) != foreign+ours+"\n" {
		t.Errorf("change: %+v", change)
	}
	wantFile(t, change.Backup, foreign)
	for _, file := range []string{change.Backup, table.Lock} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", file, info.Mode(), err)
		}
	}

	j.Interval = time.Minute
	if _, err := table.Install(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, foreign+mustLine(t, j)+"\n")

	change, err = table.Remove(t.Context(), "goulard3120")
	if err != nil || !change.Wrote || change.Line != "" {
		t.Errorf("Remove: %+v, %v", change, err)
	}
	wantFile(t, path, foreign)
}

// The first install finds no table, and the last removal leaves none.
func TestFromNothingToNothing(t *testing.T) {
	table, path := newTable(t, "")
	change, err := table.Install(t.Context(), job("goulard3120"))
	if err != nil || change.Backup != "" {
		t.Fatalf("Install: %+v, %v", change, err)
	}
	wantFile(t, path, ours+"\n")
	if _, err := table.Remove(t.Context(), "goulard3120"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the table is still there: %v", err)
	}
	if change, err := table.Remove(t.Context(), "goulard3120"); err != nil || change.Wrote {
		t.Errorf("Remove of nothing: %+v, %v", change, err)
	}
}

// The line is compared before it is written: a steady table is only read.
func TestEqualIsNotWritten(t *testing.T) {
	table, path := newTable(t, `[ "$1" = -l ] || { echo "$@" >>"$dir/writes"; exit 1; }`)
	put(t, path, "a\n"+ours+"\nno newline")
	change, err := table.Install(t.Context(), job("goulard3120"))
	if err != nil || change.Wrote || change.Diff() != "" {
		t.Errorf("Install: %+v, %v", change, err)
	}
	if change, err := table.Remove(t.Context(), "another"); err != nil || change.Wrote {
		t.Errorf("Remove: %+v, %v", change, err)
	}
	wantFile(t, path, "a\n"+ours+"\nno newline")
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "writes")); err == nil {
		t.Error("crontab was asked to write")
	}
}

func TestPreviewWritesNothing(t *testing.T) {
	table, path := newTable(t, `[ "$1" = -l ] || exit 1`)
	put(t, path, foreign)
	change, err := table.Preview(t.Context(), job("goulard3120"))
	if err != nil {
		t.Fatal(err)
	}
	if change.Wrote || string(change.After) != foreign+ours+"\n" || change.Line != ours {
		t.Errorf("change: %+v", change)
	}
	for _, made := range []string{table.Lock, table.Backup} {
		if _, err := os.Stat(made); err == nil {
			t.Errorf("Preview made %s", made)
		}
	}
}

// A table with no newline at its end can only be installed with one.
func TestNoFinalNewline(t *testing.T) {
	table, path := newTable(t, "")
	put(t, path, "a\n"+strings.Replace(ours, "30", "1", 1)+"\nb")
	if _, err := table.Install(t.Context(), job("goulard3120")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "a\n"+ours+"\nb\n")
}

func TestNoCrontab(t *testing.T) {
	for _, says := range []string{
		"echo 'no crontab for root' >&2; exit 1",        // Debian, cronie
		"echo 'crontab: no crontab for me' >&2; exit 1", // BSD, macOS
		"echo 'ld.so: hm' >&2; echo 'no crontab for a-b' >&2; exit 1",
		`echo "crontab: can't open 'root': No such file or directory" >&2; exit 1`, // BusyBox
		"exit 0", // an empty table
	} {
		table, _ := newTable(t, says)
		if got, err := table.Read(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%s: %q, %v; want an empty table", says, got, err)
		}
	}
}

// What cannot be read is not empty: nothing is written over it.
func TestUnreadableIsNotEmpty(t *testing.T) {
	for _, tt := range []struct {
		name, mood string
		is         error
		want       string
	}{
		{"exit 1", "exit 1", nil, "exit status 1"},
		{"a table, and exit 1", "echo 'A=b'; exit 1", nil, "exit status 1"},
		{"part of a table, then no crontab", "echo 'A=b'; echo 'no crontab for me' >&2; exit 1", nil, "no crontab for me"},
		{"no table, but a reason", "echo 'crontab: Input/output error' >&2", nil, "Input/output error"},
		{"no crontab, but why", "echo 'no crontab for me: Permission denied' >&2; exit 1", nil, "Permission denied"},
		{"another language", "echo 'kein crontab für mich' >&2; exit 1", nil, "kein crontab"},
		{"not allowed on Debian", "echo 'You (me) are not allowed to use this program (crontab)' >&2; exit 1", ErrNotAllowed, "cron.allow"},
		{"not allowed by PAM", "echo 'You (me) are not allowed to access to (crontab) because of pam configuration.' >&2; exit 1", ErrNotAllowed, "pam"},
		{"killed", "echo 'no crontab for me' >&2; kill -9 $$", nil, "killed"},
		{"no end of it", "exec yes", nil, "printed over"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, path := newTable(t, `if [ "$1" = -l ]; then `+tt.mood+"; exit; fi")
			put(t, path, foreign)
			for name, do := range map[string]func() error{
				"Read":    func() error { _, err := table.Read(t.Context()); return err },
				"Install": func() error { _, err := table.Install(t.Context(), job("goulard3120")); return err },
				"Remove":  func() error { _, err := table.Remove(t.Context(), "goulard3120"); return err },
				"Preview": func() error { _, err := table.Preview(t.Context(), job("goulard3120")); return err },
			} {
				err := do()
				wantError(t, err, tt.want)
				if tt.is != nil && !errors.Is(err, tt.is) || tt.is == nil && (errors.Is(err, ErrNotAllowed) || errors.Is(err, ErrNoProgram)) {
					t.Errorf("%s: %v; want %v", name, err, tt.is)
				}
			}
			wantFile(t, path, foreign)
		})
	}
}

func TestNoProgram(t *testing.T) {
	table, _ := newTable(t, "")
	for _, command := range []string{filepath.Join(t.TempDir(), "crontab"), "no-such-crontab-program"} {
		table.Command = command
		if _, err := table.Read(t.Context()); !errors.Is(err, ErrNoProgram) {
			t.Errorf("%s: %v; want ErrNoProgram", command, err)
		}
	}
}

// crontab(1) speaks the C locale, whatever ours is.
func TestLocale(t *testing.T) {
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("LANGUAGE", "de")
	table, _ := newTable(t, `[ "$LC_ALL" = C ] || { echo 'kein crontab' >&2; exit 1; }`)
	if _, err := table.Read(t.Context()); err != nil {
		t.Error(err)
	}
}

// A crontab that hangs is ended with all its children, and in time.
func TestHang(t *testing.T) {
	withTime(t, func(timeout time.Duration) bool {
		table, path := newTable(t, `
mkfifo "$dir/never"
( trap '' TERM; echo "$$" >"$dir/leader.new"; mv "$dir/leader.new" "$dir/leader"; cat "$dir/never" ) &
cat "$dir/never"`)
		table.Timeout = timeout
		_, err := table.Read(t.Context())
		wantError(t, err, fmt.Sprintf("no end after %v", timeout))
		leader := filepath.Join(filepath.Dir(path), "leader")
		if _, err := os.Stat(leader); err != nil {
			return false
		}
		wantGroupEnded(t, leader)
		return true
	})
}

// withTime makes one attempt after another, with ever more time, until one came
// as far as the test wants to see it: how soon that is is the machine's affair.
func withTime(t *testing.T, far func(timeout time.Duration) bool) {
	t.Helper()
	for timeout := 500 * time.Millisecond; !far(timeout); timeout *= 2 {
		if timeout > 20*time.Second {
			t.Fatalf("not even with %v", timeout)
		}
	}
}

// Nor may a child that outlives crontab hold us, or live on.
func TestHangingChild(t *testing.T) {
	table, path := newTable(t, `
mkfifo "$dir/never"
cat "$dir/never" &
echo "$$" >"$dir/leader"
exit 0`)
	_, err := table.Read(t.Context())
	wantError(t, err, "WaitDelay")
	wantGroupEnded(t, filepath.Join(filepath.Dir(path), "leader"))
}

func wantGroupEnded(t *testing.T, pidFile string) {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	var group int
	if _, err := fmt.Sscan(string(text), &group); err != nil {
		t.Fatal(err)
	}
	// The killed processes are gone as soon as init has collected them.
	for t.Context().Err() == nil && alive(group) {
	}
}

// alive says whether a process of the group is more than a zombie.
func alive(group int) bool {
	if syscall.Kill(-group, 0) != nil {
		return false
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		_, after, _ := bytes.Cut(text, []byte(") "))
		fields := strings.Fields(string(after))
		if len(fields) > 2 && fields[2] == fmt.Sprint(group) && fields[0] != "Z" {
			return true
		}
	}
	return false
}

func TestContextEnds(t *testing.T) {
	table, _ := newTable(t, `mkfifo "$dir/never"; cat "$dir/never"`)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the cycle is over"))
	if _, err := table.Read(ctx); err == nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "the cycle is over") {
		t.Errorf("Read: %v", err)
	}
}

// A cycle that is told to stop while crontab writes lets it finish, and still
// looks at what was written.
func TestContextEndsWhileWriting(t *testing.T) {
	table, path := newTable(t, `[ "$1" = - ] && cat "$dir/gate"`)
	put(t, path, foreign)
	gate := filepath.Join(filepath.Dir(path), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		file, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits for crontab to read
		cancel()
		if err == nil {
			err = file.Close()
		}
		opened <- err
	}()
	change, err := table.Install(ctx, job("goulard3120"))
	if err != nil || !change.Wrote {
		t.Errorf("Install: %+v, %v", change, err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	wantFile(t, path, foreign+ours+"\n")
}

// Writing goes wrong in many ways; each time one of the two tables is there
// afterwards, and the error says which.
func TestWriteGoesWrong(t *testing.T) {
	for _, tt := range []struct{ name, mood, want string }{
		{"refused", `[ "$1" = - ] && { echo 'errors in crontab file' >&2; exit 1; }`, "the table is as it was"},
		{"not written, exit 0", `[ "$1" = - ] && exit 0`, "the table is as it was"},
		{"truncated", `if [ "$1" = - ] && [ ! -e "$dir/once" ]; then : >"$dir/once"; head -c 20 >"$table"; exit 0; fi`, "the old table was put back"},
		{"emptied", `if [ "$1" = - ] && [ ! -e "$dir/once" ]; then : >"$dir/once"; : >"$table"; exit 1; fi`, "the old table was put back"},
		{"lines lost", `if [ "$1" = - ] && [ ! -e "$dir/once" ]; then : >"$dir/once"; grep -a agentstateloop >"$table"; exit 0; fi`, "the old table was put back"},
		{"hangs, having written", `if [ "$1" = - ] && [ ! -e "$dir/once" ]; then : >"$dir/once"; echo x >"$table"; mkfifo "$dir/never"; cat "$dir/never"; fi`, "the old table was put back"},
		{"cannot be read afterwards", `if [ "$1" = - ]; then : >"$dir/wrote"; fi
			if [ "$1" = -l ] && [ -e "$dir/wrote" ] && [ ! -e "$dir/twice" ]; then : >"$dir/twice"; exit 1; fi`, "the old table was put back"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hangs := strings.HasPrefix(tt.name, "hangs")
			var path string
			var change Change
			var err error
			withTime(t, func(timeout time.Duration) bool {
				var table Table
				table, path = newTable(t, tt.mood)
				if hangs {
					table.Timeout = timeout
				}
				put(t, path, foreign)
				change, err = table.Install(t.Context(), job("goulard3120"))
				return !hangs || err == nil || strings.Contains(err.Error(), tt.want)
			})
			wantError(t, err, "install crontab line of goulard3120", tt.want)
			wantFile(t, path, foreign)
			wantFile(t, change.Backup, foreign)
			if change.Wrote {
				t.Error("Wrote is set")
			}
		})
	}
}

func TestRestoreWithoutFinalNewline(t *testing.T) {
	table, path := newTable(t, `if [ "$1" = - ] && [ ! -e "$dir/once" ]; then : >"$dir/once"; : >"$table"; exit 1; fi`)
	put(t, path, "a\nb")
	_, err := table.Install(t.Context(), job("goulard3120"))
	wantError(t, err, "the old table was put back")
	wantFile(t, path, "a\nb\n")
}

// A write that did what it should is a good one, whatever the exit code.
func TestWrittenInSpiteOfTheExitCode(t *testing.T) {
	table, path := newTable(t, `[ "$1" = - ] && { "$real" -; exit 1; }`)
	put(t, path, foreign)
	if change, err := table.Install(t.Context(), job("goulard3120")); err != nil || !change.Wrote {
		t.Errorf("Install: %+v, %v", change, err)
	}
	wantFile(t, path, foreign+ours+"\n")
}

// When even the restoration fails, the user's lines are in a backup that the
// error names, and later writes do not push it out.
func TestRestorationFails(t *testing.T) {
	table, path := newTable(t, `[ "$1" = - ] && { echo '0 0 * * * mangled' >"$table"; exit 0; }`)
	put(t, path, foreign)
	change, err := table.Install(t.Context(), job("goulard3120"))
	wantError(t, err, "could NOT be put back", change.Backup)
	for i := range keepBackups + 1 {
		j := job("goulard3120")
		j.Config = fmt.Sprintf("/c%d", i)
		put(t, path, mustLine(t, j)+"\n0 0 * * * mangled\n")
		if _, err := table.Remove(t.Context(), "goulard3120"); err != nil {
			t.Fatal(err)
		}
	}
	wantFile(t, change.Backup, foreign)
}

// Somebody who saved his own table between our write and our look has it kept
// beside ours.
func TestFoundInsteadIsKept(t *testing.T) {
	table, path := newTable(t, `if [ "$1" = - ] && [ ! -e "$dir/once" ]; then : >"$dir/once"; echo '1 1 * * * edited' >"$table"; exit 0; fi`)
	put(t, path, foreign)
	_, err := table.Install(t.Context(), job("goulard3120"))
	_, kept, _ := strings.Cut(fmt.Sprint(err), "is kept: ")
	wantFile(t, strings.TrimSuffix(kept, ")"), "1 1 * * * edited\n")
}

func TestBackupFails(t *testing.T) {
	table, path := newTable(t, "")
	put(t, path, foreign)
	put(t, table.Backup, "a file where the folder should be")
	_, err := table.Install(t.Context(), job("goulard3120"))
	wantError(t, err, "nothing was written")
	wantFile(t, path, foreign)
}

func TestBackupsAreCapped(t *testing.T) {
	table, path := newTable(t, "")
	for i := range keepBackups + 3 {
		put(t, path, fmt.Sprintf("0 %d * * * x\n", i))
		if _, err := table.Install(t.Context(), job("goulard3120")); err != nil {
			t.Fatal(err)
		}
	}
	backups, err := filepath.Glob(filepath.Join(table.Backup, "*"))
	if err != nil || len(backups) != keepBackups {
		t.Errorf("%d backups, %v; want %d and nothing else", len(backups), err, keepBackups)
	}
	hidden, err := filepath.Glob(filepath.Join(table.Backup, ".*"))
	if err != nil || len(hidden) != 0 {
		t.Errorf("left behind: %v, %v", hidden, err)
	}
}

// The lock is shared: while somebody holds it nothing is read or written, and
// the wait has an end.
func TestLockIsHeld(t *testing.T) {
	table, path := newTable(t, "")
	put(t, path, foreign)
	unlock, err := table.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	impatient := table
	impatient.Timeout = 50 * time.Millisecond
	_, err = impatient.Install(t.Context(), job("goulard3120"))
	wantError(t, err, "lock crontab", table.Lock)
	wantFile(t, path, foreign)
	unlock()
	if _, err := table.Install(t.Context(), job("goulard3120")); err != nil {
		t.Error(err)
	}
}

// Twenty agents at once lose no line, theirs or the user's.
func TestManyAgents(t *testing.T) {
	table, path := newTable(t, "")
	table.Timeout = time.Minute
	put(t, path, foreign)
	var all sync.WaitGroup
	want := foreign
	for i := range 20 {
		j := job(fmt.Sprintf("agent%d", i))
		want += mustLine(t, j) + "\n"
		all.Go(func() {
			if _, err := table.Install(t.Context(), j); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, []byte(foreign)) || len(got) != len(want) {
		t.Errorf("the table is %d bytes, want %d:\n%s", len(got), len(want), got)
	}
	for i := range 20 {
		if n := len(Find(got, fmt.Sprintf("agent%d", i))); n != 1 {
			t.Errorf("agent%d has %d lines", i, n)
		}
	}
}

const header = "# DO NOT EDIT THIS FILE - edit the master and reinstall.\n# (- installed on Fri Nov 20 17:43:25 2026)\n# (Cron version -- $Id: crontab.c,v 2.13 1994/01/17 03:20:37 vixie Exp $)\n"

// writesHeader is a crontab that puts a header of its own on every table.
const writesHeader = `printf '%s' '` + header + `' >"$dir/header"
if [ "$1" = - ]; then
	cat "$dir/header" - >"$dir/whole"
	exec "$real" - <"$dir/whole"
fi
`

// hidesComments does as Debian's: comments in the first three lines are not
// shown unless CRONTAB_NOHEADER is N.
const hidesComments = writesHeader + `
if [ "$1" = -l ] && [ -e "$table" ] && [ "$CRONTAB_NOHEADER" != N ]; then
	exec awk 'NR <= 3 && !text && /^#/ { next } { text = 1; print }' "$table"
fi
`

func TestHeaderShown(t *testing.T) {
	for _, mine := range []string{"", header} { // one that the user pasted is a foreign line
		table, path := newTable(t, writesHeader)
		put(t, path, header+mine+foreign)
		j := job("goulard3120")
		for _, interval := range []time.Duration{time.Minute, 30 * time.Minute, time.Minute, 30 * time.Minute} {
			j.Interval = interval
			if change, err := table.Install(t.Context(), j); err != nil || !change.Wrote {
				t.Fatalf("Install: %+v, %v", change, err)
			}
		}
		wantFile(t, path, header+mine+foreign+ours+"\n")
		if _, err := table.Remove(t.Context(), j.Agent); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, header+mine+foreign)
	}
}

func TestHeaderHidden(t *testing.T) {
	for _, tt := range []struct{ name, raw, before string }{
		{"its own header", header + foreign, foreign},
		{"a pasted header below", header + header + foreign, header + foreign},
		{"comments that it hid", "# mine\n# too\n" + foreign, "# mine\n# too\n" + foreign},
		{"nothing but comments", "# a\n# b\n", "# a\n# b\n"},
		{"more comments than it hides", "# a\n# b\n# c\n# d\n" + foreign, "# a\n# b\n# c\n# d\n" + foreign},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, path := newTable(t, hidesComments)
			put(t, path, tt.raw)
			change, err := table.Install(t.Context(), job("goulard3120"))
			if err != nil || string(change.Before) != tt.before {
				t.Errorf("Install: before %q, %v; want %q", change.Before, err, tt.before)
			}
			wantFile(t, path, header+tt.before+ours+"\n")
		})
	}
}

// printsEscapes prints carriage returns as Debian's crontab does.
const printsEscapes = `
[ "$1" = -l ] && [ -e "$table" ] && exec sed "s/$(printf '\r')/\\\\r/g" "$table"
`

// A table is not written while the listing leaves open which bytes it holds.
func TestEscapesAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, mood, table, want string }{
		{"a carriage return", printsEscapes, "A=b\n0 5 * * * backup\r\n", `line 2 of "crontab -l"`},
		{"our line, saved with a carriage return", printsEscapes, ours + "\r\n", `line 1 of "crontab -l"`},
		{"the letters themselves", "", "0 5 * * * printf 'a\\r'\n" + ours + "\n", `line 1 of "crontab -l"`},
		{"a backspace's letters", "", "A=b\n\n0 5 * * * grep '\\bx'\n", `line 3 of "crontab -l"`},
		{"in a hidden comment", hidesComments, "# \\r\nA=b\n", "hides comments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, path := newTable(t, tt.mood)
			put(t, path, tt.table)
			j := job("goulard3120")
			j.Interval = time.Minute
			change, err := table.Install(t.Context(), j)
			wantError(t, err, tt.want, "nothing was written", `run "crontab -e"`)
			if change.Wrote {
				t.Error("Wrote is set")
			}
			if _, err := table.Preview(t.Context(), j); tt.mood != hidesComments {
				wantError(t, err, tt.want)
			}
			wantFile(t, path, tt.table)
		})
	}
}

// Escapes do no harm where nothing is to be written, or in a line that is
// replaced whole.
func TestEscapesThatDoNotMatter(t *testing.T) {
	table, path := newTable(t, "")
	text := "0 5 * * * printf 'a\\r'\n" + ours + "\n"
	put(t, path, text)
	if change, err := table.Install(t.Context(), job("goulard3120")); err != nil || change.Wrote {
		t.Errorf("Install of the line that is there: %+v, %v", change, err)
	}
	if change, err := table.Remove(t.Context(), "another"); err != nil || change.Wrote {
		t.Errorf("Remove of a line that is not there: %+v, %v", change, err)
	}
	wantFile(t, path, text)

	j := job("goulard3120")
	j.Config = `/abs\retc/agent.toml`
	put(t, path, mustLine(t, j)+"\n")
	if change, err := table.Install(t.Context(), job("goulard3120")); err != nil || !change.Wrote {
		t.Errorf("Install over a path with a backslash: %+v, %v", change, err)
	}
	wantFile(t, path, ours+"\n")
}

// Two looks that do not fit together are no ground to write on.
func TestTwoReadingsDiffer(t *testing.T) {
	table, path := newTable(t, `[ "$1" = -l ] && [ "$CRONTAB_NOHEADER" != N ] && exec head -n 1 "$table"`)
	put(t, path, foreign)
	_, err := table.Install(t.Context(), job("goulard3120"))
	wantError(t, err, "it differed", "nothing was written")
	wantFile(t, path, foreign)
}
