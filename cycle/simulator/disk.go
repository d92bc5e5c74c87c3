package simulator

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// disk knows what would be lost if the power went now: bytes that were written
// and not fsynced, and names whose folder was not.
//
// It hears of a step before it is done. A step counts as done when its process
// comes to the next one of that lane, or to its end.
type disk struct {
	root  string // the agent's directory
	spare string // hard links to what was replaced or removed

	mu      sync.Mutex
	pending map[strand]step
	dirty   map[string]int64 // by path: how many bytes of it are safe
	names   []change         // in order, not yet durable
	safe    map[string]bool  // folders whose own name is durable
	kept    int
	last    map[strand]step // done
}

type strand struct {
	p    *process
	lane Lane
}

type step struct{ what, path string }

// change is one change of a name.
type change struct {
	path string
	old  string // in spare; "" when the name was new
	from string // of a file moved here that must go back there
}

func newDisk(root, spare string) *disk {
	return &disk{root: root, spare: spare, pending: map[strand]step{}, dirty: map[string]int64{}, safe: map[string]bool{}, last: map[strand]step{}}
}

// before hears that a process has come to a step: its last one is done. What
// looks into mail or mesh is done when the process goes on with something else.
func (d *disk) before(p *process, lane Lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finish(strand{p, lane})
	if lane == Main {
		d.finish(strand{p, ByMail})
		d.finish(strand{p, ByMesh})
	}
}

// began hears that a step is being done.
func (d *disk) began(p *process, lane Lane, what, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending[strand{p, lane}] = step{what, path}
	switch what {
	case "write":
		d.dirty[path] = 0
	case "append":
		info, err := os.Stat(path)
		if err != nil {
			return
		}
		if _, known := d.dirty[path]; !known {
			d.dirty[path] = info.Size()
		}
		if info.Size() == 0 {
			d.names = append(d.names, change{path: path})
		}
	case "rename":
		c := change{path: path, old: d.keep(path)}
		if strings.Contains(filepath.Base(path), ".corrupt-") {
			c.from = filepath.Join(d.root, "state.json")
		}
		if filepath.Base(path) == "memory.md.prev" && d.last[strand{p, lane}] != (step{"fsync", path + ".tmp"}) {
			c.from = filepath.Join(d.root, "memory.md") // set aside, not written
		}
		d.names = append(d.names, c)
		if safe, ok := d.dirty[path+".tmp"]; ok { // what was written under it comes along
			d.dirty[path] = safe
			delete(d.dirty, path+".tmp")
		} else {
			delete(d.dirty, path)
		}
	case "link", "remove":
		d.names = append(d.names, change{path: path, old: d.keep(path)})
	}
}

// keep makes a second name for a file that is about to lose its first.
func (d *disk) keep(path string) string {
	d.kept++
	old := filepath.Join(d.spare, fmt.Sprint(d.kept))
	if err := os.Link(path, old); err != nil {
		return ""
	}
	return old
}

func (d *disk) finish(s strand) {
	done, ok := d.pending[s]
	if !ok {
		return
	}
	delete(d.pending, s)
	d.last[s] = done
	switch done.what {
	case "fsync":
		delete(d.dirty, done.path)
	case "fsyncdir":
		d.names = slices.DeleteFunc(d.names, func(c change) bool { return filepath.Dir(c.path) == done.path })
		entries, err := os.ReadDir(done.path)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.IsDir() {
				d.safe[filepath.Join(done.path, e.Name())] = true
			}
		}
	}
}

// ended hears that a process came to its end.
func (d *disk) ended(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, lane := range []Lane{Main, ByMail, ByMesh} {
		d.finish(strand{p, lane})
	}
}

// losePower is a power cut. Names were changed in order, so that a beginning of the
// changes has reached the disk; bytes have as they pleased. It says what went.
func (d *disk) losePower(rng *rand.Rand) (told []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.pending)
	reached := rng.IntN(len(d.names) + 1)
	for _, c := range slices.Backward(d.names[reached:]) {
		told = append(told, "the change of "+d.name(c.path))
		if err := d.undo(c); err != nil {
			return told, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(d.dirty)) {
		safe := d.dirty[path]
		info, err := os.Stat(path)
		if err != nil || info.Size() <= safe {
			continue
		}
		left := safe + rng.Int64N(info.Size()-safe+1)
		if rng.IntN(2) == 0 {
			left = safe
		}
		told = append(told, fmt.Sprintf("%d bytes of %s", info.Size()-left, d.name(path)))
		if err := os.Truncate(path, left); err != nil {
			return told, err
		}
	}
	gone, err := d.loseFolders(rng)
	clear(d.dirty)
	d.names = nil
	return append(told, gone...), err
}

func (d *disk) undo(c change) error {
	if c.from != "" {
		if err := os.Rename(c.path, c.from); err != nil && !os.IsNotExist(err) {
			return err
		}
		if c.old != "" {
			return os.Rename(c.old, c.path)
		}
		return nil
	}
	if c.old != "" {
		// A rename between two names of one file would do nothing.
		if err := os.Remove(c.path); err != nil && !os.IsNotExist(err) {
			return err
		}
		return os.Rename(c.old, c.path)
	}
	if err := os.Remove(c.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// loseFolders takes folders, with all in them, whose names nobody has fsynced.
func (d *disk) loseFolders(rng *rand.Rand) (told []string, err error) {
	var unsafe []string
	err = filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() || path == d.root {
			return err
		}
		if !d.safe[path] {
			unsafe = append(unsafe, path)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for _, path := range unsafe {
		if rng.IntN(2) == 0 {
			d.settle(path)
			continue
		}
		told = append(told, "the folder "+d.name(path))
		if err := os.RemoveAll(path); err != nil {
			return told, err
		}
	}
	return told, nil
}

// settle notes that a folder and those below it have reached the disk.
func (d *disk) settle(path string) {
	filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			d.safe[path] = true
		}
		return nil
	})
}

func (d *disk) name(path string) string {
	if name, err := filepath.Rel(d.root, path); err == nil {
		return name
	}
	return path
}
