package cron

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/osfile"
)

// The errors that a caller may want to distinguish. Any other error of [Table] means that the
// table could not be read or written this time. It names the reason and the present state of
// the table.
var (
	// ErrNoProgram reports that the crontab program does not exist.
	ErrNoProgram = errors.New("crontab program not found: `apt install cron`, or use systemd with `agentstateloop init --timer`, or run `agentstateloop listen` with [schedule] mode = \"none\"")

	// ErrNotAllowed reports that cron.allow, cron.deny or PAM forbids this user
	// to use crontab.
	ErrNotAllowed = errors.New("this user is not allowed to use crontab: see cron.allow and cron.deny")
)

// Table is the crontab of the user who runs the program. The zero values of
// Command and Timeout mean "crontab" and 10 seconds. Lock and Backup must be set
// for writing.
type Table struct {
	Command string        // the crontab program: a name or a path, never arguments or a shell line
	Lock    string        // lock file shared by all agents of the user; its folder is created
	Backup  string        // folder for backups; it is created with mode 0700
	Timeout time.Duration // limit for the lock, and for each crontab process

	// Run is capture.Run if nil. Tests that poll thousands of times set it, because starting
	// the program costs more than the poll.
	Run func(context.Context, *exec.Cmd, capture.Limits) (capture.Printed, error)
}

func (t Table) command() string        { return cmp.Or(t.Command, "crontab") }
func (t Table) timeout() time.Duration { return cmp.Or(t.Timeout, 10*time.Second) }

// Read returns the table as "crontab -l" prints it; Debian prints some control characters as
// "\r" and "\b". For a user without a table it returns an empty one. A table that cannot be
// read is an error, never an empty table: a user has no table only if crontab prints no output
// and exits 0, or reports in words we recognize that no crontab exists (docs/protocol.md, "The
// crontab").
func (t Table) Read(ctx context.Context) ([]byte, error) {
	table, err := t.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("read crontab: %w", err)
	}
	return table, nil
}

// Polled returns what the agents' lines in the table poll (see [PolledBy]). A user without a
// crontab program, or whom cron does not allow, has no lines.
func (t Table) Polled(ctx context.Context) ([]Polled, error) {
	table, err := t.Read(ctx)
	if errors.Is(err, ErrNoProgram) || errors.Is(err, ErrNotAllowed) {
		return nil, nil
	}
	return PolledBy(table), err
}

func (t Table) list(ctx context.Context, env ...string) ([]byte, error) {
	res, err := t.run(ctx, nil, env, "-l")
	if len(res.stdout) == 0 && exited(err) && noCrontab.Get().MatchString(res.stderr) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(res.stdout) == 0 && res.stderr != "" {
		return nil, fmt.Errorf("%s -l: no table, only errors: %q", t.command(), res.stderr)
	}
	return res.stdout, nil
}

// Preview returns the change that Install would make. It writes no file, not even a lock file.
func (t Table) Preview(ctx context.Context, j Job) (Change, error) {
	line, alarm, err := j.Lines()
	if err != nil {
		return Change{}, err
	}
	before, err := t.Read(ctx)
	if err != nil {
		return Change{}, err
	}
	after := Set(before, j.Agent, line, alarm)
	if !bytes.Equal(before, after) {
		if err := refuseEscapes(before, j.Agent); err != nil {
			return Change{}, err
		}
	}
	return Change{Before: before, After: after, Line: line}, nil
}

// Install makes the lines of j the only lines of j.Agent in the table, under the lock and in
// one write. It does not write a table that already has them. Otherwise it backs up the old
// table, writes the new one and reads it back. If the two differ, it restores the old table.
// The error then names the installed table and the path of the backup.
//
// Once writing has begun, the end of ctx does not stop it. Timeout still limits each of the at
// most six crontab processes. If one of them hangs, few others follow (see [Patient]).
func (t Table) Install(ctx context.Context, j Job) (Change, error) {
	line, alarm, err := j.Lines()
	if err != nil {
		return Change{}, err
	}
	change, err := t.edit(ctx, j.Agent, func(table []byte) []byte { return Set(table, j.Agent, line, alarm) })
	change.Line = line
	if err != nil {
		return change, fmt.Errorf("install crontab line of %s: %w", j.Agent, err)
	}
	return change, nil
}

