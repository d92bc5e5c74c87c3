package turn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/internal/osfile"
)

const (
	contextName = "context"
	outputName  = "output"

	// maxCopied bounds the bytes that are copied from an earlier output folder.
	maxCopied = 256 << 20
)

// File is one file of the context folder. Name is slash-separated and local, such as
// "message.txt" or "attachments/1.pdf".
type File struct {
	Name string
	Body io.Reader
}

// FolderContents is the initial content of an attempt's context and output folders.
type FolderContents struct {
	Context []File
	Earlier string // output folder to copy to EarlierName in the context folder; "" copies none
	Carry   string // output folder to copy to the new output folder; "" leaves it empty
}

// LeftOutName is the file in the context folder that lists the files that were not copied.
const LeftOutName = "left-out.txt"

// EarlierName is the folder in the context folder that holds the files that an earlier attempt
// left.
const EarlierName = "earlier-output"

// Prepare is FolderContents.Prepare for an attempt that is not a retry.
func Prepare(dir string, context []File, carry string) error {
	return FolderContents{Context: context, Carry: carry}.Prepare(dir)
}

// Prepare makes the folder of an attempt (0700, output files 0600). context/ holds the files of
// Context; it is read-only, with its folders and files. From an earlier output folder, Prepare
// copies only regular files, up to a limit, and does not follow links. left-out.txt in the
// context folder lists the files that were not copied. A missing output folder counts as empty.
//
// Prepare never reuses a folder in which an agent was started: it returns an error, ErrHeld if
// the agent still lives. It replaces a folder that was only prepared.
func (b FolderContents) Prepare(dir string) error {
	held, _, err := Probe(dir)
	if err != nil {
		return err
	}
	if held {
		return fmt.Errorf("prepare %s: %w", dir, ErrHeld)
	}
	if _, err := os.Lstat(filepath.Join(dir, aliveName)); err == nil {
		return fmt.Errorf("prepare %s: an agent has already been started", dir)
	}
	if err := osfile.RemoveAll(dir); err != nil {
		return fmt.Errorf("prepare attempt: %w", err)
	}
	for _, d := range []string{dir, filepath.Join(dir, contextName), filepath.Join(dir, outputName)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("prepare attempt: %w", err)
		}
	}
	var leftOut []string
	if b.Carry != "" {
		if leftOut, err = copyOutput(b.Carry, filepath.Join(dir, outputName), "", 0o600); err != nil {
			return fmt.Errorf("prepare attempt: carry %s: %w", b.Carry, err)
		}
	}
	if err := b.fillContext(filepath.Join(dir, contextName), leftOut); err != nil {
		return fmt.Errorf("prepare attempt: %w", err)
	}
	return nil
}

// fillContext writes the context folder and makes it read-only.
func (b FolderContents) fillContext(dir string, leftOut []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range b.Context {
		if err := writeFileIn(root, f.Name, f.Body, 0o400); err != nil {
			return err
		}
	}
	if b.Earlier != "" {
		more, err := copyOutput(b.Earlier, dir, EarlierName, 0o400)
		if err != nil {
			return fmt.Errorf("copy %s: %w", b.Earlier, err)
		}
		leftOut = append(leftOut, more...)
	}
	if len(leftOut) > 0 {
		text := "Not copied from the earlier output folder:\n" + strings.Join(leftOut, "\n") + "\n"
		if err := writeFileIn(root, LeftOutName, strings.NewReader(text), 0o400); err != nil {
			return err
		}
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		folder, err := root.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(folder.Chmod(0o500), folder.Close())
	})
}

// writeFileIn creates a file below root.
func writeFileIn(root *os.Root, name string, from io.Reader, mode fs.FileMode) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// copyRoom is the number of bytes that may still be copied.
type copyRoom int64

func newCopyRoom() copyRoom { return maxCopied }

// reserve reserves room for a file of this size. It returns an error if the file does not fit.
func (c *copyRoom) reserve(size int64) error {
	if size > int64(*c) {
		return fmt.Errorf("%d bytes exceed the total limit of %d MiB", size, maxCopied>>20)
	}
	*c -= copyRoom(size)
	return nil
}

