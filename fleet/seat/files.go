package seat

import (
	"bytes"
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
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agentstateloop/fleet"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// file is a file that a head names. Its content is in the servers under its sum.
type file struct {
	Name string `json:"name"` // below the state directory
	Sum  string `json:"sha256"`
	Size int64  `json:"size"`

	// Past is set for a file that the state does not name any more. The newest ones are kept, so
	// that a new holder can recall the last exchanges.
	Past bool `json:"past,omitempty"`
}

// localFile is a file as it is in this directory.
type localFile struct {
	file
	Changed int64 `json:"changed,omitempty"` // its time of change, in nanoseconds since 1970; 0: it is not here
	Stored  int64 `json:"stored,omitempty"`  // when this content was stored in the servers, in seconds since 1970; 0: not yet
}

const (
	maxPast      = 400
	maxPastBytes = 32 << 20

	// renewAfter is the age at which a file is stored again: the servers remove it after 30 days.
	// renewAtOnce is how many files a look renews.
	renewAfter  = 10 * 24 * time.Hour
	renewAtOnce = 20

	// ofServers is the age of a file that came from the servers. It is unknown, so that the file is
	// renewed soon.
	ofServers = 1
)

// upload stores the files of the next state that the servers do not have, and returns all its files.
// A stored file counts even if a later one fails. keep is called before each file.
func (s *Seat) upload(ctx context.Context, r *record, next state.State, keep func() error) ([]localFile, error) {
	files, err := s.scan(r.Local, s.Names(next))
	if err != nil {
		return nil, err
	}
	stored := map[string]bool{}
	for _, f := range files {
		stored[f.Sum] = stored[f.Sum] || f.Stored > 0
	}
	var kept []localFile
	for i, f := range files {
		if f.Stored == 0 && !stored[f.Sum] && f.Changed != 0 {
			err := keep()
			if err == nil {
				f, err = s.store(ctx, f)
			}
			if err != nil {
				for _, f := range files[i:] {
					if f.Stored > 0 { // a beat lists the files of the record
						kept = append(kept, f)
					}
				}
				r.Local = kept
				return nil, errors.Join(fmt.Errorf("%s: %w", f.Name, err), s.write(*r))
			}
		}
		if f.Changed == 0 && f.Stored == 0 {
			continue // it was removed before it was stored
		}
		if f.Stored == 0 {
			f.Stored = s.Now().Unix()
		}
		stored[f.Sum] = true
		kept = append(kept, f)
	}
	return kept, nil
}

// store stores a file in the servers. A file that has changed since the scan is stored as it is now.
func (s *Seat) store(ctx context.Context, f localFile) (localFile, error) {
	err := s.putFile(ctx, f.file)
	if err == nil {
		f.Stored = s.Now().Unix()
		return f, nil
	}
	info, statErr := os.Lstat(s.Store.Path(f.Name))
	if errors.Is(statErr, fs.ErrNotExist) {
		f.Changed, f.Stored = 0, 0
		return f, nil
	}
	if statErr != nil || info.ModTime().UnixNano() == f.Changed && info.Size() == f.Size {
		return f, err
	}
	now, err := s.sum(localFile{}, f.Name, info)
	if err == nil {
		err = s.putFile(ctx, now.file)
	}
	now.Past, now.Stored = f.Past, s.Now().Unix()
	return now, err
}

func (s *Seat) putFile(ctx context.Context, f file) error {
	in, err := s.Store.Open(f.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	return s.Engine.PutFile(ctx, f.Sum, f.Size, in)
}

// renewFiles stores some old files again, before the servers remove them. A file that fails is tried
// at the next look.
func (s *Seat) renewFiles(ctx context.Context, r *record) error {
	old, left := s.Now().Add(-renewAfter).Unix(), renewAtOnce
	for i, f := range r.Local {
		if f.Past || f.Changed == 0 || f.Stored > old && f.Stored <= s.Now().Unix() || left == 0 {
			continue
		}
		left--
		if s.putFile(ctx, f.file) == nil {
			r.Local[i].Stored = s.Now().Unix()
		}
	}
	if left == renewAtOnce {
		return nil
	}
	return s.write(*r)
}

// scan returns the named files as they are now, and the newest files that are not named any more.
// It reads only files that have changed. A missing file stays listed if it was: its content is in
// the servers.
func (s *Seat) scan(before []localFile, names []string) (files []localFile, err error) {
	known := map[string]localFile{}
	for _, f := range before {
		known[f.Name] = f
	}
	named, wanted := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		wanted[name] = true
		err := s.walk(name, func(name string, info fs.FileInfo) error {
			if named[name] {
				return nil
			}
			f, err := s.sum(known[name], name, info)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.ErrKind) {
				return nil // it was removed just now, or is not ours
			}
			named[name] = true
			files = append(files, f)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, f := range before {
		if wanted[f.Name] && !named[f.Name] && isPayload(f.Name) {
			named[f.Name], f.Past, f.Changed = true, false, 0
			files = append(files, f)
		}
	}
	var past []localFile
	for _, f := range before {
		if !named[f.Name] && f.Stored > 0 && isPayload(f.Name) {
			f.Past = true
			past = append(past, f)
		}
	}
	return append(newest(past), files...), nil
}

// isPayload reports whether a file belongs to a message or a turn. Other files are gone for good when
// they are removed.
func isPayload(name string) bool {
	dir, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{store.MessagesDir, store.OutboxDir, store.SentDir, store.TurnsDir}, dir)
}

// newest returns the newest of the past files. They are in the order in which heads named them.
func newest(past []localFile) []localFile {
	var bytes int64
	first := len(past)
	for ; first > 0 && len(past)-first < maxPast; first-- {
		if bytes += past[first-1].Size; bytes > maxPastBytes {
			break
		}
	}
	return past[first:]
}

// walk calls do with a file, or with the files of a folder and of the folders in it.
func (s *Seat) walk(name string, do func(name string, info fs.FileInfo) error) error {
	name = filepath.ToSlash(name)
	if name == "" || name == "." || s.Store.CheckFolders(name) != nil {
		return nil
	}
	info, err := os.Lstat(s.Store.Path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular():
		return do(name, info)
	case !info.IsDir():
		return nil
	}
	entries, err := os.ReadDir(s.Store.Path(name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") || !utf8.ValidString(e.Name()) {
			continue // not whole, or a name that JSON cannot hold
		}
		if err := s.walk(path.Join(name, e.Name()), do); err != nil {
			return err
		}
	}
	return nil
}

// sum returns a file with its sum. It reads the file only if it has changed.
func (s *Seat) sum(known localFile, name string, info fs.FileInfo) (localFile, error) {
	if known.Name == name && known.Changed == info.ModTime().UnixNano() && known.Size == info.Size() {
		known.Past = false
		return known, nil
	}
	f, err := s.Store.Open(name)
	if err != nil {
		return localFile{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return localFile{}, err
	}
	now := localFile{file: file{Name: name, Sum: hex.EncodeToString(sum.Sum(nil)), Size: n}, Changed: info.ModTime().UnixNano()}
	if known.Sum == now.Sum {
		now.Stored = known.Stored
	}
	return now, nil
}

// fetch brings the files of a head into the directory, and removes those that it no longer names. On
// the host that made the head it brings only missing files: what is here is newer. A file that the
// servers have lost is left out: the message that names it is damaged, as after the loss of a disk
// block.
func (s *Seat) fetch(ctx context.Context, r *record, e envelope, own bool) error {
	known := map[string]localFile{}
	for _, f := range r.Local {
		known[f.Name] = f
	}
	var local []localFile
	for _, f := range e.Files {
		before := known[f.Name]
		delete(known, f.Name)
		if own && before.Name != "" && s.isHere(f.Name) {
			local = append(local, before)
			continue
		}
		l, err := s.fetchOne(ctx, before, f)
		if err != nil && !f.Past { // a past file only serves the memory of the agent
			return fmt.Errorf("fetch %s: %w", f.Name, err)
		}
		local = append(local, l)
	}
	for _, f := range r.Local {
		if _, left := known[f.Name]; left && own {
			local = append(local, f)
		} else if left {
			if err := s.Store.Remove(f.Name); err != nil {
				return err
			}
		}
	}
	r.Local = local
	return nil
}

// isHere reports whether the directory has a file of that name.
func (s *Seat) isHere(name string) bool {
	_, err := os.Lstat(s.Store.Path(name))
	return err == nil
}

// fetchMissing tries again to fetch the named files that the servers did not have.
func (s *Seat) fetchMissing(ctx context.Context, r *record) error {
	for i, f := range r.Local {
		if f.Past || f.Changed != 0 {
			continue
		}
		l, err := s.fetchOne(ctx, localFile{}, f.file)
		if err != nil {
			return fmt.Errorf("fetch %s: %w", f.Name, err)
		}
		r.Local[i] = l
	}
	return nil
}

// fetchOne brings one file into the directory, unless it is there.
func (s *Seat) fetchOne(ctx context.Context, known localFile, f file) (localFile, error) {
	here := localFile{file: f, Stored: ofServers}
	if s.Store.CheckFolders(f.Name) != nil || !filepath.IsLocal(f.Name) {
		return here, nil
	}
	if info, err := os.Lstat(s.Store.Path(f.Name)); err == nil && info.Mode().IsRegular() {
		have, err := s.sum(known, f.Name, info)
		if err == nil && have.Sum == f.Sum {
			here.Changed = have.Changed
			return here, nil
		}
	}
	err := s.Engine.GetFile(ctx, f.Sum, f.Size, func(content io.Reader) error { return s.Store.Keep(f.Name, content) })
	if isGone(err) {
		return here, s.Store.Log(s.Now(), fmt.Sprintf("%s is missing in the servers", f.Name))
	}
	if err != nil {
		return here, err
	}
	info, err := os.Lstat(s.Store.Path(f.Name))
	if err == nil {
		here.Changed = info.ModTime().UnixNano()
	}
	return here, err
}

// isGone reports whether the servers do not have a file or a block.
func isGone(err error) bool {
	e, ok := errors.AsType[*fleet.Error](err)
	return ok && e.Code == 404
}

// maxIDKey limits message-id.key, in bytes.
const maxIDKey = 4 << 10

// sealIDKey puts message-id.key into a head, encrypted with the key of the agent: answers to our
// mails must be recognised on every host.
func (s *Seat) sealIDKey(ctx context.Context, e *envelope) error {
	if e.IDKey != "" {
		return nil
	}
	key, err := s.Store.ReadFile(store.IDKeyFile, maxIDKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		e.IDKey, err = s.Engine.Seal(ctx, key)
	}
	return err
}

// unsealIDKey writes message-id.key of a head.
func (s *Seat) unsealIDKey(ctx context.Context, r *record, h header) error {
	if h.IDKey == "" || r.known && h.IDKey == r.Head.IDKey {
		return nil
	}
	key, err := s.Engine.Unseal(ctx, h.IDKey)
	if err != nil {
		return fmt.Errorf("decrypt %s: %w", store.IDKeyFile, err)
	}
	return s.Store.Keep(store.IDKeyFile, bytes.NewReader(key))
}
