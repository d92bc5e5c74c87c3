package store

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// nextTick gives the next file a later birth time.
func nextTick() {
	time.Sleep(11 * time.Millisecond) // the kernel's clock for files goes in steps of up to 10 ms
}

// TestCopiedDirectory copies a state directory, goes on in it, and puts the copy back with each kind
// of program. The next commit finds a copy, and the one after it finds its own file.
func TestCopiedDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		save, restore func(t *testing.T, from, to string)
	}{
		"cp to another place":        {run("cp", "-a"), elsewhere(run("cp", "-a"))},
		"cp over it":                 {run("cp", "-a"), run("cp", "-a", "-T")},
		"cp over it, file by file":   {run("cp", "-a"), run("cp", "-a", "-T", "--remove-destination")},
		"tar to an empty place":      {tarUp, emptied(untar)},
		"tar over it":                {tarUp, untar},
		"rsync over it":              {run("cp", "-a"), rsync},
		"rsync to an empty place":    {run("cp", "-a"), emptied(rsync)},
		"restic over it":             {run("cp", "-a"), restic},
		"mv of the copy":             {run("cp", "-a"), emptied(run("mv", "-T"))},
		"mv, and the copy on top":    {run("cp", "-a"), movedAway(run("cp", "-a"))},
		"only the state":             {run("cp", "-a"), onlyState},
		"its own .prev as the state": {func(*testing.T, string, string) {}, ownPrev},
	} {
		t.Run(name, func(t *testing.T) {
			st := identifiedStore(t)
			saved := filepath.Join(t.TempDir(), "saved")
			c.save(t, st.Dir, saved)
			for range 3 {
				wantCopied(t, st, false)
			}
			nextTick()
			c.restore(t, saved, st.Dir)
			again := &Store{Dir: st.Dir, Agent: st.Agent}
			wantCopied(t, again, true)
			wantCopied(t, again, false)
			wantCopied(t, &Store{Dir: st.Dir, Agent: st.Agent}, false)
			wantWhole(t, again)
		})
	}
}

// TestNotCopied checks that no commit takes its own file for a copy.
func TestNotCopied(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, st *Store){
		"nothing": func(*testing.T, *Store) {},
		"mv":      func(t *testing.T, st *Store) { check(t, os.Rename(st.Dir, st.Dir+".moved")); st.Dir += ".moved" },
		"mv and back": func(t *testing.T, st *Store) {
			check(t, os.Rename(st.Dir, st.Dir+"2"))
			check(t, os.Rename(st.Dir+"2", st.Dir))
		},
		"chmod":               func(t *testing.T, st *Store) { check(t, os.Chmod(st.path(stateFile), 0o640)) },
		"chown":               func(t *testing.T, st *Store) { check(t, os.Chown(st.path(stateFile), os.Getuid(), os.Getgid())) },
		"touch":               func(t *testing.T, st *Store) { check(t, os.Chtimes(st.path(stateFile), time.Now(), time.Unix(1, 0))) },
		"a backup that reads": func(t *testing.T, st *Store) { run("cp", "-a")(t, st.Dir, filepath.Join(t.TempDir(), "backup")) },
		"a hard link":         func(t *testing.T, st *Store) { check(t, os.Link(st.path(stateFile), st.path("link"))) },
		"no locks":            func(t *testing.T, st *Store) { check(t, os.Remove(st.path(stateLock))) },
		"edited in its place": func(t *testing.T, st *Store) { rewrite(t, st.path(stateFile)) },
		"the state is lost":   func(t *testing.T, st *Store) { check(t, os.Remove(st.path(stateFile))) },
		"the state is cut":    func(t *testing.T, st *Store) { check(t, os.Truncate(st.path(stateFile), 9)) },
		"both files are lost": func(t *testing.T, st *Store) {
			check(t, errors.Join(os.Remove(st.path(stateFile)), os.Remove(st.path(prevFile))))
		},
		"a file without a name": withoutIdentity, // as an older version writes it, or a file system without birth times
	} {
		t.Run(name, func(t *testing.T) {
			st := identifiedStore(t)
			for range 2 {
				wantCopied(t, st, false)
			}
			do(t, st)
			other := &Store{Dir: st.Dir, Agent: st.Agent}
			for range 3 {
				wantCopied(t, other, false)
			}
		})
	}
}

// TestCopyIsFoundUntilACommit checks that a process that dies before its commit leaves the finding
// to the next one, and that a reader changes nothing.
func TestCopyIsFoundUntilACommit(t *testing.T) {
	st := identifiedStore(t)
	copied := &Store{Dir: filepath.Join(t.TempDir(), "copy"), Agent: st.Agent}
	nextTick()
	run("cp", "-a")(t, st.Dir, copied.Dir)
	mustState(t, copied)
	killed := errors.New("killed")
	for _, at := range []string{"write", "fsync", "link", "rename"} {
		copied.Hook = func(step, _ string) error {
			if step == at {
				return killed
			}
			return nil
		}
		if _, err := commitStep(copied); !errors.Is(err, killed) {
			t.Fatalf("at %s: %v", at, err)
		}
		copied.Hook = nil
		if _, recovery, err := copied.load(); err != nil || !recovery.Copied {
			t.Errorf("killed at %s, the copy is not found again: %v", at, err)
		}
	}
	wantCopied(t, copied, true)
	wantCopied(t, copied, false)
}

