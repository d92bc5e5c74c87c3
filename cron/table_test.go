package cron

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
)

const foreign = "MAILTO=me@example.com\r\n# caf\xe9\n0 5 * * * backup\n"

// newTable returns a Table with its own crontab program, and the path of the file of the table. quirk,
// if not empty, is shell code that runs before the program. It can use $real, the program; $table, the
// file; and $dir, a folder.
func newTable(t *testing.T, quirk string) (Table, string) {
	t.Helper()
	dir := t.TempDir()
	command, path, err := crontest.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	if quirk != "" {
		wrapper := filepath.Join(dir, "wrapper")
		text := fmt.Sprintf("#!/bin/sh\ndir='%s' real='%s' table='%s'\n%s\nexec \"$real\" \"$@\"\n", dir, command, path, quirk)
		if err := testkit.WriteProgram(wrapper, text); err != nil {
			t.Fatal(err)
		}
		command = wrapper
	}
	return Table{
		Command: command,
		Lock:    filepath.Join(dir, "locks", "crontab.lock"),
		Backup:  filepath.Join(dir, "backups"),
		Timeout: 20 * time.Second,
	}, path
}

// firstWrite returns a quirk that runs a script in the place of the first write.
func firstWrite(script string) string {
	return `if [ "$1" = - ] && [ ! -e "$dir/once" ]; then : >"$dir/once"; ` + script + `; fi`
}

