package react

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"agentstateloop/internal/plain"
)

// Folders are the folders that a model may see, as absolute paths. The model reads in all of
// them and writes in Workdir and Output. No path leads out of them, not even through a link.
type Folders struct {
	Workdir string // the base of relative paths
	Output  string // the output folder: its files go with the reply
	Context string // the original message, its attachments, the history
}

const (
	maxRead   = 48 << 10 // bytes of one read_file
	maxListed = 500      // entries of one list
	maxDepth  = 8        // levels of one list
)

// Files returns the tools read_file, write_file and list.
func (r Folders) Files() ([]Tool, error) {
	var g toolList
	g.add(typedTool("read_file", fmt.Sprintf("Reads a text file, or shows a picture (PNG, JPEG, GIF, WebP) or a PDF to a model that can see it. Relative paths start in the working folder. Absolute paths may also be below %s (the message and its files) and %s (the files of the reply). A long file is returned in parts: continue with offset.", r.Context, r.Output), r.read))
	g.add(typedTool("write_file", fmt.Sprintf("Writes a whole text file and creates missing folders. It replaces an existing file, or extends it with append. Files below %s are attached to the reply.", r.Output), r.write))
	g.add(typedTool("list", "Lists a folder: one name per line, folders with a slash, files with their size in bytes.", r.list))
	return g.tools, g.err
}

// Open opens a regular file that a model may read.
func (r Folders) Open(path string) (*os.File, error) {
	root, name, err := r.open(path, false)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Without O_NONBLOCK a fifo would block us.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError(path, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = pathError(path, err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

type readArgs struct {
	Path   string `json:"path" jsonschema:"the file"`
	Offset int64  `json:"offset,omitempty" jsonschema:"byte to start at (default 0)"`
}

func (r Folders) read(_ context.Context, a readArgs) (string, error) {
	f, err := r.Open(a.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", pathError(a.Path, err)
	}
	if a.Offset < 0 || a.Offset > info.Size() {
		return "", fmt.Errorf("%s has %d bytes: offset %d is beyond the end", a.Path, info.Size(), a.Offset)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, a.Offset, maxRead))
	if err != nil {
		return "", pathError(a.Path, err)
	}
	end := a.Offset + int64(len(data))
	if end < info.Size() {
		data = plain.TrimPartial(data)
		end = a.Offset + int64(len(data))
	}
	if a.Offset == 0 && imageKind(http.DetectContentType(data)) != "" {
		return r.show(a.Path)
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("%s is not UTF-8 text (%d bytes)", a.Path, info.Size())
	}
	if end < info.Size() {
		return fmt.Sprintf("%s\n[%d of %d bytes: continue with offset %d]", data, end, info.Size(), end), nil
	}
	return string(data), nil
}

// show returns a picture or a PDF, as a FilesResult.
func (r Folders) show(path string) (string, error) {
	s, err := r.load(path, false)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return "", FilesResult{Files: []ShownFile{s}}
}

type writeArgs struct {
	Path   string `json:"path" jsonschema:"the file"`
	Text   string `json:"text" jsonschema:"what to write"`
	Append bool   `json:"append,omitempty" jsonschema:"add to the end"`
}

func (r Folders) write(_ context.Context, a writeArgs) (string, error) {
	root, name, err := r.open(a.Path, true)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", pathError(a.Path, err)
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC | unix.O_NONBLOCK
	if a.Append {
		flags = flags&^os.O_TRUNC | os.O_APPEND
	}
	f, err := root.OpenFile(name, flags, 0o644)
	if err != nil {
		return "", pathError(a.Path, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return "", fmt.Errorf("%s is not a regular file", a.Path)
	}
	_, err = f.WriteString(a.Text)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", pathError(a.Path, err)
	}
	return fmt.Sprintf("wrote %d bytes", len(a.Text)), nil
}

type listArgs struct {
	Path  string `json:"path,omitempty" jsonschema:"the folder (default: the working folder)"`
	Depth int    `json:"depth,omitempty" jsonschema:"levels to descend (default 1, at most 8)"`
}

func (r Folders) list(_ context.Context, a listArgs) (string, error) {
	if a.Path == "" {
		a.Path = "."
	}
	root, name, err := r.open(a.Path, false)
	if err != nil {
		return "", err
	}
	defer root.Close()
	var b strings.Builder
	entries := 0
	err = fs.WalkDir(root.FS(), filepath.ToSlash(name), func(at string, d fs.DirEntry, err error) error {
		below := strings.TrimPrefix(strings.TrimPrefix(at, filepath.ToSlash(name)), "/")
		switch {
		case at == filepath.ToSlash(name):
			if err == nil && !d.IsDir() {
				return fmt.Errorf("%s is not a folder", a.Path)
			}
			return err
		case err != nil:
			fmt.Fprintf(&b, "%q (cannot be read)\n", below)
			return nil
		case entries == maxListed:
			fmt.Fprintf(&b, "[more than %d entries: list a subfolder]\n", maxListed)
			return fs.SkipAll
		}
		entries++
		fmt.Fprintln(&b, entry(below, d))
		if d.IsDir() && strings.Count(below, "/")+1 >= min(max(a.Depth, 1), maxDepth) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return "", pathError(a.Path, err)
	}
	if entries == 0 {
		return "(empty)", nil
	}
	return b.String(), nil
}

// entry returns one line of a listing.
func entry(name string, d fs.DirEntry) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
		name = fmt.Sprintf("%q", name)
	}
	info, err := d.Info()
	switch {
	case d.IsDir():
		return name + "/"
	case err != nil || !d.Type().IsRegular():
		return name + " (not a regular file)"
	default:
		return fmt.Sprintf("%s %d", name, info.Size())
	}
}

// open returns the folder that contains path, and the path within it. The caller closes the
// folder.
func (r Folders) open(path string, write bool) (*os.Root, string, error) {
	if strings.ContainsRune(path, 0) || path == "" {
		return nil, "", fmt.Errorf("%q is not a path", path)
	}
	abs := path
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(r.Workdir, path)
	}
	rooms := []string{r.Output, r.Context, r.Workdir}
	if write {
		rooms = []string{r.Output, r.Workdir}
	}
	for _, dir := range rooms {
		name, err := filepath.Rel(dir, filepath.Clean(abs))
		if dir == "" || err != nil || !filepath.IsLocal(name) {
			continue
		}
		root, err := os.OpenRoot(dir)
		return root, name, err
	}
	return nil, "", fmt.Errorf("%s is outside the folders that you may %s: %s", path, map[bool]string{false: "read", true: "write"}[write], strings.Join(rooms, ", "))
}

// pathError replaces the system's path in an error by the model's.
func pathError(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", path, e.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
