package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"agentstateloop/internal/testkit/limittest"
)

func TestLimits(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	read := func(t *testing.T, headerBytes, manifestBytes, padding int64) bool {
		header, manifest := `{"format":1}`, `{"format":1}`
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		w := tar.NewWriter(zip)
		for _, m := range []struct {
			name, text string
			size       int64
		}{{HeaderName, header, headerBytes}, {ManifestName, manifest, manifestBytes}} {
			text := m.text + strings.Repeat(" ", int(max(0, m.size-int64(len(m.text)))))
			if err := w.WriteHeader(&tar.Header{Name: m.name, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := zip.Write(make([]byte, padding)); err != nil {
			t.Fatal(err)
		}
		if err := zip.Close(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		_, err := Unpack(&out, func(Header) (string, error) { return dir, nil })
		return err == nil
	}
	writeHeader := func(n int64) bool {
		empty, err := json.MarshalIndent(Header{Format: Format}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		_, err = NewWriter(io.Discard, Header{Host: strings.Repeat("x", int(n)-len(empty)-len("\n"))})
		return err == nil
	}
	writeManifest := func(n int64) bool {
		w, err := NewWriter(io.Discard, Header{})
		if err != nil {
			t.Fatal(err)
		}
		one := w.manifest
		one.LeftOut = []string{""}
		empty, err := json.MarshalIndent(one, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Close(nil, false, []string{strings.Repeat("x", int(n)-len(empty)-len("\n"))})
		return err == nil
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxHeader", Max: 64 << 10, Within: func(t *testing.T, n int64) bool { return read(t, n, 0, 0) }},
		{Const: "maxManifest", Max: 32 << 20, Within: func(t *testing.T, n int64) bool { return read(t, 0, n, 0) }},
		{Const: "maxHeader", Max: 64 << 10, Within: func(t *testing.T, n int64) bool { return writeHeader(n) }},
		{Const: "maxManifest", Max: 32 << 20, Within: func(t *testing.T, n int64) bool { return writeManifest(n) }},
		{Const: "maxSecrets", Max: 4 << 20, Within: func(t *testing.T, n int64) bool {
			const around = `{"":"AAAA"}` // the length of base64 is a multiple of 4, and the rest is the name
			name := strings.Repeat("x", int(n)%4+1)
			content := (int(n) - len(around) - len(name)) / 4 * 3
			_, err := Seal(map[string][]byte{name: make([]byte, content+3)}, []age.Recipient{key.Recipient()})
			return err == nil
		}},
		{Const: "maxPadding", Max: 64 << 10, Within: func(t *testing.T, n int64) bool { return read(t, 0, 0, n) }},
		{Const: "maxSecrets", Max: 4 << 20, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			var sealed bytes.Buffer
			w, err := age.Encrypt(&sealed, key.Recipient())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, strings.Repeat(" ", int(n)-2)+"{}"); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, SecretsName), sealed.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = OpenSecrets(dir, []age.Identity{key})
			return err == nil
		}},
	})
}
