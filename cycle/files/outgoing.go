package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Max limits the files of a message.
const Max = mesh.MaxFiles

// blobs stores the bytes of files on a mesh, as a Carrier does.
type blobs interface {
	PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error
	GetBlob(ctx context.Context, from string, f mesh.File, take func(io.Reader) error) error
}

// OpenFile is a file that goes with a message to another agent.
type OpenFile struct {
	Name string // without a folder
	Body io.ReadSeeker
}

// Upload uploads files at once, for a message to an agent that no turn sends. It returns
// the entries of the files in the message.
func Upload(ctx context.Context, carrier blobs, to string, files []OpenFile) ([]mesh.File, error) {
	var uploaded []mesh.File
	for _, f := range files {
		h := sha256.New()
		body := &sniffer{r: io.LimitReader(f.Body, mesh.MaxFile+1)}
		if _, err := io.Copy(h, body); err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name, err)
		}
		if _, err := f.Body.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name, err)
		}
		uploaded = append(uploaded, mesh.File{SHA256: hex.EncodeToString(h.Sum(nil)), Name: f.Name, Type: message.MediaType(f.Name, body.head), Size: body.n})
	}
	if err := mesh.CheckFiles(uploaded); err != nil {
		return nil, err
	}
	for i, f := range uploaded {
		if err := carrier.PutBlob(ctx, to, f.SHA256, f.Size, files[i].Body); err != nil {
			return nil, fmt.Errorf("the file %s: %w", f.Name, err)
		}
	}
	return uploaded, nil
}

// Open opens files to go with a message; the caller closes them. A file that is too large,
// or is not a regular file, is an error.
func Open(paths []string) (files []OpenFile, closeAll func(), err error) {
	return openAll(paths, os.OpenFile)
}

// OpenIn is Open for names in a folder. No name leads out of it, not even
// through a link.
func OpenIn(dir string, names []string) (files []OpenFile, closeAll func(), err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	return openAll(names, root.OpenFile)
}

func openAll(paths []string, open func(string, int, os.FileMode) (*os.File, error)) (files []OpenFile, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, f := range opened {
			f.Close()
		}
	}
	if len(paths) > mesh.MaxFiles {
		return nil, nil, fmt.Errorf("too many files: %d, and a message can have %d", len(paths), mesh.MaxFiles)
	}
	for _, p := range paths {
		// Without O_NONBLOCK a named pipe would hang us.
		f, err := open(p, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			opened = append(opened, f)
			err = FitsMessage(f, p)
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		files = append(files, OpenFile{Name: filepath.Base(p), Body: f})
	}
	return files, closeAll, nil
}

// FitsMessage returns an error unless an open file can go with a message.
func FitsMessage(f *os.File, name string) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", name)
	case info.Size() > mesh.MaxFile:
		return fmt.Errorf("%s has %d bytes: the limit for a file to another agent is %d MiB", name, info.Size(), mesh.MaxFile>>20)
	}
	return nil
}

// Outgoing keeps the files of our messages until they are sent.
type Outgoing struct{ Store *store.Store }

// Keep copies files into the outbox, durably, before the commit that names them.
func (o Outgoing) Keep(files []OpenFile) (refs []state.FileRef, err error) {
	defer func() {
		if err != nil {
			o.Drop(refs)
			refs = nil
		}
	}()
	if len(files) > mesh.MaxFiles {
		return nil, fmt.Errorf("too many files: %d, and a message can have %d", len(files), mesh.MaxFiles)
	}
	left := int64(mesh.MaxFilesBytes)
	for _, f := range files {
		if !mesh.ValidFileName(f.Name) {
			return refs, fmt.Errorf("%q is not allowed as a file name in messages between agents", f.Name)
		}
		ref, err := o.KeepOne(f, mesh.MaxFile)
		if err != nil {
			return refs, err
		}
		refs = append(refs, ref)
		if left -= ref.Size; left < 0 {
			return refs, fmt.Errorf("the files exceed %d MiB in total, the limit of a message", mesh.MaxFilesBytes>>20)
		}
	}
	return refs, nil
}

// KeepOne copies a file of at most most bytes.
func (o Outgoing) KeepOne(f OpenFile, most int64) (state.FileRef, error) {
	ref := state.FileRef{FileName: f.Name, File: path.Join(store.OutboxDir, "file."+store.NewID())}
	body := &sniffer{r: io.LimitReader(f.Body, most+1)}
	var err error
	ref.Sum, err = o.Store.KeepSummed(ref.File, body)
	if err == nil && body.n > most {
		err = fmt.Errorf("it exceeds %d MiB", most>>20)
	}
	if err != nil {
		_ = o.Store.Remove(ref.File)
		return ref, fmt.Errorf("save %s: %w", f.Name, withoutPath(err))
	}
	ref.Size, ref.Type = body.n, message.MediaType(f.Name, body.head)
	return ref, nil
}

// withoutPath removes our path from a system error, because other agents must not learn it.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

// Drop removes copies that no row names. A copy that cannot be removed is pruned later.
func (o Outgoing) Drop(refs []state.FileRef) {
	for _, ref := range refs {
		if ref.File != "" {
			_ = o.Store.Remove(ref.File)
		}
	}
}

// TakeOut removes the originals of the outbox's copies from the output folder. The row that
// names the copies must be durable, and the agent must have ended. After a crash an original
// may stay there; its copy is still removed with the row.
func (o Outgoing) TakeOut(refs []state.FileRef) {
	for _, ref := range refs {
		if ref.Place != "" {
			_ = o.Store.Remove(ref.Place)
		}
	}
}

// GiveBack removes the copies of a row that has ended. It moves a large file back to the place
// where the agent left it.
func (o Outgoing) GiveBack(refs []state.FileRef) {
	for _, ref := range refs {
		if ref.Place != "" && o.Store.MoveBack(ref.File, ref.Place) == nil {
			continue
		}
		o.Drop([]state.FileRef{ref})
	}
}

// sniffer counts the bytes that are read through it, and keeps the beginning.
type sniffer struct {
	r    io.Reader
	n    int64
	head []byte
}

func (s *sniffer) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if want := 512 - len(s.head); want > 0 {
		s.head = append(s.head, p[:min(n, want)]...)
	}
	return n, err
}

// ForMesh returns the files of an effect as entries of a mesh message.
func ForMesh(refs []state.FileRef) []mesh.File {
	var files []mesh.File
	for _, r := range refs {
		files = append(files, mesh.File{SHA256: r.Sum, Name: r.FileName, Type: r.Type, Size: r.Size})
	}
	return files
}
