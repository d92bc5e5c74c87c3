package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// fileWait and fileTries are the least time and number of tries for which a message waits on
// the mesh for an unavailable file. Then the message is taken without the file.
const (
	fileWait  = 10 * time.Minute
	fileTries = 3
)

// ErrLater means that a message stays on the mesh, because one of its files is not
// available yet.
var ErrLater = errors.New("the message waits for a file")

// ErrNoTime means that a file was not requested, because others took the poll's time.
var ErrNoTime = errors.New("this poll has no time left")

// Downloader fetches the files of the messages that an observation takes.
type Downloader struct {
	Store   *store.Store
	Now     func() time.Time
	Carrier blobs
	Until   time.Time // no download begins after it
}

// NameOf returns the name of file number i, from 0, of the message with this key.
func NameOf(key string, i int) string {
	return store.PayloadName(store.MessagesDir, key, fmt.Sprintf(".file-%d", i+1))
}

// waitName returns the name of the file that records how long a message has waited.
func waitName(key string) string { return store.PayloadName(store.MessagesDir, key, ".waits") }

// Fetch keeps the files of a message, each compared with its sum. It returns m with a reason at
// each missing file. An error that wraps ErrLater leaves the message on the mesh.
func (d Downloader) Fetch(ctx context.Context, m mesh.Message) (mesh.Message, error) {
	files := make([]mesh.File, len(m.Files))
	for i, f := range m.Files {
		f.Missing = "" // a sender cannot set this
		files[i] = f
		err := d.FetchOne(ctx, NameOf(m.Key(), i), m.From, f)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || errors.Is(err, ErrNoTime) {
			return m, fmt.Errorf("%w: %w", ErrLater, err) // the file itself may be fine
		}
		if !isGone(err) {
			patient, waitErr := d.waits(m)
			if waitErr != nil {
				return m, waitErr
			}
			if patient {
				return m, fmt.Errorf("%w: %s from @%s: %w", ErrLater, plain.Brief(f.Name), m.From, err)
			}
		}
		files[i].Missing = plain.Brief(err.Error())
	}
	m.Files = files
	return m, nil
}

// isGone reports whether the mesh answered that it does not have a file.
func isGone(err error) bool {
	e, ok := errors.AsType[*mesh.Error](err)
	return ok && (e.Code == http.StatusNotFound || e.Code == http.StatusGone)
}

