package mesh

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gofrs/flock"

	"agentstateloop/internal/osfile"
)

// journalVersion is in the first line of a log. A mesh refuses a log of a newer version.
const journalVersion = 1

// journal is the ledger on disk: the file mesh.log, one JSON record per line. Records are
// appended and fsynced. When the log has grown, a snapshot replaces it. A database is not
// needed: the whole ledger is limited and in memory, each record is independent, and the log
// can be read with less.
//
// A record is fsynced before its sender gets an answer. A failed write or fsync is never
// repeated on the same file; the log is rewritten to a new one.
type journal struct {
	path string
	lock *flock.Flock

	pending []byte // unwritten records; guarded by Server.mu

	writing sync.Mutex // held while writing; taken before Server.mu
	file    *os.File
	size    int64
	limit   int64 // size above which the log is rewritten
	dirty   bool  // written but not fsynced
	broken  bool  // a write failed; the log must be rewritten
}

// ErrServed reports that another process serves a mesh from the directory.
var ErrServed = errors.New("another mesh is already running in this directory")

// OpenServer returns a mesh that keeps its content in dir. It creates dir with mode 0700 if
// necessary. Messages answered 202, HALT and the registry survive a crash of the process and,
// if fsync works, of the machine. The caller must Close the server.
//
// OpenServer returns ErrServed if another process serves from dir, and an error if a newer
// version wrote the log. If some lines of the log cannot be read, it sets a copy of the log
// aside (see SetAside) and keeps the other lines.
func OpenServer(dir string, o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := osfile.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("create mesh directory: %w", err)
	}
	lock, err := osfile.Lock(filepath.Join(dir, "mesh.lock"))
	if err != nil {
		return nil, fmt.Errorf("lock mesh directory: %w", err)
	}
	switch free, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock mesh directory: %w", err)
	case !free:
		return nil, fmt.Errorf("lock mesh directory %s: %w", dir, ErrServed)
	}
	s := NewServer(o)
	s.journal = &journal{path: filepath.Join(dir, "mesh.log"), lock: lock, broken: true} // until the log is rewritten
	if err := s.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	store, files, err := openDiskBlobs(filepath.Join(dir, "blobs"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open mesh files: %w", err), lock.Close())
	}
	s.blobs = newBlobs(store, diskQuota, s.clock)
	s.blobs.restore(files, s.ledger.messages())
	if err := s.persist(true); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// SetAside returns the path of the copy of a damaged log that OpenServer set aside, or "".
func (s *Server) SetAside() string { return s.setAside }

// load replays the log. It ignores a last line without a newline, which was
// never acknowledged.
func (s *Server) load() error {
	f, err := osfile.Open(s.journal.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read mesh log: %w", err)
	}
	defer f.Close()
	damaged, err := s.ledger.replay(f)
	if err != nil {
		return fmt.Errorf("read mesh log %s: %w", s.journal.path, err)
	}
	if !damaged {
		return nil
	}
	s.setAside = s.journal.path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000000000")
	if err := os.Link(s.journal.path, s.setAside); err != nil {
		return fmt.Errorf("set damaged mesh log aside: %w", err)
	}
	return nil
}

// replay applies the records of a log and reports whether the log is damaged. It skips an
// unreadable record, which does not affect the others. A record that is not UTF-8 is
// unreadable, because JSON would decode it as another text. Zeros at the end of the log are not
// damage: a power loss leaves them in place of records that were never acknowledged.
func (l *ledger) replay(log io.Reader) (damaged bool, err error) {
	first, torn := true, false
	for line, err := range osfile.Lines(log, maxRecord) {
		if err != nil {
			return damaged, err
		}
		var r record
		_, notObject := splitObject(line)
		bad := notObject != nil || !utf8.Valid(line) || json.Unmarshal(line, &r) != nil
		if r.Version > journalVersion {
			return damaged, fmt.Errorf("written by a newer version (%d, this one supports %d): use that version", r.Version, journalVersion)
		}
		switch {
		case bad && !first && bytes.IndexByte(line, 0) >= 0:
			torn = true
		case bad, torn, first != (r.Version == journalVersion):
			damaged = true
		}
		if !bad {
			l.apply(r)
		}
		first = false
	}
	return damaged, nil
}

// maxRecord limits a line of the log, in bytes. A message takes 64 KiB.
const maxRecord = 1 << 20

// snapshot returns the records that rebuild the ledger.
func (l *ledger) snapshot() []record {
	halted := l.halted
	all := []record{{Version: journalVersion}, {Halted: &halted}}
	for _, r := range l.seenOrder {
		all = append(all, record{Seen: &r})
	}
	for _, p := range l.agents {
		all = append(all, record{Presence: &p})
	}
	for _, box := range l.mailboxes {
		for _, h := range box {
			all = append(all, record{Message: &h.Message})
		}
	}
	return all
}

// change applies one record to the ledger. The caller holds mu, and calls persist
// after unlocking if its answer promises the change.
func (s *Server) change(r record) {
	s.ledger.apply(r)
	if s.journal != nil {
		line, _ := encode(r) // encoding strings, bools and times cannot fail
		s.journal.pending = append(append(s.journal.pending, line...), '\n')
	}
}

// persist writes all changes made before the call. If synced is set, it returns after their
// fsync. Concurrent callers share one fsync.
func (s *Server) persist(synced bool) error {
	j := s.journal
	if j == nil {
		return nil
	}
	j.writing.Lock()
	defer j.writing.Unlock()

	s.mu.Lock()
	lines := j.pending
	j.pending = nil
	rewrite := j.broken || j.size > j.limit
	var all []record
	if rewrite {
		all = s.ledger.snapshot()
	}
	s.mu.Unlock()

	var err error
	if rewrite {
		err = j.rewrite(all)
	} else {
		err = j.append(lines, synced)
	}
	if err != nil {
		j.broken = true
		r := refuse(http.StatusServiceUnavailable, "the mesh cannot write its log: %v", err)
		r.after = 10 * time.Second
		return r
	}
	return nil
}

// append writes lines at the end of the log.
func (j *journal) append(lines []byte, synced bool) error {
	if len(lines) > 0 {
		n, err := j.file.Write(lines)
		j.size += int64(n)
		j.dirty = true
		if err != nil {
			return err
		}
	}
	if synced && j.dirty {
		if err := j.file.Sync(); err != nil {
			return err
		}
		j.dirty = false
	}
	return nil
}

// rewrite replaces the log with the records in all.
func (j *journal) rewrite(all []record) (err error) {
	f, err := osfile.OpenFile(j.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	w := bufio.NewWriter(f)
	var size int64
	for _, r := range all {
		line, err := encode(r)
		if err != nil {
			return err
		}
		n, err := w.Write(append(line, '\n'))
		size += int64(n)
		if err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), j.path); err != nil {
		return err
	}
	if err := osfile.SyncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close() // the new log replaces its content
	}
	j.file, j.size, j.limit = f, size, 2*size+4<<20
	j.dirty, j.broken = false, false
	return nil
}

func (j *journal) close() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	return errors.Join(j.file.Close(), j.lock.Close())
}
