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

// How long a blob is kept that no waiting message names.
const (
	keepUploaded = 24 * time.Hour // after its upload, until a message names it
	keepReleased = time.Hour      // after the last message that named it was acknowledged
	sweepBlobs   = time.Minute    // how often old blobs are looked for

	// transferTime is how long one upload or download may take.
	transferTime = time.Minute
)

// blobQuota bounds blobs. Of an open mesh, all unproven senders together may use what one
// proven sender may, and a quarter of the whole.
type blobQuota struct {
	bytes int64
	count int
}

var (
	senderBlobs = blobQuota{128 << 20, 256}
	diskQuota   = blobQuota{2 << 30, 8192}
	memoryQuota = blobQuota{128 << 20, 1024}
)

// blob is what is known of a blob that is kept, or being uploaded.
type blob struct {
	size     int64
	at       time.Time // of its upload, or of its release if that was later
	released bool      // a message has named it, and none does now
	named    int       // waiting messages that name it
	arriving bool      // it is not whole yet
}

// blobs are the files that go with the messages of a mesh (docs/design.md, "Files between
// agents"). named and released follow the ledger.
type blobs struct {
	store  blobStore
	now    func() time.Time
	sender blobQuota
	total  blobQuota

	mu    sync.Mutex
	held  map[blobKey]*blob
	swept time.Time
}

func newBlobs(store blobStore, total blobQuota, now func() time.Time) *blobs {
	return &blobs{store: store, now: now, sender: senderBlobs, total: total, held: map[blobKey]*blob{}}
}

// blobsOf returns the keys of the files that a message names.
func blobsOf(m Message) []blobKey {
	keys := make([]blobKey, len(m.Files))
	for i, f := range m.Files {
		keys[i] = blobKey{blobOwner(m.From, m.Proven), f.SHA256}
	}
	return keys
}

// name notes that a waiting message names its files. It returns the first one that is not
// there, or differs in size; then it notes nothing.
func (b *blobs) name(m Message) (missing string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := blobsOf(m)
	for i, k := range keys {
		if row := b.held[k]; row == nil || row.arriving || row.size != m.Files[i].Size {
			return m.Files[i].Name
		}
	}
	for _, k := range keys {
		b.held[k].named++
	}
	return ""
}

// release notes that a message is gone.
func (b *blobs) release(m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range blobsOf(m) {
		row := b.held[k]
		if row == nil || row.named == 0 {
			continue // it was lost
		}
		if row.named--; row.named == 0 {
			row.released, row.at = true, b.now()
		}
	}
}

// restore takes over what an earlier process has kept, and the messages that wait.
func (b *blobs) restore(held []heldBlob, waiting []Message) {
	for _, h := range held {
		b.held[h.blobKey] = &blob{size: h.size, at: h.at}
	}
	for _, m := range waiting {
		for _, k := range blobsOf(m) {
			if row := b.held[k]; row != nil {
				row.named++
			}
		}
	}
}

// sweep removes what is old, at most once a minute.
func (b *blobs) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if age := now.Sub(b.swept); age >= 0 && age < sweepBlobs {
		return
	}
	b.swept = now
	for k, row := range b.held {
		keep := keepUploaded
		if row.released {
			keep = keepReleased
		}
		if row.named > 0 || row.arriving || now.Sub(row.at) < keep {
			continue
		}
		if b.store.remove(k) == nil {
			delete(b.held, k)
		}
	}
}

// reserve makes room for an upload. there is true if the blob is kept already.
func (b *blobs) reserve(k blobKey, size int64) (there bool, err error) {
	b.sweep()
	b.mu.Lock()
	defer b.mu.Unlock()
	if row := b.held[k]; row != nil {
		switch {
		case row.arriving:
			return false, busyBlobs(http.StatusServiceUnavailable, "this file is being uploaded already")
		case row.size != size:
			return false, refuse(http.StatusUnprocessableEntity, "the bytes of the file have another SHA-256")
		}
		if !row.released && row.named == 0 {
			row.at = b.now() // the day of an upload begins again
		}
		return true, nil
	}
	var all, own blobQuota
	for held, row := range b.held {
		all.bytes, all.count = all.bytes+row.size, all.count+1
		if held.owner == k.owner {
			own.bytes, own.count = own.bytes+row.size, own.count+1
		}
	}
	total := b.total
	if k.owner == unprovenOwner {
		total = blobQuota{total.bytes / 4, total.count / 4}
	}
	switch {
	case own.bytes+size > b.sender.bytes || own.count >= b.sender.count:
		return false, busyBlobs(http.StatusTooManyRequests, "the mesh holds %d files of yours with %d MiB, which is the limit; it removes them an hour after they were read", own.count, own.bytes>>20)
	case all.bytes+size > total.bytes || all.count >= total.count:
		return false, busyBlobs(http.StatusInsufficientStorage, "the mesh holds as many files as it may; it removes them an hour after they were read")
	}
	b.held[k] = &blob{size: size, at: b.now(), arriving: true}
	return false, nil
}

