package mesh

import (
	"bufio"
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

	"github.com/gofrs/flock"
)

// journalVersion stands in the first line of a log. A newer one is refused.
const journalVersion = 1

// journal is the ledger on disk: mesh.log, one record in JSON a line, appended
// and fsynced, and written anew as a snapshot when it has grown. Plain lines
// and no database, since the whole ledger is bounded and in memory anyway, a
// record is independent of the others, and a log can be read with less.
//
// What is acknowledged to a sender was fsynced before. A write or fsync that
// fails is never retried: the log is then written anew, to another file.
type journal struct {
	path string
	lock *flock.Flock

	pending []byte // guarded by Server.mu: changes not written yet

	writing sync.Mutex // held for the disk's work; taken before Server.mu
	file    *os.File
	size    int64
	limit   int64 // of size, for writing anew
	dirty   bool  // written and not fsynced
	broken  bool  // file cannot be believed
}

// ErrServed: another process serves from the directory.
var ErrServed = errors.New("another mesh serves from it")

// OpenServer makes a mesh that keeps what it holds in dir (0700, made if it is
// not there): what was answered 202, HALT and the registry survive any death
// of the process and, where fsync does what it says, of the machine. It fails
// with ErrServed if another process serves from dir, and if a newer version
// wrote there. A log
// with lines that cannot be read is set aside and the rest of it kept; SetAside
// tells. Close the server.
func OpenServer(dir string, o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make mesh directory: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "mesh.lock"), flock.SetPermissions(0o600))
	switch free, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock mesh directory: %w", err)
	case !free:
		return nil, fmt.Errorf("lock mesh directory %s: %w", dir, ErrServed)
	}
	s := NewServer(o)
	s.journal = &journal{path: filepath.Join(dir, "mesh.log"), lock: lock, broken: true} // until it is written anew
	if err := s.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := s.persist(true); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// SetAside names the copy of a damaged log that OpenServer found; "" if none.
func (s *Server) SetAside() string { return s.setAside }

// load replays the log. What stands after the last newline was never
// acknowledged and is left out.
func (s *Server) load() error {
	f, err := os.Open(s.journal.path)
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

// replay applies a log's records. Each stands for itself, so that one which
// cannot be read costs no other.
func (l *ledger) replay(log io.Reader) (damaged bool, err error) {
	lines := bufio.NewReader(log)
	for first := true; ; first = false {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return damaged, nil
		}
		if err != nil {
			return damaged, err
		}
		var r record
		bad := json.Unmarshal(line, &r) != nil
		if r.Version > journalVersion {
			return damaged, fmt.Errorf("written by a newer version (%d, this one knows %d): use that one", r.Version, journalVersion)
		}
		if bad || first != (r.Version == journalVersion) {
			damaged = true
		}
		if !bad {
			l.apply(r)
		}
	}
}

// snapshot gives the records that make the ledger anew.
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

// change makes one change of the ledger, with mu held. A caller that answers
// for it calls persist, after unlocking.
func (s *Server) change(r record) {
	s.ledger.apply(r)
	if s.journal != nil {
		line, _ := encode(r) // strings, bools and times cannot fail
		s.journal.pending = append(append(s.journal.pending, line...), '\n')
	}
}

// persist writes all changes made before the call and, if durable, returns
// after their fsync. Callers that come together share one.
func (s *Server) persist(durable bool) error {
	j := s.journal
	if j == nil {
		return nil
	}
	j.writing.Lock()
	defer j.writing.Unlock()

	s.mu.Lock()
	lines := j.pending
	j.pending = nil
	anew := j.broken || j.size > j.limit
	var all []record
	if anew {
		all = s.ledger.snapshot()
	}
	s.mu.Unlock()

	var err error
	if anew {
		err = j.rewrite(all)
	} else {
		err = j.append(lines, durable)
	}
	if err != nil {
		j.broken = true
		r := refuse(http.StatusServiceUnavailable, "the mesh cannot write its log: %v", err)
		r.after = 10 * time.Second
		return r
	}
	return nil
}

// append writes at the end of the log.
func (j *journal) append(lines []byte, durable bool) error {
	if len(lines) > 0 {
		n, err := j.file.Write(lines)
		j.size += int64(n)
		j.dirty = true
		if err != nil {
			return err
		}
	}
	if durable && j.dirty {
		if err := j.file.Sync(); err != nil {
			return err
		}
		j.dirty = false
	}
	return nil
}

// rewrite puts a new log in the place of the old one.
func (j *journal) rewrite(all []record) (err error) {
	f, err := os.OpenFile(j.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
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
	if err := syncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close() // nothing in it is needed any more
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

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
