package powerloss

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// steps plays steps such as "create a, write a text, rename a b" on the disk of a new folder that
// holds the file old with "before".
func steps(t *testing.T, steps string) *disk {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "old"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := newDisk(root)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range strings.Split(steps, ", ") {
		d.began, d.ended = int64(2*i+1), int64(2*i+2)
		if err := d.step(strings.SplitN(step, " ", 3)); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	return d
}

func (d *disk) step(words []string) error {
	path := filepath.Join(d.root, words[1])
	switch words[0] {
	case "create":
		return d.open(path, true, false, 0o600)
	case "write":
		return d.write(path, -1, []byte(words[2]))
	case "fsync":
		return d.sync(path)
	case "rename":
		return d.rename(path, filepath.Join(d.root, words[2]))
	case "mkdir":
		return d.mkdir(path, 0o700)
	case "unlink":
		return d.unlink(path)
	}
	return errors.New("no such step")
}

// shown returns a tree as one line.
func shown(t tree) string {
	var all []string
	for _, path := range slices.Sorted(maps.Keys(t)) {
		all = append(all, path+"="+strings.ReplaceAll(t[path].content, "\x00", "0"))
	}
	return strings.Join(all, " ")
}

// TestAfter lists all disks that a power loss may leave.
func TestAfter(t *testing.T) {
	for name, c := range map[string]struct {
		steps string
		may   []string
	}{
		"a file without an fsync": {"create a, write a text",
			[]string{"old=before", "a= old=before", "a=0000 old=before", "a=text old=before"}},
		"a file with an fsync has its content if it has its name": {"create a, write a text, fsync a",
			[]string{"old=before", "a=text old=before"}},
		"with an fsync of the folder too it is there": {"create a, write a text, fsync a, fsync .",
			[]string{"a=text old=before"}},
		"a rename without an fsync of the file": {"create a, write a text, rename a old, fsync .",
			[]string{"old=", "old=0000", "old=text"}},
		"a rename is whole": {"create a, write a text, fsync a, fsync ., rename a old",
			[]string{"a=text old=before", "old=text"}},
		"names come in any order": {"create a, create b",
			[]string{"old=before", "a= old=before", "b= old=before", "a= b= old=before"}},
		"but those of one name in theirs": {"create a, unlink a, mkdir a",
			[]string{"old=before", "a= old=before"}},
		"a folder without an fsync of its parent": {"mkdir d, create d/a, write d/a text, fsync d/a, fsync d",
			[]string{"old=before", "d= d/a=text old=before"}},
		"more at the end of a file": {"write old  and after",
			[]string{"old=before", "old=before0000000000", "old=before and after"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, found := steps(t, c.steps), map[string]bool{}
			for draw := range uint64(300) {
				for l := range loss(losses) {
					found[shown(d.after(l, rand.New(rand.NewPCG(draw, uint64(l)))))] = true
				}
			}
			got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(slices.Values(c.may))
			if !slices.Equal(got, want) {
				t.Errorf("a power loss leaves one of\n%q, want\n%q", got, want)
			}
		})
	}
}

// TestTorn: a long write is cut at sectors alone.
func TestTorn(t *testing.T) {
	long := strings.Repeat("x", 3*sector)
	d, lengths := steps(t, "create a, write a "+long+", fsync ."), map[int]bool{}
	for draw := range uint64(300) {
		content := d.find(filepath.Join(d.root, "a")).torn(rand.New(rand.NewPCG(draw, 0)))
		lengths[len(content)] = true
	}
	if got := slices.Sorted(maps.Keys(lengths)); !slices.Equal(got, []int{0, sector, 2 * sector}) {
		t.Errorf("lengths %v", got)
	}
}

// TestFsyncOfEarlierWrites: an fsync makes durable what was done when it began, and
// nothing that another process did meanwhile.
func TestFsyncOfEarlierWrites(t *testing.T) {
	d := steps(t, "write old  one, write old  two")
	d.began, d.ended = 3, 9 // the second write ended at 4
	if err := d.sync(filepath.Join(d.root, "old")); err != nil {
		t.Fatal(err)
	}
	if got := shown(d.after(loseAll, nil)); got != "old=before one" {
		t.Errorf("durable is %q", got)
	}
}

// TestTraceShowsAll: the trace of a shell that changes files in many ways makes the
// same folder as the shell did.
func TestTraceShowsAll(t *testing.T) {
	needTools(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, dir: t.TempDir(), root: root, world: new(world)}
	s.writeFile("passwd", "")
	empty, err := newDisk(root)
	if err != nil {
		t.Fatal(err)
	}
	s.trace("", "/bin/sh", "-c", strings.ReplaceAll(`
		mkdir R/a R/a/b; echo one >R/a/one; cp R/a/one R/a/two; echo more >>R/a/two
		ln R/a/one R/a/b/link; ln -s one R/a/symlink; mv R/a/two R/a/b/two; mv R/a/b R/b
		truncate -s 2 R/b/two; rm R/a/one; mkdir R/gone; rmdir R/gone; chmod 640 R/b/two
		head -c 100000 /dev/zero | tee R/zeros >R/others; sync R/zeros R; rm -r R/others
		(echo child; echo of >&2; sh -c 'echo grandchild') >R/family 2>&1 & wait`, "R", root))
	d := empty.clone()
	for _, m := range s.moments() {
		s.play(d, m)
	}
	d.compare(t)
	if got := d.after(loseAll, nil); len(got["zeros"].content) != 100000 || len(got) != 4 {
		t.Errorf("durable are %q", slices.Sorted(maps.Keys(got)))
	}
}
