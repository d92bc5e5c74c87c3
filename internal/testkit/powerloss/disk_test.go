package powerloss

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// disk is what system calls have made of a folder: what every process sees, and what
// of it a power loss would leave for sure. It promises as little as POSIX does:
//
//   - fsync of a file makes its content durable, and not its name.
//   - fsync of a folder makes the names in it durable, and nothing else.
//   - What is not durable may be on the disk or not. Content may be torn at any
//     sector, be there in part, or be zeros of the right length.
//   - Names are kept in any order. Only changes of the same name keep theirs. A
//     rename happens whole.
type disk struct {
	root  string
	nodes []*node

	names   slots // what every process sees
	durable slots // what no power loss takes away
	pending []*change

	changes      int   // how often the disk changed, or more of it became durable
	began, ended int64 // of the call that is played, in microseconds
}

// node is a file, folder or symbolic link.
type node struct {
	id     int
	dir    bool
	mode   fs.FileMode
	target string // of a symbolic link
	live   []byte // what every process reads
	safe   []byte // what is durable
	edits  []edit // what has been done since
}

// edit is a write at an offset or, if data is nil, a truncation to it.
type edit struct {
	at   int64
	data []byte
	end  int64 // when it was done
}

func (e edit) apply(content []byte) []byte {
	if e.data == nil {
		return resized(content, e.at)
	}
	content = resized(content, max(int64(len(content)), e.at+int64(len(e.data))))
	copy(content[e.at:], e.data)
	return content
}

// resized returns a copy of content with this length.
func resized(content []byte, size int64) []byte {
	other := make([]byte, size)
	copy(other, content)
	return other
}

// slot is a place for a name in a folder.
type slot struct {
	dir  int
	name string
}

type slots map[slot]int // the node there

// change is a change of names. A node of -1 removes the name.
type change struct {
	sets []set
	end  int64
}

type set struct {
	slot
	node int
}

func (s slots) apply(c *change) {
	for _, x := range c.sets {
		if x.node < 0 {
			delete(s, x.slot)
		} else {
			s[x.slot] = x.node
		}
	}
}

// touches reports whether both changes are about the same name.
func (c *change) touches(o *change) bool {
	return slices.ContainsFunc(c.sets, func(a set) bool {
		return slices.ContainsFunc(o.sets, func(b set) bool { return a.slot == b.slot })
	})
}

// newDisk returns the disk of a folder as it is, all of it durable.
func newDisk(root string) (*disk, error) {
	d := &disk{root: root, names: slots{}}
	d.add(&node{dir: true, mode: 0o700})
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		n := &node{dir: e.IsDir(), mode: info.Mode().Perm()}
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			n.target, err = os.Readlink(path)
		case e.Type().IsRegular():
			n.live, err = os.ReadFile(path)
		case !e.IsDir():
			return nil // a socket or a pipe, which no disk keeps
		}
		if err != nil {
			return err
		}
		n.safe = n.live
		at, err := d.slot(path)
		d.names[at] = d.add(n)
		return err
	})
	d.durable = maps.Clone(d.names)
	return d, err
}

func (d *disk) add(n *node) int {
	n.id = len(d.nodes)
	d.nodes = append(d.nodes, n)
	return n.id
}

// inside reports whether a path is in the folder.
func (d *disk) inside(path string) bool { return strings.HasPrefix(path, d.root+"/") }

// slot returns the place of a path.
func (d *disk) slot(path string) (slot, error) {
	at := slot{}
	parts := strings.Split(strings.TrimPrefix(path, d.root+"/"), "/")
	for i, part := range parts {
		at.name = part
		if i == len(parts)-1 {
			break
		}
		n, ok := d.names[at]
		if !ok {
			return at, fmt.Errorf("%s: the trace shows no folder %s", path, part)
		}
		at = slot{dir: n}
	}
	return at, nil
}

// find returns the node of a path, or nil if the folder does not hold it.
func (d *disk) find(path string) *node {
	if path == d.root {
		return d.nodes[0]
	}
	if !d.inside(path) {
		return nil
	}
	if at, err := d.slot(path); err == nil {
		if id, ok := d.names[at]; ok {
			return d.nodes[id]
		}
	}
	return nil
}

// change makes a change of names that is not durable yet.
func (d *disk) change(sets ...set) {
	c := &change{sets, d.ended}
	d.changes++
	d.names.apply(c)
	d.pending = append(d.pending, c)
}

// put gives a node a name, or with -1 removes the name. A name outside of the folder is of no interest.
func (d *disk) put(path string, node int) error {
	if !d.inside(path) {
		return nil
	}
	at, err := d.slot(path)
	if err == nil {
		d.change(set{at, node})
	}
	return err
}

