package mesh

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentstateloop/internal/osfile"
)

// blobKey identifies a blob. Each uploader has its own copy of the bytes, even if another
// uploader sent the same bytes. So knowing a sum is not enough to read the bytes.
type blobKey struct{ owner, sum string }

// blobOwner returns the owner of a sender's uploads. All unproven senders share one owner.
func blobOwner(handle string, proven bool) string {
	if !proven {
		return unprovenOwner
	}
	return handle
}

// unprovenOwner owns the blobs of all unproven senders. It is not a valid handle.
const unprovenOwner = "-unproven"

// storedBlob is a blob that an earlier process stored.
type storedBlob struct {
	blobKey
	size int64
	at   time.Time
}

// blobStore stores bytes under their keys. A failed keep leaves no blob.
type blobStore interface {
	// keep reads r to its end and then calls check. It stores the bytes if check returns nil.
	// In a store on disk, the blob survives a power failure once keep returns.
	keep(k blobKey, r io.Reader, check func() error) error
	open(k blobKey) (io.ReadSeekCloser, error)
	remove(k blobKey) error
}

// memoryBlobs keeps blobs in memory.
type memoryBlobs struct {
	mu    sync.Mutex
	blobs map[blobKey][]byte
}

func (m *memoryBlobs) keep(k blobKey, r io.Reader, check func() error) error {
	data, err := io.ReadAll(r)
	if err == nil {
		err = check()
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[k] = data
	return nil
}

func (m *memoryBlobs) open(k blobKey) (io.ReadSeekCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.blobs[k]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return readSeekNopCloser{bytes.NewReader(data)}, nil
}

func (m *memoryBlobs) remove(k blobKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, k)
	return nil
}

type readSeekNopCloser struct{ io.ReadSeeker }

func (readSeekNopCloser) Close() error { return nil }

// diskBlobs keeps blobs in a folder: dir/OWNER/SUM. It fsyncs the bytes before it gives them
// that name, and the name before keep returns.
type diskBlobs struct{ dir string }

// uploadPrefix begins the names of incomplete uploads.
const uploadPrefix = "upload-"

// openDiskBlobs opens the folder, removes incomplete uploads, and returns the blobs in it. It
// leaves other files alone.
func openDiskBlobs(dir string) (*diskBlobs, []storedBlob, error) {
	if err := osfile.MkdirAll(dir); err != nil {
		return nil, nil, err
	}
	if err := osfile.Folder(dir); err != nil {
		return nil, nil, err
	}
	// A killed process may have made the folder of a sender without an fsync.
	if err := osfile.SyncDir(dir); err != nil {
		return nil, nil, err
	}
	owners, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	var stored []storedBlob
	for _, o := range owners {
		switch {
		case o.Type().IsRegular() && strings.HasPrefix(o.Name(), uploadPrefix):
			if err := os.Remove(filepath.Join(dir, o.Name())); err != nil {
				return nil, nil, err
			}
		case o.IsDir():
			files, err := os.ReadDir(filepath.Join(dir, o.Name()))
			if err != nil {
				return nil, nil, err
			}
			for _, f := range files {
				info, err := f.Info()
				if err == nil && info.Mode().IsRegular() && validSum(f.Name()) {
					stored = append(stored, storedBlob{blobKey{o.Name(), f.Name()}, info.Size(), info.ModTime()})
				}
			}
		}
	}
	return &diskBlobs{dir}, stored, nil
}

func (d *diskBlobs) path(k blobKey) string { return filepath.Join(d.dir, k.owner, k.sum) }

func (d *diskBlobs) keep(k blobKey, r io.Reader, check func() error) (err error) {
	if err := osfile.MkdirAll(filepath.Join(d.dir, k.owner)); err != nil {
		return keepError(err)
	}
	f, err := osfile.OpenFile(filepath.Join(d.dir, uploadPrefix+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return keepError(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name()) // if this fails, the next start removes it
		}
	}()
	disk := &diskWriter{f: f}
	if _, err := io.Copy(disk, r); err != nil {
		if disk.err != nil {
			return keepError(disk.err)
		}
		return err
	}
	if err := check(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return keepError(err)
	}
	if err := f.Close(); err != nil {
		return keepError(err)
	}
	if err := os.Rename(f.Name(), d.path(k)); err != nil {
		return keepError(err)
	}
	if err := osfile.SyncDir(filepath.Join(d.dir, k.owner)); err != nil {
		return keepError(err)
	}
	return nil
}

func (d *diskBlobs) open(k blobKey) (io.ReadSeekCloser, error) { return osfile.Open(d.path(k)) }

func (d *diskBlobs) remove(k blobKey) error {
	if err := os.Remove(d.path(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// diskWriter remembers an error of the disk, to tell it from an error of the sender.
type diskWriter struct {
	f   *os.File
	err error
}

func (w *diskWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.err = err
	return n, err
}

// errDisk means that the disk of the mesh is full or fails.
var errDisk = errors.New("the mesh cannot write the file")

func keepError(err error) error { return fmt.Errorf("%w: %w", errDisk, err) }
