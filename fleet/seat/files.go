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
	"strings"
	"time"

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
}

const (
	maxPast      = 400
	maxPastBytes = 32 << 20

	// renewEvery is how often all files are uploaded again: the servers remove a file after 90 days.
	renewEvery = 30 * 24 * time.Hour
)

// upload stores the files that the next state names and that no accepted head has named, and lists
// them in the head.
func (s *Seat) upload(ctx context.Context, r *record, e *envelope, next state.State) error {
	files, err := s.scan(r.Local, s.Names(next))
	if err != nil {
		return err
	}
	stored := map[string]bool{}
	renew := e.Uploaded.IsZero() || s.Now().Sub(e.Uploaded) > renewEvery
	if renew {
		e.Uploaded = s.Now().UTC()
	} else {
		for _, f := range r.Local {
			stored[f.Sum] = true
		}
	}
	e.Files = nil
	for _, f := range files {
		e.Files = append(e.Files, f.file)
		if stored[f.Sum] || f.Changed == 0 {
			continue
		}
		if err := s.putFile(ctx, f.file); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		stored[f.Sum] = true
	}
	r.Local = files
	return s.sealIDKey(ctx, e)
}

func (s *Seat) putFile(ctx context.Context, f file) error {
	in, err := s.Store.Open(f.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	return s.Engine.PutFile(ctx, f.Sum, f.Size, in)
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
		if wanted[f.Name] && !named[f.Name] {
			named[f.Name], f.Past = true, false
			files = append(files, f)
		}
	}
	var past []localFile
	for _, f := range before {
		if !named[f.Name] {
			f.Past = true
			past = append(past, f)
		}
	}
	return append(newest(past), files...), nil
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
		if strings.HasSuffix(e.Name(), ".tmp") {
			continue
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
	return localFile{file{Name: name, Sum: hex.EncodeToString(sum.Sum(nil)), Size: n}, info.ModTime().UnixNano()}, nil
}

// fetch brings the files of a head into the directory, and removes those that it no longer names. A file that the servers have lost is left out: the message that names it is damaged, as
// after the loss of a disk block.
func (s *Seat) fetch(ctx context.Context, r *record, e envelope) error {
	known := map[string]localFile{}
	for _, f := range r.Local {
		known[f.Name] = f
	}
	var local []localFile
	for _, f := range e.Files {
		l, err := s.fetchOne(ctx, known[f.Name], f)
		if err != nil {
			return fmt.Errorf("fetch %s: %w", f.Name, err)
		}
		local = append(local, l)
		delete(known, f.Name)
	}
	for name := range known {
		if err := s.Store.Remove(name); err != nil {
			return err
		}
	}
	r.Local = local
	return nil
}

// fetchOne brings one file into the directory, unless it is there.
func (s *Seat) fetchOne(ctx context.Context, known localFile, f file) (localFile, error) {
	if s.Store.CheckFolders(f.Name) != nil || !filepath.IsLocal(f.Name) {
		return localFile{file: f}, nil
	}
	here := localFile{file: f}
	if info, err := os.Lstat(s.Store.Path(f.Name)); err == nil && info.Mode().IsRegular() {
		have, err := s.sum(known, f.Name, info)
		if err == nil && have.Sum == f.Sum {
			here.Changed = have.Changed
			return here, nil
		}
	}
	err := s.Engine.GetFile(ctx, f.Sum, f.Size, func(content io.Reader) error { return s.Store.Keep(f.Name, content) })
	if lostFile, ok := errors.AsType[*fleet.Error](err); ok && lostFile.Code == 404 {
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