func install(t *testing.T, table Table, j Job) Change {
	t.Helper()
	change, err := table.Install(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

func remove(t *testing.T, table Table, agent string) {
	t.Helper()
	if _, err := table.Remove(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
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

	change := install(t, table, j)
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
	install(t, table, j)
	wantFile(t, path, foreign+mustLine(t, j)+"\n")

	change, err := table.Remove(t.Context(), "goulard3120")
	if err != nil || !change.Wrote || change.Line != "" {
		t.Errorf("Remove: %+v, %v", change, err)
	}
	wantFile(t, path, foreign)
}

// TestFirstInstallAndLastRemove checks that the first install makes the table, and that the last removal
// removes it.
func TestFirstInstallAndLastRemove(t *testing.T) {
	table, path := newTable(t, "")
	change, err := table.Install(t.Context(), job("goulard3120"))
	if err != nil || change.Backup != "" {
		t.Fatalf("Install: %+v, %v", change, err)
	}
	wantFile(t, path, ours+"\n")
	remove(t, table, "goulard3120")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the table is still there: %v", err)
	}
	if change, err := table.Remove(t.Context(), "goulard3120"); err != nil || change.Wrote {
		t.Errorf("another Remove: %+v, %v", change, err)
	}
}

// TestSkipsUnchangedTable checks that a table that has the line already is only read.
func TestSkipsUnchangedTable(t *testing.T) {
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
		t.Error("the table was written")
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

// TestMissingFinalNewline checks that a write and the restoration of a table accept the newline that
// crontab adds at its end.
func TestMissingFinalNewline(t *testing.T) {
	table, path := newTable(t, "")
	put(t, path, "a\n"+strings.Replace(ours, "30", "1", 1)+"\nb")
	install(t, table, job("goulard3120"))
	wantFile(t, path, "a\n"+ours+"\nb\n")

	table, path = newTable(t, firstWrite(`: >"$table"; exit 1`))
	put(t, path, "a\nb")
	_, err := table.Install(t.Context(), job("goulard3120"))
	wantError(t, err, "the old table was restored")
	wantFile(t, path, "a\nb\n")
}

func TestReadMissingTable(t *testing.T) {
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

// TestKeepsUnreadableTable checks that a table that cannot be read does not count as empty and is not
// written.
func TestKeepsUnreadableTable(t *testing.T) {
	for _, tt := range []struct {
		name, quirk string
		is          error
		want        string
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
		{"endless output", "exec yes", nil, "output exceeds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, path := newTable(t, `if [ "$1" = -l ]; then `+tt.quirk+"; exit; fi")
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

// TestInstallFailures checks that the old table is installed after each fault of a write, and that the
// error reports it.
func TestInstallFailures(t *testing.T) {
	for _, tt := range []struct{ name, quirk, want string }{
		{"refused", `[ "$1" = - ] && { echo 'errors in crontab file' >&2; exit 1; }`, "the table is unchanged"},
		{"not written, exit 0", `[ "$1" = - ] && exit 0`, "the table is unchanged"},
		{"truncated", firstWrite(`head -c 20 >"$table"; exit 0`), "the old table was restored"},
		{"emptied", firstWrite(`: >"$table"; exit 1`), "the old table was restored"},
		{"lines lost", firstWrite(`grep -a agentstateloop >"$table"; exit 0`), "the old table was restored"},
		{"hangs, having written", firstWrite(`echo x >"$table"; mkfifo "$dir/never"; cat "$dir/never"`), "the old table was restored"},
		{"cannot be read afterwards", `if [ "$1" = - ]; then : >"$dir/wrote"; fi
			if [ "$1" = -l ] && [ -e "$dir/wrote" ] && [ ! -e "$dir/twice" ]; then : >"$dir/twice"; exit 1; fi`, "the old table was restored"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hangs := strings.HasPrefix(tt.name, "hangs")
			var path string
			var change Change
			var err error
			withTimeout(t, func(timeout time.Duration) bool {
				var table Table
				table, path = newTable(t, tt.quirk)
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

// TestIgnoresExitCodeAfterWrite checks that a write that installed the table succeeds although crontab
// failed.
func TestIgnoresExitCodeAfterWrite(t *testing.T) {
	table, path := newTable(t, `[ "$1" = - ] && { "$real" -; exit 1; }`)
	put(t, path, foreign)
	if change, err := table.Install(t.Context(), job("goulard3120")); err != nil || !change.Wrote {
		t.Errorf("Install: %+v, %v", change, err)
	}
	wantFile(t, path, foreign+ours+"\n")
}

// TestRestoreFails checks that, if the restoration fails too, the error names a backup with the user's
// lines, and that later writes keep that backup.
func TestRestoreFails(t *testing.T) {
	table, path := newTable(t, `[ "$1" = - ] && { echo '0 0 * * * mangled' >"$table"; exit 0; }`)
	put(t, path, foreign)
	change, err := table.Install(t.Context(), job("goulard3120"))
	wantError(t, err, "could NOT be restored", change.Backup)
	for i := range keepBackups + 1 {
		j := job("goulard3120")
		j.Config = fmt.Sprintf("/c%d", i)
		put(t, path, mustLine(t, j)+"\n0 0 * * * mangled\n")
		remove(t, table, "goulard3120")
	}
	wantFile(t, change.Backup, foreign)
}

// TestBacksUpUnexpectedTable checks that a table that another program writes between our write and our
// reading is saved.
func TestBacksUpUnexpectedTable(t *testing.T) {
	table, path := newTable(t, firstWrite(`echo '1 1 * * * edited' >"$table"; exit 0`))
	put(t, path, foreign)
	_, err := table.Install(t.Context(), job("goulard3120"))
	_, backup, _ := strings.Cut(fmt.Sprint(err), "was saved to ")
	wantFile(t, strings.TrimSuffix(backup, ")"), "1 1 * * * edited\n")
}

// TestLockTimeout checks that an install times out if another process has the lock, before it reads or
// writes the table.
func TestLockTimeout(t *testing.T) {
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
	install(t, table, job("goulard3120"))
}

// TestConcurrentInstalls checks that the lines of twenty concurrent agents and of the user stay.
func TestConcurrentInstalls(t *testing.T) {
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

// TestReportsWriteError checks that the error of a failed write is reported, also if the table cannot be
// read afterwards.
func TestReportsWriteError(t *testing.T) {
	table, path := newTable(t, `if [ "$1" = - ]; then : >"$dir/wrote"; echo 'errors in crontab file' >&2; exit 1; fi
		if [ "$1" = -l ] && [ -e "$dir/wrote" ]; then mkfifo "$dir/never"; cat "$dir/never"; fi`)
	put(t, path, foreign)
	var err error
	withTimeout(t, func(timeout time.Duration) bool {
		os.Remove(filepath.Join(filepath.Dir(path), "wrote"))
		table.Timeout = timeout
		_, err = table.Install(t.Context(), job("goulard3120"))
		return err != nil && strings.Contains(err.Error(), "the installed table is unknown")
	})
	wantError(t, err, "errors in crontab file")
}