func busyBlobs(code int, format string, args ...any) error {
	r := refuse(code, format, args...)
	r.after = time.Minute
	return r
}

// take keeps an upload for which room is reserved. The sum is made while it is read.
func (b *blobs) take(k blobKey, size int64, r io.Reader) error {
	sum := &summed{r: io.LimitReader(r, size+1), hash: sha256.New()}
	err := b.store.keep(k, sum, func() error {
		switch {
		case sum.n != size:
			return refuse(http.StatusBadRequest, "the file has %d bytes and not the %d that were announced", sum.n, size)
		case sum.text() != k.sum:
			return refuse(http.StatusUnprocessableEntity, "the bytes of the file have another SHA-256")
		}
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		delete(b.held, k)
		return err
	}
	row := b.held[k]
	row.arriving, row.at = false, b.now()
	return nil
}

// errBlobDamaged means that the bytes of a blob are not those of its sum.
var errBlobDamaged = errors.New("it is damaged")

// read returns a blob whose bytes are what they were. The error wraps fs.ErrNotExist if
// there is none. A damaged one is removed, so that its sender can upload it again. One
// that cannot be read now, for want of a file descriptor or because of the disk, stays.
func (b *blobs) read(k blobKey) (io.ReadCloser, int64, error) {
	b.mu.Lock()
	row := b.held[k]
	there := row != nil && !row.arriving
	b.mu.Unlock()
	if !there {
		return nil, 0, fs.ErrNotExist
	}
	f, err := b.store.open(k)
	if err == nil {
		sum := &summed{r: io.LimitReader(f, MaxFile+1), hash: sha256.New()}
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
	if b.held[k] == row && b.store.remove(k) == nil {
		delete(b.held, k)
	}
	return nil, 0, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
}

// has reports whether a blob is kept, and its size.
func (b *blobs) has(k blobKey) (int64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	row := b.held[k]
	if row == nil || row.arriving {
		return 0, false
	}
	return row.size, true
}

// summed makes the sum of what is read through it.
type summed struct {
	r    io.Reader
	hash hash.Hash
	n    int64
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.hash.Write(p[:n])
	s.n += int64(n)
	return n, err
}

func (s *summed) text() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// putBlob takes a file that a message is going to name. It answers 201, or 200 if the
// same caller has uploaded it before.
func (s *Server) putBlob(w http.ResponseWriter, r *http.Request, caller string) (int, any, error) {
	sum := r.PathValue("sha256")
	switch {
	case !validSum(sum):
		return 0, nil, refuse(http.StatusBadRequest, "the path must end in a SHA-256 of 64 hexadecimal digits in lower case")
	case r.ContentLength < 0:
		return 0, nil, refuse(http.StatusLengthRequired, "say in Content-Length how long the file is")
	case r.ContentLength > MaxFile:
		return 0, nil, refuse(http.StatusRequestEntityTooLarge, "the file has more than %d MiB", MaxFile>>20)
	}
	k := blobKey{blobOwner(caller, caller != ""), sum}
	there, err := s.blobs.reserve(k, r.ContentLength)
	if err != nil {
		return 0, nil, err
	}
	answer := map[string]string{"sha256": sum}
	if there {
		return http.StatusOK, answer, nil
	}
	allowTransfer(w)
	err = s.blobs.take(k, r.ContentLength, r.Body)
	if errors.Is(err, errDisk) {
		code := http.StatusServiceUnavailable
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			code = http.StatusInsufficientStorage
		}
		err = busyBlobs(code, "%v", cmp.Or(pathless(err), err))
	}
	return http.StatusCreated, answer, err
}

// pathless returns what the system says of a path, without the path.
func pathless(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%w: %w", errDisk, p.Err)
	}
	return nil
}

// getBlob answers with a file that a waiting message of the caller names, or that the
// caller has uploaded. HEAD answers without it.
func (s *Server) getBlob(w http.ResponseWriter, r *http.Request, caller string) (int, any, error) {
	sum := r.PathValue("sha256")
	gone := refuse(http.StatusNotFound, "no message that waits for you names such a file")
	k, ok := s.blobFor(caller, sum)
	if !ok {
		return 0, nil, gone
	}
	if r.Method == http.MethodHead {
		size, ok := s.blobs.has(k)
		if !ok {
			return 0, nil, gone
		}
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		return http.StatusOK, nil, nil
	}
	f, size, err := s.blobs.read(k)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil, gone
	case err != nil:
		return 0, nil, busyBlobs(http.StatusServiceUnavailable, "the mesh cannot read the file now")
	}
	defer f.Close()
	allowTransfer(w)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	io.Copy(w, f) // a caller that goes away has less than the length
	return written, nil, nil
}

// blobFor returns the blob with this sum that the caller may read.
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

// blobIn returns a blob with this sum that is kept and that a message in the mailbox
// names. The caller holds mu.
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

// allowTransfer gives a call the time that a file takes. The error does not matter: a
// handler without a connection has no timeout.
func allowTransfer(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(transferTime))
	_ = c.SetWriteDeadline(time.Now().Add(transferTime + writeTimeout))
}
