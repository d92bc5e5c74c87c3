// Package store keeps one agent's State on disk, with its history, payloads, nudges, locks and log
// (docs/protocol.md, "Files of one agent").
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"

	"github.com/gofrs/flock"
)

// Store keeps one agent's State in Dir, with its history and payloads. Several processes may use
// one directory at the same time.
type Store struct {
	Dir   string // mode 0700, created by the first write
	Agent string // the handle; a state of another agent is rejected
	Hook  Hook   // for the simulator

	Arbiter Arbiter // of an agent with several hosts; nil: this host decides alone

	synced atomic.Uint64 // the serial whose history lines this process has fsynced

	recent recent
}

const (
	stateFile = "state.json"
	prevFile  = "state.json.prev"
)

// ErrNewer reports that state.json was written by a newer version of this program.
var ErrNewer = errors.New("state.json was written by a newer agentstateloop: upgrade this binary, or use the newer one")

// ErrOtherAgent reports that the directory belongs to another handle.
var ErrOtherAgent = errors.New("the state directory belongs to another agent")

// errCorrupt reports that a state file cannot be used.
var errCorrupt = errors.New("corrupt")

// Read returns the state. It takes no lock and changes no file. Before the first commit it returns
// a new state. The state's slices, maps and pointers are shared and must not be modified; Step
// copies them.
func (st *Store) Read() (state.State, error) {
	s, _, err := st.load()
	return s, err
}

// Copied reports whether the state is a copy of what was written last: see Recovery.Copied. With an
// arbiter it is false: the accepted state decides.
func (st *Store) Copied() (bool, error) {
	if st.Arbiter != nil {
		return false, nil
	}
	_, recovery, err := st.load()
	return recovery.Copied, err
}

// Commit replaces the state by the result of change. Under state.lock it reads the state, calls
// change, writes and fsyncs a new file, keeps the old one as state.json.prev, renames the new one,
// fsyncs the directory and appends the new history lines. When Commit returns nil, the new state is
// durable. One exception: if it differs from the old one only in the times of a poll, a power loss
// may restore the old one (see writeTimes). On an error the caller must act as if the state had not
// changed. After a crash at the right moment, the next reader may still see the new state,
// complete.
//
// If the state is unusable, Commit first sets it aside and rebuilds it. It passes the reason to
// change, which steps a Recovered event for it, and a Restored event for a state that is a copy. If
// change returns the state unchanged, Commit writes nothing.
func (st *Store) Commit(ctx context.Context, now time.Time, change func(state.State, Recovery) (state.State, error)) (state.State, error) {
	if err := st.makeDir(); err != nil {
		return state.State{}, err
	}
	lock, err := st.lockState(ctx)
	if err != nil {
		return state.State{}, err
	}
	defer lock.Unlock()

	for try := 1; ; try++ {
		next, err := st.commitOnce(ctx, now, change)
		if !errors.Is(err, ErrRebase) || try == rebases {
			return next, err
		}
	}
}

// commitOnce is Commit under state.lock.
func (st *Store) commitOnce(ctx context.Context, now time.Time, change func(state.State, Recovery) (state.State, error)) (state.State, error) {
	if st.Arbiter == nil && st.inFleet() {
		return state.State{}, errFleet
	}
	c, err := st.cache()
	if err != nil {
		return state.State{}, err
	}
	if st.Arbiter != nil {
		if err := st.Arbiter.Base(ctx, c); err != nil {
			return state.State{}, err
		}
	}
	old, recovery := c.old, c.Recovery
	if err := st.finishEarlier(old, recovery, now); err != nil {
		return state.State{}, err
	}
	if _, err := st.ensureIDKey(old.State, now); err != nil {
		return state.State{}, err
	}
	next, err := change(old.State, recovery)
	if err != nil {
		return state.State{}, err
	}
	if next.Serial == old.Serial && recovery.Reason == "" {
		return old.State, nil // change made no step
	}
	chain, lines, err := st.extend(old.Chain, next.Lines)
	if err != nil {
		return state.State{}, fmt.Errorf("read history: %w", err)
	}
	if st.Arbiter != nil {
		data, err := st.encodeFor(stored{State: next, Chain: chain})
		if err != nil {
			return state.State{}, err
		}
		if err := st.Arbiter.Accept(ctx, c, next, data); err != nil {
			return state.State{}, err
		}
	}
	if err := st.save(old, stored{State: next, Chain: chain}, recovery); err != nil {
		return state.State{}, fmt.Errorf("save state: %w", err)
	}
	if err := st.appendSealed(lines); err != nil {
		return state.State{}, fmt.Errorf("append history: %w", err)
	}
	return next, st.Hook.at("done", st.path(stateFile))
}