// copyOutput copies the regular files of an output folder into the folder name below to. It
// returns the skipped files and the reasons.
func copyOutput(from, to, name string, mode fs.FileMode) (leftOut []string, err error) {
	names, leftOut, err := listOutputFolder(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	left := newCopyRoom()
	for _, n := range names {
		f, err := openOutputFile(from, n)
		if err != nil { // its mode forbids it, or it changed since it was listed
			leftOut = append(leftOut, fmt.Sprintf("output: cannot open %q", n))
			continue
		}
		info, err := f.Stat()
		if err == nil {
			err = left.reserve(info.Size())
		}
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("output: %q: %v", n, err))
			f.Close()
			continue
		}
		// A writer that survived its attempt may still append.
		err = writeFileIn(root, path.Join(name, n), io.LimitReader(f, info.Size()), mode)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return leftOut, nil
}

// EarlierOutput returns the output folder of the newest attempt before the one in dir,
// turns/<turn_id>/<epoch>, that left a file there. Without such an attempt it returns "".
func EarlierOutput(dir string) string {
	own, err := strconv.ParseUint(filepath.Base(dir), 10, 64)
	if err != nil {
		return ""
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return ""
	}
	newest, output := uint64(0), ""
	for _, e := range entries {
		epoch, err := strconv.ParseUint(e.Name(), 10, 64)
		if err != nil || epoch >= own || epoch <= newest {
			continue
		}
		folder := filepath.Join(filepath.Dir(dir), e.Name(), outputName)
		if names, _, err := listOutputFolder(folder); err == nil && len(names) > 0 {
			newest, output = epoch, folder
		}
	}
	return output
}

// maxKeptPrompt is the largest prompt, in bytes, that stays after the attempt. A larger one is
// mostly the message.
const maxKeptPrompt = 256 << 10

// ClearContext empties the context folder of the attempt in dir, except for the files that keep
// names. The agent must have ended. The removed files are copies: of the message, its
// attachments, and earlier output. ClearContext also removes a very large prompt and the home of
// gemini. A file that cannot be removed stays until it is pruned. Afterwards every folder of the
// attempt is 0700, also one that the agent made read-only, so that a plain `rm -rf` removes it.
func ClearContext(dir string, keep ...string) {
	removeGeminiHome(dir) // its runner may have died before that
	osfile.MakeWritable(dir)
	prompt := filepath.Join(dir, promptName)
	if info, err := os.Lstat(prompt); err == nil && info.Size() > maxKeptPrompt {
		_ = os.Remove(prompt)
	}
	context := filepath.Join(dir, contextName)
	if info, err := os.Lstat(context); err != nil || !info.IsDir() {
		return // it was never made, or the agent has replaced it
	}
	root, err := openOutputFolder(context)
	if err != nil {
		return
	}
	defer root.Close()
	folder, err := root.Open(".")
	if err != nil {
		return
	}
	defer folder.Close()
	entries, _ := folder.ReadDir(-1)
	for _, e := range entries {
		if !e.Type().IsRegular() || !slices.Contains(keep, e.Name()) {
			_ = root.RemoveAll(e.Name())
		}
	}
}

// MakeWritable gives us all rights to the folders of the attempt in dir if a crash has left its
// context folder read-only. It does nothing while an agent holds the attempt.
func MakeWritable(dir string) {
	info, err := os.Lstat(filepath.Join(dir, contextName))
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o200 != 0 {
		return
	}
	if held, _, err := Probe(dir); err != nil || held {
		return
	}
	osfile.MakeWritable(dir)
}

// maxEvidence is the largest output folder, in bytes, that stays after a later attempt has left
// files.
const maxEvidence = 1 << 20

// DropEarlier removes large output folders that no later attempt begins with (EarlierOutput):
// those of attempts older than the newest one that left a file. The attempts range up to the one
// in dir, turns/<turn_id>/<epoch>. own lists the files that the attempt in dir has left.
func DropEarlier(dir string, own []string) {
	newest := dir
	if len(own) == 0 {
		output := EarlierOutput(dir)
		if output == "" {
			return
		}
		newest = filepath.Dir(output)
	}
	last, err := strconv.ParseUint(filepath.Base(newest), 10, 64)
	if err != nil {
		return
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		epoch, err := strconv.ParseUint(e.Name(), 10, 64)
		output := filepath.Join(filepath.Dir(dir), e.Name(), outputName)
		if err == nil && epoch < last && outputSize(output) > maxEvidence {
			_ = osfile.RemoveAll(output)
		}
	}
}

// outputSize returns the total size, in bytes, of the files that can be listed in an output folder.
func outputSize(output string) (n int64) {
	root, err := openOutputFolder(output)
	if err != nil {
		return 0
	}
	defer root.Close()
	l := listing{root: root}
	_ = l.folder(".", 0)
	for _, name := range l.names {
		if info, err := root.Lstat(filepath.FromSlash(name)); err == nil {
			n += info.Size()
		}
	}
	return n
}
