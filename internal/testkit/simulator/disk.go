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

	"agentstateloop/internal/osfile"
)

// disk knows the data that a power cut would lose now: bytes that were written but not fsynced, and
// names whose folder was not fsynced.
//
// It is informed of a step before the step. A step counts as done when its process reaches the next
// step of that lane, or its end.
type disk struct {
	root  string // the state directory of the agent
	spare string // folder of hard links to replaced and removed files

	mu      sync.Mutex
	pending map[strand]step
	dirty   map[string]int64 // by path: the number of bytes that are durable
	names   []change         // in order; not durable yet
	safe    map[string]bool  // folders whose own name is durable
	kept    int
	last    map[strand]step // the last step that was done
}

type strand struct {
	p    *process
	lane Lane
}

type step struct{ what, path string }

// change is one change of a file name.
type change struct {
	path string
	old  string // the old file in spare; "" if the name was new
	from string // the old path of a file that was moved here, to restore it
}

func newDisk(root, spare string) *disk {
	return &disk{root: root, spare: spare, pending: map[strand]step{}, dirty: map[string]int64{}, safe: map[string]bool{}, last: map[strand]step{}}
}

// forget forgets all changes: another directory is in the place of the state, and it is durable.
func (d *disk) forget() {
	d.mu.Lock()
	clear(d.pending)
	clear(d.dirty)
	clear(d.last)
	clear(d.safe)
	d.names = nil
	d.mu.Unlock()
	d.settle(d.root)
}

// before records that a process has reached a step, so its previous one is done. The
// lanes of mail and mesh are done when the process goes on in the main lane, or ends.
func (d *disk) before(p *process, lane Lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finish(strand{p, lane})
	if lane == Main {
		d.finish(strand{p, ByMail})
		d.finish(strand{p, ByMesh})
	}
}

// began records that a step begins.
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
			c.from = filepath.Join(d.root, "memory.md") // moved aside, not written
		}
		if filepath.Base(path) == "memory.d.prev" {
			c.from = filepath.Join(d.root, "memory.d")
		}
		d.names = append(d.names, c)
		if safe, ok := d.dirty[path+".tmp"]; ok { // the written bytes move along
			d.dirty[path] = safe
			delete(d.dirty, path+".tmp")
		} else {
			delete(d.dirty, path)
		}
	case "link", "remove":
		d.names = append(d.names, change{path: path, old: d.keep(path)})
	}
}

// keep links a file into spare before its name is replaced or removed.
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

// losePower cuts the power. Names change in order, so the first changes have reached the disk; of
// the bytes, any number may have. It returns the lost changes.
func (d *disk) losePower(rng *rand.Rand) (lost []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.pending)
	reached := rng.IntN(len(d.names) + 1)
	for _, c := range slices.Backward(d.names[reached:]) {
		lost = append(lost, "the change of "+d.name(c.path))
		if err := d.undo(c); err != nil {
			return lost, err
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
		lost = append(lost, fmt.Sprintf("%d bytes of %s", info.Size()-left, d.name(path)))
		if err := os.Truncate(path, left); err != nil {
			return lost, err
		}
	}
	gone, err := d.loseFolders(rng)
	clear(d.dirty)
	d.names = nil
	return append(lost, gone...), err
}

func (d *disk) undo(c change) error {
	var err error
	if c.from != "" {
		err = os.Rename(c.path, c.from)
	} else { // a rename between two links of one file has no effect, so remove it first
		err = os.Remove(c.path)
	}
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if c.old == "" {
		return nil
	}
	return os.Rename(c.old, c.path)
}

// loseFolders removes folders, with their contents, whose names were not fsynced.
func (d *disk) loseFolders(rng *rand.Rand) (lost []string, err error) {
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
		lost = append(lost, "the folder "+d.name(path))
		if err := osfile.RemoveAll(path); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// settle records that a folder and those below it are durable.
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