// finishEarlier repairs the effects of an earlier crash or corruption before Commit writes: it
// appends lines that the history lacks, or sets a bad state.json aside.
func (st *Store) finishEarlier(old stored, recovery Recovery, now time.Time) error {
	if recovery.Reason == "" {
		if err := st.appendMissing(old); err != nil {
			return fmt.Errorf("append history: %w", err)
		}
		return nil
	}
	if err := st.cutTorn(); err != nil {
		return fmt.Errorf("cut history: %w", err)
	}
	return st.setAside(stateFile, "corrupt", now)
}

// setAside renames an unusable file. The new name includes the reason.
func (st *Store) setAside(file, reason string, now time.Time) error {
	aside := st.path(file + "." + reason + "-" + now.UTC().Format("20060102T150405.000000000Z"))
	if err := st.Hook.at("rename", aside); err != nil {
		return err
	}
	if err := os.Rename(st.path(file), aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// parseStored reads one state file, or returns it from the cache.
func (st *Store) parseStored(name string) (stored, error) {
	if s, ok := st.recent.lookUp(st.path(name)); ok {
		return s, nil
	}
	f, data, err := st.openState(name)
	if err != nil {
		return stored{}, err
	}
	s, err := st.decode(name, data)
	s.copied = err == nil && osfile.Identify(f).IsCopyOf(osfile.ParseIdentity(s.File))
	if err != nil || name != stateFile {
		f.Close()
		return s, err
	}
	st.recent.store(f, data, s, nil)
	return s, nil
}

// openState opens one state file and reads it.
func (st *Store) openState(name string) (f *os.File, data []byte, err error) {
	if f, err = osfile.OpenAtMost(st.path(name), maxState); err == nil {
		if data, err = osfile.ReadAll(f, maxState); err != nil {
			f.Close()
		}
	}
	if errors.Is(err, osfile.ErrKind) || errors.Is(err, osfile.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return f, data, err
}

// decode decodes and checks the content of one state file.
func (st *Store) decode(name string, data []byte) (stored, error) {
	s, err := decodeState(data)
	if err != nil {
		// A newer program may write values that do not fit our fields.
		var head struct {
			Version int `json:"version"`
		}
		if json.Unmarshal(data, &head) != nil || head.Version <= state.VersionHeld {
			return stored{}, fmt.Errorf("%w: %s: %v", errCorrupt, name, err)
		}
		s.Version = head.Version
	}
	if s.Version > state.VersionHeld {
		return stored{}, fmt.Errorf("%s has version %d, and this program supports %d: %w", st.path(name), s.Version, state.VersionHeld, ErrNewer)
	}
	if err := s.Valid(); err != nil {
		return stored{}, fmt.Errorf("%w: %s: %v", errCorrupt, name, err)
	}
	if s.Agent != st.Agent {
		return stored{}, fmt.Errorf("%s belongs to %q, not to %q: %w", st.path(name), s.Agent, st.Agent, ErrOtherAgent)
	}
	return s, nil
}

func (st *Store) path(name string) string { return filepath.Join(st.Dir, name) }

// makeDir creates the directory, and nudges/ in it for scripts to move files into. If nudges/ is
// not a folder, Nudges reports it.
func (st *Store) makeDir() error {
	err := makeDirDurably(st.Hook, st.Dir)
	if err == nil {
		err = st.makeFolder(NudgesDir)
	}
	if err != nil && !errors.Is(err, osfile.ErrKind) {
		return fmt.Errorf("create state directory: %w", err)
	}
	return nil
}

// Limits on the files that a reader loads, in bytes. Our own files stay far below them, so a longer
// file is not ours.
const (
	MaxPayload = 128 << 20 // a message, or an effect: the largest mail that is kept has 64 MiB
	maxState   = 256 << 20 // state.json: 1,000 waiting rows are 1 MB
	maxHistory = 1 << 30   // one month: 60 mails an hour fill a fifth of it; never loaded whole
	maxRecord  = 16 << 20  // one line of the history
)

// Open opens a file of the directory for reading. If the file, or a folder on the way to it, is a
// link, a named pipe or another irregular file, Open returns an error that names it (see package
// regular).
func (st *Store) Open(name string) (*os.File, error) {
	if err := osfile.Folders(st.Dir, name); err != nil {
		return nil, err
	}
	return osfile.Open(st.path(name))
}

// ReadFile returns the content of a file of the directory. It opens the file like Open. A file
// longer than limit bytes is an error.
func (st *Store) ReadFile(name string, limit int64) ([]byte, error) {
	if err := osfile.Folders(st.Dir, name); err != nil {
		return nil, err
	}
	return osfile.ReadFile(st.path(name), limit)
}

// CheckFolders returns an error if any folder on the way to the file name is not a real folder,
// such as a link to another folder. The error names it.
func (st *Store) CheckFolders(name string) error { return osfile.Folders(st.Dir, name) }

// The locks of an agent. Each is a file of its own, which no rename replaces. A process takes them
// in the order turn, cycle, state. The holder of CycleLock may try TurnLock but must not wait for
// it (docs/design.md, "Locks").
const (
	TurnLock   = "turn.lock"   // held by the runner of a turn for the whole turn
	CycleLock  = "cycle.lock"  // held for the network work of one cycle
	LingerLock = "linger.lock" // held by a poll that lingers
	FetchLock  = "fetch.lock"  // held by a poll that fetches large mail
	HookLock   = "hook.lock"   // held by a process that calls hooks
	SentLock   = "sent.lock"   // held by a process that files copies of sent mail
	BackupLock = "backup.lock" // held while a backup is written
	ListenLock = "listen.lock" // held by a listener while it serves the agent
	stateLock  = "state.lock"  // held by Commit for milliseconds
)

// commitPatience is how long Commit waits for other commits. They take milliseconds, so a longer
// wait means a stopped process, not a busy one.
const commitPatience = 10 * time.Second

// Lock is a held lock.
type Lock struct{ f *flock.Flock }

// Unlock releases the lock.
func (l *Lock) Unlock() error { return l.f.Unlock() }

// TryLock takes the named lock. It returns nil if another process holds it, and for the locks of a
// turn and of a lingering poll also while the agent is being removed (see RemovalMark).
func (st *Store) TryLock(name string) (*Lock, error) {
	if (name == TurnLock || name == LingerLock) && st.BeingRemoved() {
		return nil, nil
	}
	if err := st.makeDir(); err != nil {
		return nil, err
	}
	f, err := osfile.Lock(st.path(name))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	ok, err := f.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Path(), err)
	}
	if !ok {
		return nil, nil
	}
	return &Lock{f}, nil
}

// lockState takes state.lock. It waits up to commitPatience.
func (st *Store) lockState(ctx context.Context) (*Lock, error) {
	f, err := osfile.Lock(st.path(stateLock))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	patience, retry := commitPatience, 2*time.Millisecond
	if st.Arbiter != nil { // its holder waits for servers
		patience, retry = fleetPatience, 20*time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = f.TryLockContext(ctx, retry)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("another process has held %s for %v: find it with `fuser %[1]s`", f.Path(), patience)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Path(), err)
	}
	return &Lock{f}, nil
}

