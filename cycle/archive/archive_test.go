package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"agentstateloop/cycle/archive"
)

var files = map[string]string{
	"agent.toml": "[agent]\n", "state/state.json": "{}", "state/messages/m%2E1.eml": strings.Repeat("hello\n", 100), "home/.config/x": "x", "config/reply.sh": "#!/bin/sh\n",
}

// archived returns an archive of files.
func archived(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, archive.Header{Handle: "goulard3120", Serial: 7, Made: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.Add(name, int64(len(files[name])), strings.HasSuffix(name, ".sh"), strings.NewReader(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close([]archive.Secret{{Key: "mail.imap.password_file"}}, false, []string{"/etc/x: outside"}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpack(data []byte, dir string) (archive.Manifest, error) {
	return archive.Unpack(bytes.NewReader(data), func(archive.Header) (string, error) { return dir, nil })
}

// TestRoundTrip checks that an archive gives back each file, with its mode.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	m, err := unpack(archived(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Handle != "goulard3120" || m.Serial != 7 || m.Format != archive.Format || len(m.Files) != len(files) || len(m.Secrets) != 1 || len(m.LeftOut) != 1 {
		t.Errorf("%+v", m)
	}
	for name, want := range files {
		file := filepath.Join(dir, name)
		got, err := os.ReadFile(file)
		if string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 || info.Mode()&0o100 != 0 != strings.HasSuffix(name, ".sh") {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// stride is the distance of the bytes that a test tries, from a random one.
const stride = 19

// TestCutAnywhere checks that no beginning of an archive is taken for one.
func TestCutAnywhere(t *testing.T) {
	data := archived(t)
	for n := rand.IntN(stride); n < len(data); n += stride {
		if _, err := unpack(data[:n], t.TempDir()); err == nil {
			t.Fatalf("the first %d of %d bytes are restored", n, len(data))
		}
	}
	if _, err := unpack(append(data, "more"...), t.TempDir()); !errors.Is(err, archive.ErrNotWhole) {
		t.Errorf("with more bytes at the end: %v", err)
	}
}

// TestChangedAnywhere changes a byte of an archive. Only the fields of the gzip header that
// describe its origin may change.
func TestChangedAnywhere(t *testing.T) {
	data := archived(t)
	for i := rand.IntN(stride); i < len(data); i += stride {
		changed := bytes.Clone(data)
		changed[i] ^= 0x55
		dir := t.TempDir()
		if _, err := unpack(changed, dir); err != nil {
			continue
		}
		if i < 3 || i > 9 { // gzip: time, flags, system
			t.Errorf("a change of byte %d goes unnoticed", i)
		}
	}
}

// member is one member of an archive that a test makes by hand.
type member struct {
	tar.Header
	data string
}

// byHand returns an archive with a valid header, these members, and a manifest with the files.
func byHand(t *testing.T, manifest archive.Manifest, members ...member) []byte {
	t.Helper()
	manifest.Format = max(manifest.Format, archive.Format)
	text := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	all := slices.Concat([]member{{tar.Header{Name: archive.HeaderName}, text(manifest.Header)}}, members, []member{{tar.Header{Name: archive.ManifestName}, text(manifest)}})
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, m := range all {
		if m.Typeflag == 0 {
			m.Typeflag = tar.TypeReg
		}
		m.Size, m.Mode = int64(len(m.data)), 0o600
		if err := w.WriteHeader(&m.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sumOfX is the SHA-256 of "x".
const sumOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

// TestRefusals checks that an archive is refused by the reason, and that it puts no file outside its
// folder.
func TestRefusals(t *testing.T) {
	x := func(name string) member { return member{tar.Header{Name: name}, "x"} }
	listed := func(names ...string) (m archive.Manifest) {
		for _, name := range names {
			m.Files = append(m.Files, archive.File{Name: name, Size: 1, SHA256: sumOfX})
		}
		return m
	}
	if _, err := unpack(byHand(t, listed("agent.toml"), x("agent.toml")), t.TempDir()); err != nil {
		t.Fatalf("an archive without fault: %v", err)
	}
	newer := archive.Manifest{Header: archive.Header{Format: archive.Format + 1}}
	cases := map[string]struct {
		data []byte
		want string
	}{
		"newer":    {byHand(t, newer), "made by a newer agentstateloop"},
		"unlisted": {byHand(t, listed("agent.toml"), x("agent.toml"), x("state/x")), "state/x is not in its list"},
		"missing":  {byHand(t, listed("agent.toml", "state/x"), x("agent.toml")), "state/x is missing"},
		"sum":      {byHand(t, listed("agent.toml"), member{tar.Header{Name: "agent.toml"}, "y"}), "agent.toml was changed"},
		"size":     {byHand(t, listed("agent.toml"), member{tar.Header{Name: "agent.toml"}, "xx"}), "agent.toml was changed"},
		"twice":    {byHand(t, listed("state/x", "state/x"), x("state/x"), x("state/x")), "file exists"},
		"link":     {byHand(t, listed(), member{Header: tar.Header{Name: "state/x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}), "a link, a folder or a device"},
		"hardlink": {byHand(t, listed(), member{Header: tar.Header{Name: "state/x", Typeflag: tar.TypeLink, Linkname: "agent.toml"}}), "a link, a folder or a device"},
		"device":   {byHand(t, listed(), member{Header: tar.Header{Name: "state/x", Typeflag: tar.TypeFifo}}), "a link, a folder or a device"},
		"no header": {func() []byte {
			var out bytes.Buffer
			zip := gzip.NewWriter(&out)
			zip.Close()
			return out.Bytes()
		}(), "does not begin with"},
	}
	for _, name := range []string{"/etc/x", "../x", "state/../../x", "state/../x", "state//x", "state", "other/x", "state/./x", "./agent.toml", "state/a\\b"} {
		cases[name] = struct {
			data []byte
			want string
		}{byHand(t, listed(name), x(name)), "outside the folders of an agent"}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			above := t.TempDir()
			dir := filepath.Join(above, "a", "b")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := unpack(c.data, dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want an error with %q", err, c.want)
			}
			err := filepath.WalkDir(above, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && !strings.HasPrefix(path, dir+"/") {
					t.Errorf("it wrote %s", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := archive.Unpack(bytes.NewReader(archived(t)), func(h archive.Header) (string, error) { return "", errors.New("refused " + h.Handle) }); err == nil || err.Error() != "refused goulard3120" {
		t.Errorf("the caller refuses the header: %v", err)
	}
}

// TestShrinkingFile checks that a file that becomes shorter while it is read is an error, not an
// archive with other content.
func TestShrinkingFile(t *testing.T) {
	w, err := archive.NewWriter(new(bytes.Buffer), archive.Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add("state/x", 10, false, strings.NewReader("short")); err == nil || !strings.Contains(err.Error(), "became shorter") {
		t.Error(err)
	}
}

// TestReadManifest checks that the manifest of a file can be read alone, and that a cut file has
// none.
func TestReadManifest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	data := archived(t)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := archive.ReadManifest(file); err != nil || m.Serial != 7 || len(m.Files) != len(files) {
		t.Errorf("%+v, %v", m, err)
	}
	if err := os.WriteFile(file, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.ReadManifest(file); !errors.Is(err, archive.ErrNotWhole) {
		t.Errorf("a cut file: %v", err)
	}
}

// TestSecrets seals secrets for two keys and for a passphrase, and opens them again.
func TestSecrets(t *testing.T) {
	one, other := newKey(t), newKey(t)
	recipients, err := archive.Recipients([]string{one.Recipient().String(), other.Recipient().String()})
	if err != nil {
		t.Fatal(err)
	}
	word, err := age.NewScryptRecipient("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	word.SetWorkFactor(10) // the default takes a second
	opens, err := age.NewScryptIdentity("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := age.NewScryptIdentity("battery")
	if err != nil {
		t.Fatal(err)
	}
	fromFile, err := archive.Identities("# created: today\n" + other.String() + "\n")
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string][]byte{"home/.config/x": []byte("hunter2\n"), "agent.toml": []byte("[agent]\n")}
	for name, c := range map[string]struct {
		to    []age.Recipient
		with  []age.Identity
		opens bool
	}{
		"a key":              {recipients, []age.Identity{one}, true},
		"the other key":      {recipients, fromFile, true},
		"a third key":        {recipients, []age.Identity{newKey(t)}, false},
		"the passphrase":     {[]age.Recipient{word}, []age.Identity{opens}, true},
		"another passphrase": {[]age.Recipient{word}, []age.Identity{wrong}, false},
	} {
		sealed, err := archive.Seal(secrets, c.to)
		if err != nil {
			t.Fatal(name, err)
		}
		if bytes.Contains(sealed, []byte("hunter2")) || !bytes.HasPrefix(sealed, []byte("age-encryption.org/v1\n")) {
			t.Errorf("%s: %q", name, sealed)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, archive.SecretsName), sealed, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := archive.OpenSecrets(dir, c.with)
		if c.opens != maps.EqualFunc(got, secrets, bytes.Equal) || c.opens != (err == nil) || !c.opens && !errors.Is(err, archive.ErrWrongKey) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := os.WriteFile(filepath.Join(dir, archive.SecretsName), sealed[:len(sealed)-1], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.OpenSecrets(dir, c.with); err == nil {
			t.Errorf("%s: a cut member opens", name)
		}
	}
	sealed, err := archive.Seal(map[string][]byte{"../x": nil}, recipients)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, archive.SecretsName), sealed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.OpenSecrets(dir, []age.Identity{one}); err == nil || !strings.Contains(err.Error(), "outside the folders") {
		t.Errorf("a secret outside the folders: %v", err)
	}
}

func newKey(t *testing.T) *age.X25519Identity {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestWrongKeys checks that a wrong key is refused, and that the error does not quote a private key.
func TestWrongKeys(t *testing.T) {
	private := newKey(t).String()
	for _, key := range []string{"", "goulard", private, strings.ToLower(private), "age1xyz"} {
		if _, err := archive.Recipients([]string{key}); err == nil || strings.Contains(strings.ToUpper(err.Error()), private) {
			t.Errorf("recipient %q: %v", key, err)
		}
	}
	for _, text := range []string{"", "goulard", private[:len(private)-1]} {
		if _, err := archive.Identities(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("identity %q: %v", text, err)
		}
	}
}