// Remove removes agent's lines from the table, with the same care as Install. It removes an
// empty table with "crontab -r", because some crontab programs refuse to install an empty
// table.
func (t Table) Remove(ctx context.Context, agent string) (Change, error) {
	change, err := t.edit(ctx, agent, func(table []byte) []byte { return Unset(table, agent) })
	if err != nil {
		return change, fmt.Errorf("remove crontab line of %s: %w", agent, err)
	}
	return change, nil
}

// edit applies change to the table under the lock. change affects only the lines of agent.
func (t Table) edit(ctx context.Context, agent string, change func([]byte) []byte) (Change, error) {
	ctx = Patient(ctx)
	unlock, err := t.lock(ctx)
	if err != nil {
		return Change{}, err
	}
	defer unlock()

	before, err := t.Read(ctx)
	if err != nil {
		return Change{}, err
	}
	after := change(before)
	if bytes.Equal(before, after) {
		return Change{Before: before, After: after}, nil
	}

	if err := refuseEscapes(before, agent); err != nil {
		return Change{}, err
	}
	before, err = t.withHiddenComments(ctx, before)
	if err != nil {
		return Change{}, err
	}
	after = withNewline(change(before))
	backup, err := t.backUp(before)
	if err != nil {
		return Change{}, fmt.Errorf("nothing was written: back up crontab: %w", err)
	}
	err = t.replace(context.WithoutCancel(ctx), before, after)
	return Change{Before: before, After: after, Wrote: err == nil, Backup: backup}, err
}

// lock takes the lock that all agents of the user share. unlock releases it.
func (t Table) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(t.Lock), 0o700); err != nil {
		return nil, fmt.Errorf("lock crontab: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	lock, err := osfile.Lock(t.Lock)
	if err != nil {
		return nil, fmt.Errorf("lock crontab: %w", err)
	}
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock crontab (%s, shared by all agents): %w", t.Lock, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// replace replaces the table before with after. On an error one of the two is installed, and
// the error names it.
func (t Table) replace(ctx context.Context, before, after []byte) error {
	writeErr := t.write(ctx, after)
	got, readErr := t.Read(ctx)
	if errors.Is(readErr, ErrHangs) {
		return fmt.Errorf("%w; the installed table is unknown: check crontab -l, and restore the table from the backup if lines are missing", cmp.Or(writeErr, readErr))
	}
	if readErr == nil && sameTable(got, after) {
		return nil
	}
	if body, ok := cutHeader(got); ok && readErr == nil && sameTable(body, after) {
		return t.dropHeader(ctx, before, after)
	}
	if writeErr == nil {
		writeErr = readErr
	}
	if writeErr == nil {
		writeErr = errors.New("the installed table differs from the written one")
	}
	if readErr == nil && sameTable(got, before) {
		return fmt.Errorf("%w; the table is unchanged", writeErr)
	}
	return t.restore(ctx, before, got, writeErr)
}

// restore writes before again after a write that failed for cause. It also backs up found, the
// table that was read back, because another program may have written it.
func (t Table) restore(ctx context.Context, before, unexpected []byte, cause error) error {
	saved, err := t.backUp(unexpected)
	switch {
	case err != nil:
		saved = "could not be saved: " + err.Error()
	case saved == "":
		saved = "was empty or could not be read"
	default:
		saved = "was saved to " + saved
	}
	writeErr := t.write(ctx, before)
	got, readErr := t.Read(ctx)
	if rest, ok := cutHeader(got); ok && sameTable(rest, before) {
		got = rest
	}
	if readErr == nil && sameTable(got, before) {
		return fmt.Errorf("%w; the old table was restored (the unexpected table %s)", cause, saved)
	}
	backup, err := t.backUp(before)
	if err != nil {
		backup = err.Error()
	}
	return fmt.Errorf("%w; the old table could NOT be restored: check crontab -l, and restore the table from %s (%w)", cause, backup, errors.Join(writeErr, readErr))
}

// write makes crontab(1) install table. If table is empty, crontab removes the user's table.
//
// Standard input is a file that is complete before crontab starts. With a pipe, crontab would
// install a part of the table if this process died while writing.
func (t Table) write(ctx context.Context, table []byte) error {
	if len(table) == 0 {
		_, err := t.run(ctx, nil, nil, "-r")
		return err
	}
	file, err := os.CreateTemp(t.Backup, ".table-*")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	// Debian's crontab refuses a table without a newline at its end.
	if _, err := file.Write(withNewline(table)); err != nil {
		return err
	}
	if _, err := file.Seek(0, 0); err != nil {
		return err
	}
	_, err = t.run(ctx, file, nil, "-")
	return err
}