func (d *disk) open(path string, create, truncate bool, mode int64) error {
	n := d.find(path)
	switch {
	case n == nil && create:
		return d.put(path, d.add(&node{mode: fs.FileMode(mode)}))
	case n != nil && truncate && len(n.live) > 0:
		return d.truncate(path, 0)
	}
	return nil
}

// write writes at an offset, or with -1 at the end: no program here writes
// elsewhere without saying so, and compare would notice it.
func (d *disk) write(path string, at int64, data []byte) error {
	n := d.find(path)
	if n == nil || len(data) == 0 {
		return nil
	}
	if at < 0 {
		at = int64(len(n.live))
	}
	d.edit(n, edit{at, data, d.ended})
	return nil
}

func (d *disk) truncate(path string, size int64) error {
	if n := d.find(path); n != nil && size != int64(len(n.live)) {
		d.edit(n, edit{size, nil, d.ended})
	}
	return nil
}

func (d *disk) edit(n *node, e edit) {
	d.changes++
	n.live = e.apply(n.live)
	n.edits = append(n.edits, e)
}

// sync makes durable what was done before the call began.
func (d *disk) sync(path string) error {
	n := d.find(path)
	if n == nil {
		return nil
	}
	for len(n.edits) > 0 && n.edits[0].end <= d.began {
		n.safe = n.edits[0].apply(n.safe)
		n.edits = n.edits[1:]
		d.changes++
	}
	if !n.dir {
		return nil
	}
	chosen := map[*change]bool{}
	for _, c := range d.pending {
		if c.end <= d.began && slices.ContainsFunc(c.sets, func(s set) bool { return s.dir == n.id }) {
			chosen[c] = true
			d.changes++
		}
	}
	d.pending = d.keep(d.durable, chosen)
	return nil
}

// keep applies the chosen changes to names, with the earlier ones of the same names,
// and returns the others.
func (d *disk) keep(names slots, chosen map[*change]bool) (left []*change) {
	for i, c := range slices.Backward(d.pending) {
		if !chosen[c] {
			continue
		}
		for _, earlier := range d.pending[:i] {
			if earlier.touches(c) {
				chosen[earlier] = true
			}
		}
	}
	for _, c := range d.pending {
		if chosen[c] {
			names.apply(c)
		} else {
			left = append(left, c)
		}
	}
	return left
}

func (d *disk) rename(from, to string) error {
	if !d.inside(from) && !d.inside(to) {
		return nil
	}
	n := d.find(from)
	if n == nil {
		return fmt.Errorf("%s was renamed to %s, and the trace does not show where it comes from", from, to)
	}
	if !d.inside(to) {
		return d.put(from, -1)
	}
	old, err := d.slot(from)
	if err != nil {
		return err
	}
	next, err := d.slot(to)
	if err != nil {
		return err
	}
	if d.names[next] == n.id && next != old {
		return nil // two names of one file: POSIX says that both stay
	}
	d.change(set{old, -1}, set{next, n.id})
	return nil
}

func (d *disk) link(from, to string) error {
	if !d.inside(to) {
		return nil
	}
	n := d.find(from)
	if n == nil {
		return fmt.Errorf("%s was linked, and the trace does not show where it comes from", from)
	}
	return d.put(to, n.id)
}

func (d *disk) symlink(target, path string) error {
	return d.put(path, d.add(&node{mode: 0o777, target: target}))
}

func (d *disk) unlink(path string) error { return d.put(path, -1) }

func (d *disk) mkdir(path string, mode int64) error {
	return d.put(path, d.add(&node{dir: true, mode: fs.FileMode(mode)}))
}

func (d *disk) chmod(path string, mode int64) error {
	if n := d.find(path); n != nil {
		n.mode = fs.FileMode(mode) & fs.ModePerm
	}
	return nil
}

// file is what a disk holds under one path.
type file struct {
	dir     bool
	mode    fs.FileMode
	target  string
	content string
}

// tree is the files of a disk by their path below its folder.
type tree map[string]file

// tree returns what is reachable by names, with the content that read returns.
func (d *disk) tree(names slots, read func(*node) []byte) tree {
	within := map[int][]set{}
	for at, id := range names {
		within[at.dir] = append(within[at.dir], set{at, id})
	}
	all := tree{}
	var walk func(dir int, path string)
	walk = func(dir int, path string) {
		for _, s := range within[dir] {
			n, name := d.nodes[s.node], filepath.Join(path, s.name)
			f := file{dir: n.dir, mode: n.mode, target: n.target}
			if n.dir {
				walk(n.id, name)
			} else {
				f.content = string(read(n))
			}
			all[name] = f
		}
	}
	walk(0, "")
	return all
}

// live returns what every process sees.
func (d *disk) live() tree { return d.tree(d.names, func(n *node) []byte { return n.live }) }
