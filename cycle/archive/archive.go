// Package archive reads and writes the archive of one agent (docs/decisions/0069-backup.md).
//
// An archive is a tar, compressed by gzip. Its first member, HeaderName, names the format and the
// agent, so that a reader can refuse the archive before it reads more. Its last member,
// ManifestName, has the size and the SHA-256 of each other file. An archive without it was cut.
// The secrets are one member, SecretsName, which is encrypted with age.
//
// The package knows no agent: files in, files out. A name says where a file belongs:
//
//	agent.toml       the configuration
//	state/NAME       the state directory
//	home/NAME        the user's home directory
//	config/NAME      the folder of agent.toml
//	tokens/SECTION   the access token of a login, such as mail.imap
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

	"agentstateloop/internal/osfile"
)

// Format is the format that this program writes. It refuses a newer one.
const Format = 1

// The members of an archive that are not files of the agent.
const (
	HeaderName   = "agentstateloop-backup"
	ManifestName = "manifest.json"
	SecretsName  = "secrets.age"
)

// The file with the configuration, and the folders of the other files.
const (
	ConfigName   = "agent.toml"
	StateFolder  = "state"
	HomeFolder   = "home"
	ConfigFolder = "config"
	TokenFolder  = "tokens"
)

// Limits on the members that a reader holds in memory, in bytes. A writer keeps them, too.
const (
	maxHeader   = 64 << 10
	maxManifest = 32 << 20 // 160,000 files
	maxSecrets  = 4 << 20
)

// Header describes an archive.
type Header struct {
	Format  int       `json:"format"`
	Program string    `json:"program"` // the version of the program that wrote it
	Handle  string    `json:"handle"`
	Host    string    `json:"host"`
	Made    time.Time `json:"made"`
	Serial  uint64    `json:"serial"` // of the state
	Final   bool      `json:"final"`  // made by move: the agent has not worked since

	Home   string `json:"home"`   // the user's home directory
	Config string `json:"config"` // the name of agent.toml, such as home/.config/…, or its path outside home
	State  string `json:"state"`  // the same for the state directory, which may also be in the folder of agent.toml
}

// Manifest describes an archive and its files.
type Manifest struct {
	Header
	Files   []File   `json:"files"`
	Secrets []Secret `json:"secrets"`  // that the agent needs
	Sealed  bool     `json:"sealed"`   // the secrets are in SecretsName
	LeftOut []string `json:"left_out"` // files that the agent needs and the archive lacks, each with the reason
}

// File is one file of an archive.
type File struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Program bool   `json:"program,omitempty"` // it can be run
}

// Secret names a secret without its content: the key of agent.toml, and the file with the secret.
// Name is "" for a value in agent.toml.
type Secret struct {
	Key  string `json:"key"`
	Name string `json:"name,omitempty"`
}

// Writer writes an archive to a stream.
type Writer struct {
	zip      *gzip.Writer
	tar      *tar.Writer
	manifest Manifest
}

// NewWriter begins an archive.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Format = Format
	zip := gzip.NewWriter(w)
	a := &Writer{zip: zip, tar: tar.NewWriter(zip), manifest: Manifest{Header: h, Files: []File{}, Secrets: []Secret{}, LeftOut: []string{}}}
	return a, a.addJSON(HeaderName, maxHeader, h)
}

// Add adds a file of size bytes.
func (a *Writer) Add(name string, size int64, program bool, r io.Reader) error {
	mode := int64(0o600)
	if program {
		mode = 0o700
	}
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: mode, ModTime: a.manifest.Made}
	if err := a.tar.WriteHeader(head); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(a.tar, sum), io.LimitReader(r, size))
	if err == nil && n < size {
		err = errors.New("it became shorter while it was read")
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	a.manifest.Files = append(a.manifest.Files, File{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Program: program})
	return nil
}

// Close ends the archive. secrets are those that the agent needs, and leftOut the files that the
// archive lacks.
func (a *Writer) Close(secrets []Secret, sealed bool, leftOut []string) (Manifest, error) {
	a.manifest.Secrets = append(a.manifest.Secrets, secrets...)
	a.manifest.LeftOut = append(a.manifest.LeftOut, leftOut...)
	a.manifest.Sealed = sealed
	if err := a.addJSON(ManifestName, maxManifest, a.manifest); err != nil {
		return a.manifest, err
	}
	return a.manifest, errors.Join(a.tar.Close(), a.zip.Close())
}

func (a *Writer) addJSON(name string, limit int, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if len(data) > limit {
		return fmt.Errorf("archive %s: it has %d bytes, and a restore reads at most %d: the agent has too many files", name, len(data), limit)
	}
	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o600, ModTime: a.manifest.Made}); err != nil {
		return err
	}
	_, err = a.tar.Write(data)
	return err
}

// ErrNewer reports that the archive has a newer format.
var ErrNewer = errors.New("it was made by a newer agentstateloop: restore it with that one")

// ErrNotWhole reports that the archive was cut or changed.
var ErrNotWhole = errors.New("the archive is not whole")

// Unpack reads an archive to its end and writes its files below the folder that place returns for
// the header, which must be empty. An error of place ends it. Unpack returns an error unless the
// archive has exactly the files of the manifest, with their sizes and sums. It follows and makes no
// link, and writes only below the folder. The files are durable, except for their names.
func Unpack(r io.Reader, place func(Header) (dir string, err error)) (Manifest, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: it is not a gzip file: %v", ErrNotWhole, err)
	}
	u := unpacker{tar: tar.NewReader(zip)}
	if err := u.header(); err != nil {
		return Manifest{}, err
	}
	if u.dir, err = place(u.head); err != nil {
		return Manifest{}, err
	}
	for u.manifest.Format == 0 {
		if err := u.next(); err != nil {
			return Manifest{}, err
		}
	}
	if _, err := u.tar.Next(); !errors.Is(err, io.EOF) {
		return Manifest{}, fmt.Errorf("%w: something follows %s", ErrNotWhole, ManifestName)
	}
	// The sum of the compressed stream comes after its end.
	if n, err := io.Copy(io.Discard, zip); err != nil || n > maxPadding {
		return Manifest{}, fmt.Errorf("%w: its end is damaged", ErrNotWhole)
	}
	return u.manifest, u.compare()
}