// FetchOne keeps one file, unless an earlier try has kept it.
func (d Downloader) FetchOne(ctx context.Context, name, from string, f mesh.File) error {
	if file, err := d.Store.OpenSummed(name, f.SHA256, f.Size); err == nil {
		return file.Close()
	}
	left := d.Until.Sub(d.Now())
	if left <= 0 {
		return ErrNoTime
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return d.Carrier.GetBlob(ctx, from, f, func(r io.Reader) error {
		_, err := d.Store.KeepSummed(name, r)
		return err
	})
}

// Waits counts a failed try, and reports whether to try again.
func (d Downloader) waits(m mesh.Message) (bool, error) {
	var w struct {
		Since time.Time `json:"since"`
		Tries int       `json:"tries"`
	}
	name := waitName(m.Key())
	if data, err := d.Store.ReadFile(name, 4<<10); err != nil || json.Unmarshal(data, &w) != nil || w.Since.After(d.Now()) {
		w.Since, w.Tries = d.Now().UTC(), 0
	}
	w.Tries++
	if w.Tries >= fileTries && d.Now().Sub(w.Since) >= fileWait {
		return false, nil
	}
	data, err := json.Marshal(w)
	if err != nil {
		return false, err
	}
	return true, d.Store.Keep(name, strings.NewReader(string(data)))
}

// Received puts the files of a message or a report into a subfolder of the context folder, and
// lists them. It lists a damaged file as missing. The bodies are read when they are copied.
func (fs Incoming) Received(key, folder string, files []mesh.File) (listed []ListedFile, box []turn.File) {
	names := meshNames(files)
	for i, f := range files {
		l := ListedFile{Name: names[i], title: f.Name, kind: f.Type, size: f.Size, missing: f.Missing}
		if l.missing == "" {
			name := NameOf(key, i)
			if l.missing = fs.damage(name, f); l.missing == "" {
				l.place = path.Join(folder, l.Name)
				box = append(box, turn.File{Name: l.place, Body: &lazyReader{open: func() (io.ReadCloser, error) { return fs.Store.Open(name) }}})
			}
		}
		listed = append(listed, l)
	}
	return listed, box
}

// Incoming reads the files that came with messages.
type Incoming struct{ Store *store.Store }

// damage returns the reason why a received file is unusable, or "".
func (fs Incoming) damage(name string, f mesh.File) string {
	file, err := fs.Store.OpenSummed(name, f.SHA256, f.Size)
	switch {
	case errors.Is(err, store.ErrDamaged):
		return "it was damaged after it arrived"
	case err != nil:
		return "it cannot be read now: " + plain.Brief(err.Error())
	}
	file.Close()
	return ""
}

// lazyReader opens a file when it is first read, and closes it at its end.
type lazyReader struct {
	open func() (io.ReadCloser, error)
	file io.ReadCloser
}

func (l *lazyReader) Read(p []byte) (n int, err error) {
	if l.file == nil {
		if l.file, err = l.open(); err != nil {
			return 0, err
		}
	}
	n, err = l.file.Read(p)
	if err != nil {
		l.file.Close()
	}
	return n, err
}

// Kept returns the files that came with the message of a key, with their paths.
func (fs Incoming) Kept(key string, named []mesh.File) (files []ReceivedFile) {
	names := meshNames(named)
	for i, f := range named {
		r, name := receivedFile(f, names[i]), NameOf(key, i)
		if r.Missing == "" {
			r.Missing = fs.damage(name, f)
		}
		files = append(files, InStore(fs.Store, r, name))
	}
	return files
}

// receivedFile returns a mesh file under a safe name.
func receivedFile(f mesh.File, name string) ReceivedFile {
	return ReceivedFile{Name: name, Title: f.Name, Type: f.Type, Size: f.Size, Missing: f.Missing, SaveAs: name}
}

// SummedFile is a file name with the expected sum.
type SummedFile struct{ Name, Sum string }

// FilesOf returns the files that a message of the state names, with their sums.
func (fs Incoming) FilesOf(m state.Message) []SummedFile {
	if m.Source != state.Mesh {
		return nil
	}
	return fs.FilesIn(m.Payload, m.Sum)
}

// FilesIn is FilesOf for a payload.
func (fs Incoming) FilesIn(payload, sum string) (named []SummedFile) {
	var sent mesh.Message
	data, err := fs.Store.ReadSummed(payload, sum)
	if err != nil || json.Unmarshal(data, &sent) != nil {
		return nil
	}
	for i, f := range sent.Files {
		if f.Missing == "" {
			named = append(named, SummedFile{NameOf(sent.Key(), i), f.SHA256})
		}
	}
	return named
}

// QuarantinedName returns the name of file number i, from 0, of a message in quarantine.
func QuarantinedName(key string, i int) string {
	return path.Join(quarantine.Dir(key), fmt.Sprintf("file-%d", i+1))
}

// QuarantinedFiles finds the files of messages in quarantine.
type QuarantinedFiles struct{ Store *store.Store }

// Release copies the files of a quarantined message to the place for the files of accepted
// messages. It returns the message with a reason at each missing file.
func (h QuarantinedFiles) Release(item quarantine.Item, raw []byte) ([]byte, error) {
	m, err := mesh.Decode(raw)
	if item.Source != state.Mesh || err != nil || m.Malformed() != "" || len(m.Files) == 0 {
		return raw, nil // the accepter reports its faults
	}
	for i, f := range m.Files {
		if f.Missing != "" {
			continue
		}
		if m.Files[i].Missing = h.damage(item.Key, i, f); m.Files[i].Missing != "" {
			continue
		}
		held, err := h.Store.Open(QuarantinedName(item.Key, i))
		if err != nil {
			return nil, err
		}
		_, err = h.Store.KeepSummed(NameOf(m.Key(), i), held)
		if err := errors.Join(err, held.Close()); err != nil {
			return nil, fmt.Errorf("release the file %s: %w", f.Name, err)
		}
	}
	return json.Marshal(m)
}

// damage returns the reason why a file of a quarantined message is unusable, or "".
func (h QuarantinedFiles) damage(key string, i int, f mesh.File) string {
	held, err := h.Store.OpenSummed(QuarantinedName(key, i), f.SHA256, f.Size)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it was lost while its message was in quarantine"
	case err != nil:
		return "it was damaged while its message was in quarantine"
	}
	held.Close()
	return ""
}

// Received returns the files that came with a message in quarantine.
func (h QuarantinedFiles) Received(item quarantine.Item) []ReceivedFile {
	files, named := []ReceivedFile{}, h.Named(item)
	names := meshNames(named)
	for i, f := range named {
		r := receivedFile(f, names[i])
		if r.Missing == "" {
			r.Missing = h.damage(item.Key, i, f)
		}
		files = append(files, InStore(h.Store, r, QuarantinedName(item.Key, i)))
	}
	return files
}

// Named returns the files that an item in quarantine names.
func (h QuarantinedFiles) Named(item quarantine.Item) []mesh.File {
	if item.Source != state.Mesh {
		return nil
	}
	raw, err := h.Store.ReadSummed(item.Payload, item.Sum)
	if err != nil {
		return nil
	}
	m, err := mesh.Decode(raw)
	if err != nil || m.Malformed() != "" {
		return nil
	}
	return m.Files
}
