package mesh

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// How long the mesh keeps a blob while no waiting message names it.
const (
	keepUploaded = 24 * time.Hour // after its upload, if no message has named it yet
	keepReleased = time.Hour      // after the acknowledgement of the last message that named it
	sweepBlobs   = time.Minute    // how often the mesh looks for old blobs

	// transferTime limits one upload or download.
	transferTime = time.Minute
)

// blobQuota limits blobs. On an open mesh, all unproven senders together may use the quota of
// one proven sender, and at most a quarter of the total.
type blobQuota struct {
	bytes int64
	count int
}

var (
	senderBlobs = blobQuota{128 << 20, 256}
	diskQuota   = blobQuota{2 << 30, 8192}
	memoryQuota = blobQuota{128 << 20, 1024}
)

// blob describes a blob that is stored or being uploaded.
type blob struct {
	size     int64
	at       time.Time // of its upload, or of its release if later
	released bool      // messages have named it, but all of them are gone
	named    int       // waiting messages that name it
	arriving bool      // the upload is not complete
}

// blobs holds the files of the messages of a mesh (docs/protocol.md, "Files between agents"). The
// fields named and released follow the ledger.
type blobs struct {
	store  blobStore
	now    func() time.Time
	sender blobQuota
	total  blobQuota

	mu     sync.Mutex
	stored map[blobKey]*blob
	swept  time.Time
}

func newBlobs(store blobStore, total blobQuota, now func() time.Time) *blobs {
	return &blobs{store: store, now: now, sender: senderBlobs, total: total, stored: map[blobKey]*blob{}}
}

// blobsOf returns the keys of the files of a message.
func blobsOf(m Message) []blobKey {
	keys := make([]blobKey, len(m.Files))
	for i, f := range m.Files {
		keys[i] = blobKey{blobOwner(m.From, m.Proven), f.SHA256}
	}
	return keys
}

// name counts the waiting message m for each of its files. If a file is missing or has another
// size, name returns the name of the first such file and changes no count.
func (b *blobs) name(m Message) (missing string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := blobsOf(m)
	for i, k := range keys {
		if row := b.stored[k]; row == nil || row.arriving || row.size != m.Files[i].Size {
			return m.Files[i].Name
		}
	}
	for _, k := range keys {
		b.stored[k].named++
	}
	return ""
}

// release undoes name for a message that is gone.
func (b *blobs) release(m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range blobsOf(m) {
		row := b.stored[k]
		if row == nil || row.named == 0 {
			continue // the blob was lost
		}
		if row.named--; row.named == 0 {
			row.released, row.at = true, b.now()
		}
	}
}

// restore loads the blobs that an earlier process stored, and counts the waiting messages.
func (b *blobs) restore(files []storedBlob, waiting []Message) {
	for _, h := range files {
		b.stored[h.blobKey] = &blob{size: h.size, at: h.at}
	}
	for _, m := range waiting {
		for _, k := range blobsOf(m) {
			if row := b.stored[k]; row != nil {
				row.named++
			}
		}
	}
}

// sweep removes old blobs, at most once a minute.
func (b *blobs) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if age := now.Sub(b.swept); age >= 0 && age < sweepBlobs {
		return
	}
	b.swept = now
	for k, row := range b.stored {
		keep := keepUploaded
		if row.released {
			keep = keepReleased
		}
		if row.named > 0 || row.arriving || now.Sub(row.at) < keep {
			continue
		}
		if b.store.remove(k) == nil {
			delete(b.stored, k)
		}
	}
}

