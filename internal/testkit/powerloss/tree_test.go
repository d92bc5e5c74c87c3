package powerloss

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
)

// sum returns a name for the tree.
func (t tree) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(t)) {
		f := t[path]
		fmt.Fprintf(h, "%q %v %o %q %d\n", path, f.dir, f.mode, f.target, len(f.content))
		h.Write([]byte(f.content))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// write makes a folder hold this tree and nothing else. The folder itself stays.
func (t tree) write(root string) error {
	old, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range old {
		if err := removeAll(filepath.Join(root, e.Name())); err != nil {
			return err
		}
	}
	paths := slices.Sorted(maps.Keys(t))
	for _, path := range paths {
		if err := t[path].write(filepath.Join(root, path)); err != nil {
			return err
		}
	}
	for _, path := range slices.Backward(paths) {
		if t[path].dir {
			if err := os.Chmod(filepath.Join(root, path), t[path].mode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f file) write(path string) error {
	if f.dir {
		return os.Mkdir(path, 0o700)
	}
	if f.target != "" {
		return os.Symlink(f.target, path)
	}
	// A program that is open for writing cannot be started, and a process that is
	// being started holds a copy of every open file.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(identity.ReplaceAllString(f.content, "}\n")), 0o600); err != nil {
		return err
	}
	return os.Chmod(path, f.mode)
}

// identity is the identity of a state file, at its end. A power loss leaves the files what they
// were, and here they are copies.
var identity = regexp.MustCompile(`,"file":"[0-9.]+"\}\n$`)

// removeAll removes a folder with everything in it, whatever its modes.
func removeAll(path string) error {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return err
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// compare fails unless the disk shows what the folder holds: else the trace missed
// something.
func (d *disk) compare(t *testing.T) {
	t.Helper()
	real, err := newDisk(d.root)
	if err != nil {
		t.Fatal(err)
	}
	want, got := real.live(), d.live()
	for path := range maps.Keys(want) {
		if _, ok := got[path]; !ok {
			t.Errorf("the trace does not show how %s came about", path)
		}
	}
	for path, f := range got {
		w, ok := want[path]
		switch {
		case !ok:
			t.Errorf("the trace does not show how %s went", path)
		case f.dir && w.dir:
			// An older strace does not show fchmodat2, which sets modes of folders; see play.
		case f != w:
			t.Errorf("%s: the trace shows %d bytes, mode %o; there are %d bytes, mode %o", path, len(f.content), f.mode, len(w.content), w.mode)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// clone returns a copy of the disk.
func (d *disk) clone() *disk {
	c := *d
	c.nodes = nil
	for _, n := range d.nodes {
		other := *n
		other.edits = slices.Clone(n.edits)
		c.nodes = append(c.nodes, &other)
	}
	c.names, c.durable, c.pending = maps.Clone(d.names), maps.Clone(d.durable), slices.Clone(d.pending)
	return &c
}