// Stamp identifies a version of the state without reading it. The zero value means that no state
// exists.
type Stamp struct{ file fs.FileInfo }

// Same reports whether two stamps are of the same state.
func (s Stamp) Same(t Stamp) bool {
	if s.file == nil || t.file == nil {
		return s.file == nil && t.file == nil
	}
	return os.SameFile(s.file, t.file) && s.file.ModTime().Equal(t.file.ModTime()) && s.file.Size() == t.file.Size()
}

// Stamp returns the stamp of the current state. Call it before Read: if a new state is written in
// between, its stamp differs.
func (st *Store) Stamp() (Stamp, error) {
	info, err := os.Lstat(st.path(stateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Stamp{}, err
	}
	return Stamp{info}, nil
}

// The log file, and the size in bytes at which it is renamed to log.1.
const (
	logFile = "log"
	maxLog  = 1 << 20
)

// Log adds one line to the log: an action of a poll and its reason. Callers may ignore the error:
// an unwritable log must not stop them, and Obstacles reports the cause.
func (st *Store) Log(now time.Time, text string) error {
	path := st.path(logFile)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() >= maxLog {
		if err := renameOver(path, path+".1"); err != nil {
			return err
		}
	}
	f, err := osfile.OpenAppend(path, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %s\n", now.UTC().Format(time.RFC3339), shortLine(text))
	return err
}