// reserve makes room for an upload. exists is true if the blob is already stored.
func (b *blobs) reserve(k blobKey, size int64) (exists bool, err error) {
	b.sweep()
	b.mu.Lock()
	defer b.mu.Unlock()
	if row := b.stored[k]; row != nil {
		switch {
		case row.arriving:
			return false, busyBlobs(http.StatusServiceUnavailable, "this file is already being uploaded")
		case row.size != size:
			return false, refuse(http.StatusUnprocessableEntity, "the file does not match its SHA-256")
		}
		if !row.released && row.named == 0 {
			row.at = b.now() // the 24 hours of an upload begin again
		}
		return true, nil
	}
	var all, own blobQuota
	for key, row := range b.stored {
		all.bytes, all.count = all.bytes+row.size, all.count+1
		if key.owner == k.owner {
			own.bytes, own.count = own.bytes+row.size, own.count+1
		}
	}
	total := b.total
	if k.owner == unprovenOwner {
		total = blobQuota{total.bytes / 4, total.count / 4}
	}
	switch {
	case own.bytes+size > b.sender.bytes || own.count >= b.sender.count:
		return false, busyBlobs(http.StatusTooManyRequests, "the mesh holds %d of your files with %d MiB, and the limit is %d files with %d MiB; it removes files an hour after they are read", own.count, own.bytes>>20, b.sender.count, b.sender.bytes>>20)
	case all.bytes+size > total.bytes || all.count >= total.count:
		return false, busyBlobs(http.StatusInsufficientStorage, "the mesh holds %d files of all agents with %d MiB, and the limit is %d files with %d MiB; it removes files an hour after they are read", all.count, all.bytes>>20, total.count, total.bytes>>20)
	}
	b.stored[k] = &blob{size: size, at: b.now(), arriving: true}
	return false, nil
}

func busyBlobs(code int, format string, args ...any) error {
	r := refuse(code, format, args...)
	r.after = time.Minute
	return r
}

// take stores an upload for which reserve made room. It computes the sum while it reads.
func (b *blobs) take(k blobKey, size int64, r io.Reader) error {
	sum := &hashingReader{r: io.LimitReader(r, size+1), hash: sha256.New()}
	err := b.store.keep(k, sum, func() error {
		switch {
		case sum.n != size:
			return refuse(http.StatusBadRequest, "the file has %d bytes instead of the announced %d", sum.n, size)
		case sum.text() != k.sum:
			return refuse(http.StatusUnprocessableEntity, "the file does not match its SHA-256")
		}
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		delete(b.stored, k)
		return err
	}
	row := b.stored[k]
	row.arriving, row.at = false, b.now()
	return nil
}

// errBlobDamaged means that the bytes of a blob do not match its sum.
var errBlobDamaged = errors.New("it is damaged")

// read returns a blob whose bytes match its sum. The error wraps fs.ErrNotExist if the blob is
// missing or damaged. A damaged blob is removed, so that its sender can upload it again. A blob
// that cannot be read now, because of the disk or for lack of a file descriptor, stays.
func (b *blobs) read(k blobKey) (io.ReadCloser, int64, error) {
	b.mu.Lock()
	row := b.stored[k]
	exists := row != nil && !row.arriving
	b.mu.Unlock()
	if !exists {
		return nil, 0, fs.ErrNotExist
	}
	f, err := b.store.open(k)
	if err == nil {
		sum := &hashingReader{r: io.LimitReader(f, MaxFile+1), hash: sha256.New()}
		_, err = io.Copy(io.Discard, sum)
		if err == nil && sum.text() != k.sum {
			err = errBlobDamaged
		}
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err == nil {
			return f, sum.n, nil
		}
		f.Close()
	}
	if !errors.Is(err, errBlobDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stored[k] == row && b.store.remove(k) == nil {
		delete(b.stored, k)
	}
	return nil, 0, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
}

// has returns the size of a blob and reports whether it is stored.
func (b *blobs) has(k blobKey) (int64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	row := b.stored[k]
	if row == nil || row.arriving {
		return 0, false
	}
	return row.size, true
}

// hashingReader computes the sum of the bytes that are read through it.
type hashingReader struct {
	r    io.Reader
	hash hash.Hash
	n    int64
}

func (s *hashingReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.hash.Write(p[:n])
	s.n += int64(n)
	return n, err
}

func (s *hashingReader) text() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// putBlob takes a file that a message will name. It answers 201, or 200 if the same caller has
// already uploaded the file.
func (s *Server) putBlob(w http.ResponseWriter, r *http.Request, caller string) (int, any, error) {
	sum := r.PathValue("sha256")
	switch {
	case !validSum(sum):
		return 0, nil, refuse(http.StatusBadRequest, "the path must end in a SHA-256: 64 lowercase hexadecimal digits")
	case r.ContentLength < 0:
		return 0, nil, refuse(http.StatusLengthRequired, "Content-Length is missing")
	case r.ContentLength > MaxFile:
		return 0, nil, refuse(http.StatusRequestEntityTooLarge, "the file exceeds %d MiB", MaxFile>>20)
	}
	k := blobKey{blobOwner(caller, caller != ""), sum}
	exists, err := s.blobs.reserve(k, r.ContentLength)
	if err != nil {
		return 0, nil, err
	}
	answer := map[string]string{"sha256": sum}
	if exists {
		return http.StatusOK, answer, nil
	}
	allowTransfer(w)
	err = s.blobs.take(k, r.ContentLength, r.Body)
	if errors.Is(err, errDisk) {
		code := http.StatusServiceUnavailable
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			code = http.StatusInsufficientStorage
		}
		err = busyBlobs(code, "%v", cmp.Or(withoutPath(err), err))
	}
	return http.StatusCreated, answer, err
}

// withoutPath returns the error of a file operation without the path, or nil for any other error.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%w: %w", errDisk, p.Err)
	}
	return nil
}

