package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"agentstateloop/mail/message"
	"agentstateloop/state/store"
)

// ReceivedFile is a file that came with a message, or goes with one.
type ReceivedFile struct {
	Name    string  `json:"name"`    // ours, attachment-1.csv; on the mesh the sender's if it is safe
	Title   string  `json:"title"`   // the name that the sender gave it, or ""
	Type    string  `json:"type"`    // the media type that the sender declared
	Size    int64   `json:"size"`    // in bytes
	Path    *string `json:"path"`    // of its bytes as a file, or null
	Missing string  `json:"missing"` // why it is missing, or ""

	SaveAs string `json:"-"` // the sender's name if it is safe, otherwise ours
	open   func() (io.ReadCloser, error)
}

// Line formats a file as one line, as a prompt lists it, but without its place.
func (f ReceivedFile) Line() string {
	return ListedFile{Name: f.Name, title: f.Title, kind: f.Type, size: f.Size, missing: f.Missing}.Line()
}

// Attachments lists the files and the notes that came with the text of a message.
type Attachments struct {
	Files    []ReceivedFile // never nil
	Problems []string       // problems of a mail's structure; never nil
	LeftOut  string         // a note about the lines of a mail that only full.txt has, or ""
	Instead  string         // the note that replaces the text of a mail without text of its own, or ""
}

// AttachedToMail returns the files and notes of a mail.
func AttachedToMail(content message.Content) Attachments {
	attached := Attachments{Files: []ReceivedFile{}, Problems: append([]string{}, content.Problems...), LeftOut: content.Left.String(), Instead: content.Placeholder()}
	listed, _ := FromMail("", content.Attachments)
	for i, l := range listed {
		data := content.Attachments[i].Data
		attached.Files = append(attached.Files, ReceivedFile{
			Name: l.Name, Title: l.title, Type: l.kind, Size: l.size, SaveAs: l.place,
			open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		})
	}
	return attached
}

// InStore gives a file its path in the state directory, where it is kept under the name at. A
// missing file stays as it is.
func InStore(st *store.Store, f ReceivedFile, at string) ReceivedFile {
	if f.Missing != "" {
		return f
	}
	file := st.Path(at)
	f.Path = &file
	f.open = func() (io.ReadCloser, error) { return st.Open(at) }
	return f
}

// ErrExists means that a file was not saved, because another one has its name.
var ErrExists = errors.New("it already exists, and is not overwritten")

// Save writes the files into a folder, each under its sender's name if that is safe, and sets
// their paths. It makes the folder if necessary. It overwrites no file and follows no link in
// the folder: if one of the names is taken, it writes no files, and the error wraps
// ErrExists. It leaves out missing files.
func (c *Attachments) Save(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range c.Files {
		if _, err := root.Lstat(f.SaveAs); f.Missing == "" && !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = ErrExists
			}
			return fmt.Errorf("%s: %w", filepath.Join(dir, f.SaveAs), err)
		}
	}
	for i, f := range c.Files {
		if f.Missing != "" {
			continue
		}
		file := filepath.Join(dir, f.SaveAs)
		if err := f.saveIn(root); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		c.Files[i].Path = &file
	}
	return nil
}

// saveIn writes a new file. It removes a file that could not be written whole.
func (f ReceivedFile) saveIn(root *os.Root) error {
	from, err := f.open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := root.OpenFile(f.SaveAs, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, root.Remove(f.SaveAs))
	}
	return nil
}
