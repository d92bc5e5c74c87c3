package turn

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/order"

	"golang.org/x/sys/unix"
)

// Limits of reading an output folder. An agent may put anything there.
const (
	maxOutputFiles   = 1000
	maxOutputEntries = 20_000 // including folders and unlisted files
	maxOutputDepth   = 64     // folders within folders
	maxFileName      = 255    // bytes
)

// OpenOutput opens a file that Result.Output or ListOutput names. It never leaves the output
// folder of the attempt in dir and opens only regular files, even if the agent or a surviving
// process has changed the folder since.
func OpenOutput(dir, name string) (*os.File, error) {
	return openOutputFile(filepath.Join(dir, outputName), name)
}

func openOutputFile(folder, name string) (*os.File, error) {
	root, err := openOutputFolder(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Without O_NONBLOCK a fifo would hang us.
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open output: %w", err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("open output: %q is not a regular file", name)
	}
	return f, nil
}

// openOutputFolder opens an output folder. A link to a folder is an error.
func openOutputFolder(folder string) (*os.Root, error) {
	info, err := os.Lstat(folder)
	if err != nil {
		return nil, fmt.Errorf("open output folder: %w", err)
	}
	if !info.IsDir() {
		return nil, errors.New("open output folder: not a folder")
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open output folder: %w", err)
	}
	// OpenRoot follows a link that was put there after Lstat.
	if at, err := root.Stat("."); err != nil || !os.SameFile(info, at) {
		root.Close()
		return nil, errors.New("open output folder: replaced while opening")
	}
	return root, nil
}

// ListOutput lists the files that an agent left in the output folder of the attempt in dir,
// slash-separated and sorted, at most a thousand. It lists only regular files with printable
// names; notes name each skipped file and the reason. A missing or replaced output folder is an
// error.
func ListOutput(dir string) (names, notes []string, err error) {
	return listOutputFolder(filepath.Join(dir, outputName))
}

func listOutputFolder(folder string) (names, notes []string, err error) {
	root, err := openOutputFolder(folder)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	l := listing{root: root}
	if err := l.folder(".", 0); err != nil {
		return nil, nil, fmt.Errorf("list output folder: %w", err)
	}
	return l.names, l.notes, nil
}

// listing lists one output folder.
type listing struct {
	root         *os.Root
	names, notes []string
	entries      int
	full         bool // a limit was reached
}

func (l *listing) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf("output: "+format, args...))
}

// folder lists one folder, sorted by name. It reads no more of the folder than the limits allow.
func (l *listing) folder(name string, depth int) error {
	entries, err := l.read(name)
	if err != nil {
		return err
	}
	for _, d := range entries {
		if l.full {
			return nil
		}
		l.entry(path.Join(name, d.Name()), d, depth)
	}
	return nil
}

func (l *listing) read(name string) ([]fs.DirEntry, error) {
	f, err := l.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxOutputEntries - l.entries + 1)
	if len(entries) == 0 && err != nil && err != io.EOF {
		return nil, err
	}
	order.Sort(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func (l *listing) entry(name string, d fs.DirEntry, depth int) {
	l.entries++
	switch {
	case len(l.names)+len(l.notes) >= maxOutputFiles:
		l.note("more than %d files: skipped the rest", maxOutputFiles)
		l.full = true
	case l.entries > maxOutputEntries:
		l.note("more than %d entries: skipped the rest", maxOutputEntries)
		l.full = true
	case !plainName(d.Name()):
		l.note("name %q is not printable", name)
	case d.IsDir() && depth == maxOutputDepth:
		l.note("%q is nested more than %d folders deep", name, maxOutputDepth)
	case d.IsDir():
		if l.folder(name, depth+1) != nil {
			l.note("cannot read %q", name)
		}
	case !d.Type().IsRegular():
		l.note("%q is not a regular file", name)
	default:
		l.names = append(l.names, name)
	}
}

// plainName reports whether a mail and a terminal can show a name as it is. Blanks of any script
// are allowed, and so are the two joiners that many scripts and emoji need.
func plainName(name string) bool {
	if !utf8.ValidString(name) || len(name) > maxFileName {
		return false
	}
	for _, r := range name {
		seen := unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) || r == '\u200c' || r == '\u200d'
		if !seen || r == '\\' {
			return false
		}
	}
	return true
}