// getBlob answers with a file that the caller uploaded, or that a message waiting for the
// caller names. HEAD answers with the length alone.
func (s *Server) getBlob(w http.ResponseWriter, r *http.Request, caller string) (int, any, error) {
	sum := r.PathValue("sha256")
	notFound := refuse(http.StatusNotFound, "no message in your mailbox names this file")
	k, ok := s.blobFor(caller, sum)
	if !ok {
		return 0, nil, notFound
	}
	if r.Method == http.MethodHead {
		size, ok := s.blobs.has(k)
		if !ok {
			return 0, nil, notFound
		}
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		return http.StatusOK, nil, nil
	}
	f, size, err := s.blobs.read(k)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil, notFound
	case err != nil:
		return 0, nil, busyBlobs(http.StatusServiceUnavailable, "the mesh cannot read the file: try again")
	}
	defer f.Close()
	allowTransfer(w)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	io.Copy(w, f) // if the connection breaks, the caller gets fewer bytes than the length
	return answerWritten, nil, nil
}

// blobFor returns the key of the blob with this sum that the caller may read.
func (s *Server) blobFor(caller, sum string) (blobKey, bool) {
	own := blobKey{caller, sum}
	if _, ok := s.blobs.has(own); ok && caller != "" {
		return own, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if caller != "" {
		return s.blobIn(caller, sum)
	}
	// An unproven caller may read every mailbox without a token.
	for handle := range s.ledger.mailboxes {
		if s.options.Tokens[handle] != "" {
			continue
		}
		if k, ok := s.blobIn(handle, sum); ok {
			return k, true
		}
	}
	return blobKey{}, false
}

// blobIn returns the key of a stored blob with this sum that a message in the mailbox names.
// The caller holds mu.
func (s *Server) blobIn(handle, sum string) (blobKey, bool) {
	for _, h := range s.ledger.mailboxes[handle] {
		for _, k := range blobsOf(h.Message) {
			if k.sum != sum {
				continue
			}
			if _, ok := s.blobs.has(k); ok {
				return k, true
			}
		}
	}
	return blobKey{}, false
}

// allowTransfer extends the timeouts of a call to the time that a file takes. It ignores the
// errors: a handler without a connection has no timeout.
func allowTransfer(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(transferTime))
	_ = c.SetWriteDeadline(time.Now().Add(transferTime + writeTimeout))
}