// TestCopyOfALostState checks that a state rebuilt from a copied .prev counts as a copy.
func TestCopyOfALostState(t *testing.T) {
	st := identifiedStore(t)
	wantCopied(t, st, false)
	copied := &Store{Dir: filepath.Join(t.TempDir(), "copy"), Agent: st.Agent}
	nextTick()
	run("cp", "-a")(t, st.Dir, copied.Dir)
	check(t, os.Remove(copied.path(stateFile)))
	wantCopied(t, copied, true)
	wantCopied(t, copied, false)
}

// identifiedStore returns a store with a state. It skips the test if the system has no identities
// of files.
func identifiedStore(t *testing.T) *Store {
	t.Helper()
	st, _ := startedStore(t)
	f, err := os.Open(st.path(stateFile))
	check(t, err)
	defer f.Close()
	if osfile.Identify(f) == (osfile.Identity{}) {
		t.Skip("files have no birth times here")
	}
	return st
}

// commitStep commits a change, and reports whether it found a copy.
func commitStep(st *Store) (copied bool, err error) {
	_, err = st.Commit(context.Background(), time.Now(), func(s state.State, recovery Recovery) (state.State, error) {
		copied = recovery.Copied
		return state.Step(s, []state.Event{state.Switched{On: !s.HaltedHere}}, statetest.Policy(), time.Now()), nil
	})
	return copied, err
}

func wantCopied(t *testing.T, st *Store, want bool) {
	t.Helper()
	got, err := commitStep(st)
	check(t, err)
	if got != want {
		t.Errorf("the commit found a copy: %v, want %v", got, want)
	}
}

// run returns a copy by a program.
func run(name string, args ...string) func(t *testing.T, from, to string) {
	return func(t *testing.T, from, to string) {
		t.Helper()
		command(t, name, append(args, from, to)...)
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

func tarUp(t *testing.T, from, to string) { command(t, "tar", "-C", from, "-cf", to, ".") }

func untar(t *testing.T, from, to string) {
	check(t, os.MkdirAll(to, 0o700))
	command(t, "tar", "-C", to, "-xpf", from)
}

// emptied removes the directory before a copy is put there.
func emptied(restore func(t *testing.T, from, to string)) func(t *testing.T, from, to string) {
	return func(t *testing.T, from, to string) {
		check(t, os.RemoveAll(to))
		restore(t, from, to)
	}
}

// movedAway keeps the directory under another name before a copy is put there.
func movedAway(restore func(t *testing.T, from, to string)) func(t *testing.T, from, to string) {
	return func(t *testing.T, from, to string) {
		check(t, os.Rename(to, to+".away"))
		restore(t, from, to)
	}
}

// elsewhere makes the copy in a second place and moves it here.
func elsewhere(restore func(t *testing.T, from, to string)) func(t *testing.T, from, to string) {
	return func(t *testing.T, from, to string) {
		restore(t, from, to+".second")
		check(t, os.RemoveAll(to))
		check(t, os.Rename(to+".second", to))
	}
}

// rsync copies as rsync -a does: it leaves a file alone that has the same size and time, and
// renames a new file over any other.
func rsync(t *testing.T, from, to string) {
	eachFile(t, from, to, func(source, target string, info os.FileInfo) {
		if old, err := os.Lstat(target); err == nil && old.Size() == info.Size() && old.ModTime().Equal(info.ModTime()) {
			return
		}
		write(t, source, target+".tmp", os.O_CREATE|os.O_EXCL)
		check(t, os.Chtimes(target+".tmp", time.Now(), info.ModTime()))
		check(t, os.Rename(target+".tmp", target))
	})
}

// restic writes the content of each file into the file that is there.
func restic(t *testing.T, from, to string) {
	eachFile(t, from, to, func(source, target string, info os.FileInfo) {
		write(t, source, target, os.O_CREATE|os.O_TRUNC)
		check(t, os.Chtimes(target, time.Now(), info.ModTime()))
	})
}

// eachFile calls do for each file below from, after it has made the folder of the file below to.
func eachFile(t *testing.T, from, to string, do func(source, target string, info os.FileInfo)) {
	t.Helper()
	check(t, filepath.Walk(from, func(source string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, source)
		target := filepath.Join(to, name)
		if err != nil || info.IsDir() {
			return errors.Join(err, os.MkdirAll(target, 0o700))
		}
		do(source, target, info)
		return nil
	}))
}

func write(t *testing.T, from, to string, flag int) {
	t.Helper()
	in, err := os.Open(from)
	check(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|flag, 0o600)
	check(t, err)
	_, err = io.Copy(out, in)
	check(t, errors.Join(err, out.Close()))
}

func onlyState(t *testing.T, from, to string) {
	command(t, "cp", "-a", filepath.Join(from, stateFile), filepath.Join(to, "x"))
	check(t, os.Rename(filepath.Join(to, "x"), filepath.Join(to, stateFile)))
}

func ownPrev(t *testing.T, _, to string) {
	command(t, "cp", "-a", filepath.Join(to, prevFile), filepath.Join(to, stateFile))
}

// rewrite writes into a file, as some editors do.
func rewrite(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	info, err := f.Stat()
	check(t, err)
	_, err = f.WriteAt([]byte("\n"), info.Size()-1)
	check(t, err)
}

// withoutIdentity copies the state and removes the identity from it.
func withoutIdentity(t *testing.T, st *Store) {
	s, err := st.parseStored(stateFile)
	check(t, err)
	s.File = ""
	data, _, err := encodeState(nil, &s, nil)
	check(t, err)
	remove(t, st, stateFile)
	put(t, st, stateFile, string(data))
}
