package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

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

// errFileLater means that a message stays on the mesh, because one of its files is not
// available yet.
var errFileLater = errors.New("the message waits for a file")

// errNoTime means that a file was not requested, because others took the poll's time.
var errNoTime = errors.New("this poll has no time left")

// downloader fetches the files of the messages that an observation takes.
type downloader struct {
	store   *store.Store
	now     func() time.Time
	carrier blobs
	until   time.Time // no download begins after it
}

// incomingName returns the name of file number i, from 0, of the message with this key.
func incomingName(key string, i int) string {
	return store.PayloadName(store.MessagesDir, key, fmt.Sprintf(".file-%d", i+1))
}

// waitName returns the name of the file that records how long a message has waited.
func waitName(key string) string { return store.PayloadName(store.MessagesDir, key, ".waits") }

// fetch keeps the files of a message, each compared with its sum. It returns m with a reason at
// each missing file. An error that wraps errFileLater leaves the message on the mesh.
func (d downloader) fetch(ctx context.Context, m mesh.Message) (mesh.Message, error) {
	files := make([]mesh.File, len(m.Files))
	for i, f := range m.Files {
		f.Missing = "" // a sender cannot set this
		files[i] = f
		err := d.fetchOne(ctx, incomingName(m.Key(), i), m.From, f)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || errors.Is(err, errNoTime) {
			return m, fmt.Errorf("%w: %w", errFileLater, err) // the file itself may be fine
		}
		if !isGone(err) {
			patient, waitErr := d.waits(m)
			if waitErr != nil {
				return m, waitErr
			}
			if patient {
				return m, fmt.Errorf("%w: %s from @%s: %w", errFileLater, plain.Brief(f.Name), m.From, err)
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

// fetchOne keeps one file, unless an earlier try has kept it.
func (d downloader) fetchOne(ctx context.Context, name, from string, f mesh.File) error {
	if kept, err := d.store.OpenSummed(name, f.SHA256, f.Size); err == nil {
		return kept.Close()
	}
	left := d.until.Sub(d.now())
	if left <= 0 {
		return errNoTime
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return d.carrier.GetBlob(ctx, from, f, func(r io.Reader) error {
		_, err := d.store.KeepSummed(name, r)
		return err
	})
}

// waits counts a failed try, and reports whether to try again.
func (d downloader) waits(m mesh.Message) (bool, error) {
	var w struct {
		Since time.Time `json:"since"`
		Tries int       `json:"tries"`
	}
	name := waitName(m.Key())
	if data, err := d.store.ReadFile(name, 4<<10); err != nil || json.Unmarshal(data, &w) != nil || w.Since.After(d.now()) {
		w.Since, w.Tries = d.now().UTC(), 0
	}
	w.Tries++
	if w.Tries >= fileTries && d.now().Sub(w.Since) >= fileWait {
		return false, nil
	}
	data, err := json.Marshal(w)
	if err != nil {
		return false, err
	}
	return true, d.store.Keep(name, strings.NewReader(string(data)))
}

// received puts the files of a message or a report into a subfolder of the context folder, and
// lists them. It lists a damaged file as missing. The bodies are read when they are copied.
func (fs incomingFiles) received(key, folder string, files []mesh.File) (listed []listedFile, box []turn.File) {
	names := meshNames(files)
	for i, f := range files {
		l := listedFile{name: names[i], title: f.Name, kind: f.Type, size: f.Size, missing: f.Missing}
		if l.missing == "" {
			name := incomingName(key, i)
			if l.missing = fs.damage(name, f); l.missing == "" {
				l.place = path.Join(folder, l.name)
				box = append(box, turn.File{Name: l.place, Body: &lateReader{open: func() (io.ReadCloser, error) { return fs.store.Open(name) }}})
			}
		}
		listed = append(listed, l)
	}
	return listed, box
}

// incomingFiles reads the files that came with messages.
type incomingFiles struct{ store *store.Store }

// damage returns the reason why a received file is unusable, or "".
func (fs incomingFiles) damage(name string, f mesh.File) string {
	file, err := fs.store.OpenSummed(name, f.SHA256, f.Size)
	switch {
	case errors.Is(err, store.ErrDamaged):
		return "it is damaged since it came"
	case err != nil:
		return "it cannot be read now: " + plain.Brief(err.Error())
	}
	file.Close()
	return ""
}

// lateReader opens a file when it is first read, and closes it at its end.
type lateReader struct {
	open func() (io.ReadCloser, error)
	file io.ReadCloser
}

func (l *lateReader) Read(p []byte) (n int, err error) {
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

// kept returns the files that came with the message of a key, with their paths.
func (fs incomingFiles) kept(key string, named []mesh.File) (files []ReceivedFile) {
	names := meshNames(named)
	for i, f := range named {
		r, name := receivedOf(f, names[i]), incomingName(key, i)
		if r.Missing == "" {
			r.Missing = fs.damage(name, f)
		}
		files = append(files, inStore(fs.store, r, name))
	}
	return files
}

// receivedOf returns a mesh file under a safe name.
func receivedOf(f mesh.File, name string) ReceivedFile {
	return ReceivedFile{Name: name, Title: f.Name, Type: f.Type, Size: f.Size, Missing: f.Missing, saveAs: name}
}

// namedFile is a file name with the expected sum.
type namedFile struct{ name, sum string }

// filesOf returns the files that a message of the state names, with their sums.
func (fs incomingFiles) filesOf(m state.Message) []namedFile {
	if m.Source != state.Mesh {
		return nil
	}
	return fs.filesIn(m.Payload, m.Sum)
}

// filesIn is filesOf for a payload.
func (fs incomingFiles) filesIn(payload, sum string) (named []namedFile) {
	var sent mesh.Message
	data, err := fs.store.ReadSummed(payload, sum)
	if err != nil || json.Unmarshal(data, &sent) != nil {
		return nil
	}
	for i, f := range sent.Files {
		if f.Missing == "" {
			named = append(named, namedFile{incomingName(sent.Key(), i), f.SHA256})
		}
	}
	return named
}