// maxPadding limits the bytes after the end of the tar, which other programs fill up to a block.
const maxPadding = 64 << 10

type unpacker struct {
	tar      *tar.Reader
	dir      string
	head     Header
	found    []File
	manifest Manifest
}

// header reads the first member.
func (u *unpacker) header() error {
	head, err := u.tar.Next()
	if err != nil || head.Name != HeaderName {
		return fmt.Errorf("%w: it does not begin with %s", ErrNotWhole, HeaderName)
	}
	if err := u.readJSON(head, maxHeader, &u.head); err != nil {
		return err
	}
	if u.head.Format > Format {
		return fmt.Errorf("the archive has format %d, and this program knows %d: %w", u.head.Format, Format, ErrNewer)
	}
	if u.head.Format < 1 {
		return fmt.Errorf("%w: %s has no format", ErrNotWhole, HeaderName)
	}
	return nil
}

func (u *unpacker) readJSON(head *tar.Header, limit int64, v any) error {
	if head.Typeflag != tar.TypeReg || head.Size > limit {
		return fmt.Errorf("%w: %s is not a file of at most %d bytes", ErrNotWhole, head.Name, limit)
	}
	data, err := io.ReadAll(u.tar)
	if err != nil {
		return fmt.Errorf("%w: %s: %v", ErrNotWhole, head.Name, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %s: %v", ErrNotWhole, head.Name, err)
	}
	return nil
}

// next reads one member: a file, or the manifest.
func (u *unpacker) next() error {
	head, err := u.tar.Next()
	if err != nil {
		return fmt.Errorf("%w: it ends before %s: %v", ErrNotWhole, ManifestName, err)
	}
	if head.Name == ManifestName {
		return u.readJSON(head, maxManifest, &u.manifest)
	}
	if err := checkName(head); err != nil {
		return err
	}
	file := filepath.Join(u.dir, filepath.FromSlash(head.Name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	sum := sha256.New()
	if err := write(file, io.TeeReader(u.tar, sum), head.FileInfo().Mode()&0o100 != 0); err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			return err // of this machine
		}
		return fmt.Errorf("%w: %s: %v", ErrNotWhole, head.Name, err)
	}
	u.found = append(u.found, File{Name: head.Name, Size: head.Size, SHA256: hex.EncodeToString(sum.Sum(nil)), Program: head.FileInfo().Mode()&0o100 != 0})
	return nil
}

// checkName refuses every member that is not a file below one of our folders.
func checkName(head *tar.Header) error {
	if head.Typeflag != tar.TypeReg {
		return fmt.Errorf("the archive has a link, a folder or a device, which no backup has: %q", head.Name)
	}
	if !ValidName(head.Name) {
		return fmt.Errorf("the archive has a file outside the folders of an agent: %q", head.Name)
	}
	return nil
}

// ValidName reports whether a name is one of a file of the agent.
func ValidName(name string) bool {
	if name == ConfigName || name == SecretsName {
		return true
	}
	folder, rest, _ := strings.Cut(name, "/")
	return slices.Contains([]string{StateFolder, HomeFolder, ConfigFolder, TokenFolder}, folder) &&
		rest != "" && filepath.IsLocal(filepath.FromSlash(rest)) && path.Clean(name) == name && !strings.ContainsAny(name, "\x00\\")
}

// write creates a file, durably.
func write(file string, r io.Reader, program bool) error {
	mode := fs.FileMode(0o600)
	if program {
		mode = 0o700
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}

// compare checks the files against the manifest.
func (u *unpacker) compare() error {
	if u.manifest.Header != u.head {
		return fmt.Errorf("%w: %s and %s differ", ErrNotWhole, HeaderName, ManifestName)
	}
	for i, f := range u.manifest.Files {
		if i >= len(u.found) || u.found[i].Name != f.Name {
			return fmt.Errorf("%w: %s is missing", ErrNotWhole, f.Name)
		}
		if u.found[i] != f {
			return fmt.Errorf("%w: %s was changed: it does not have its recorded sum", ErrNotWhole, f.Name)
		}
	}
	if n := len(u.manifest.Files); n < len(u.found) {
		return fmt.Errorf("%w: %s is not in its list of files", ErrNotWhole, u.found[n].Name)
	}
	return nil
}

// ReadManifest returns the manifest of an archive in a file. It reads the whole archive, but compares
// no sums.
func ReadManifest(file string) (Manifest, error) {
	f, err := osfile.Open(file)
	if err != nil {
		return Manifest{}, err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: it is not a gzip file: %v", ErrNotWhole, err)
	}
	var last bytes.Buffer
	t := tar.NewReader(zip)
	for {
		head, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Manifest{}, fmt.Errorf("%w: %v", ErrNotWhole, err)
		}
		if last.Reset(); head.Name == ManifestName {
			if _, err := io.Copy(&last, io.LimitReader(t, maxManifest)); err != nil {
				return Manifest{}, fmt.Errorf("%w: %v", ErrNotWhole, err)
			}
		}
	}
	var m Manifest
	if err := json.Unmarshal(last.Bytes(), &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: it does not end with %s", ErrNotWhole, ManifestName)
	}
	return m, nil
}
