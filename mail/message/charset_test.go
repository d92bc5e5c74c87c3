package message

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/emersion/go-message/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// TestCharsetNames compares encodingOf with the indexes of x/text, for every name in
// their tables, in small and in capital letters.
func TestCharsetNames(t *testing.T) {
	probe := charsetProbe()
	known := 0
	extended := map[string]string{} // what is read as the Windows charset that extends it
	for _, c := range []struct {
		charset, windows encoding.Encoding
	}{{charmap.ISO8859_1, charmap.Windows1252}, {charmap.ISO8859_9, charmap.Windows1254}} {
		from, _ := c.charset.NewDecoder().Bytes(probe)
		to, _ := c.windows.NewDecoder().Bytes(probe)
		extended[string(from)] = string(to)
	}
	for name := range charsetNames(t) {
		ascii := isASCIIName(name)
		var want []byte
		r, err := charset.Reader(name, bytes.NewReader(probe))
		if err == nil {
			known++
			if want, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
			if to := extended[string(want)]; to != "" {
				want = []byte(to)
			}
		}
		for _, label := range []string{name, strings.ToUpper(name), " " + name + "\t"} {
			got := encodingOf(label)
			switch {
			case (got != nil) != (want != nil):
				t.Errorf("%q: known %v, and to x/text %v", label, got != nil, want != nil)
			case got == nil || ascii:
			default:
				if text, err := got.NewDecoder().Bytes(probe); err != nil || !bytes.Equal(text, want) {
					t.Errorf("%q is decoded as %v", label, got)
				}
			}
		}
	}
	if known < 370 {
		t.Errorf("x/text knows only %d names here", known)
	}
	if encodingOf("klingon") != nil || encodingOf("") != nil {
		t.Error("an unknown name is known")
	}
}

// TestASCIIIsUTF8 checks that text labelled US-ASCII loses nothing that is UTF-8.
func TestASCIIIsUTF8(t *testing.T) {
	for _, label := range []string{"ascii", "ANSI_X3.4-1968"} {
		for b, want := range map[string]string{"plain": "plain", "caf\xc3\xa9": "café", "caf\xe9": "caf\uFFFD"} {
			if got, err := encodingOf(label).NewDecoder().Bytes([]byte(b)); err != nil || string(got) != want {
				t.Errorf("%s: %q is read as %q, %v", label, b, got, err)
			}
		}
	}
}

// isASCIIName reports whether name is one of US-ASCII, of which x/text reads bytes from
// 0x80 on as U+FFFD.
func isASCIIName(name string) bool {
	r, err := charset.Reader(name, strings.NewReader("a~\x80\xc3\xa9"))
	if err != nil {
		return false
	}
	s, err := io.ReadAll(r)
	return err == nil && string(s) == "a~"+strings.Repeat(string(utf8.RuneError), 3)
}

// charsetProbe returns bytes that every two encodings decode differently: each byte
// alone, and each lead byte before each trail byte of the encodings with two, some with
// an escape before them.
func charsetProbe() []byte {
	var b []byte
	for c := range 256 {
		b = append(b, byte(c), ' ', '\n')
	}
	for lead := 0x81; lead <= 0xfe; lead++ {
		for trail := 0x30; trail <= 0xfe; trail++ {
			b = append(b, byte(lead), byte(trail))
		}
		b = append(b, ' ', '\n')
	}
	return append(b, "\x1b$B$3$s\x1b(B ~{VPND~} \xfe\xff\x00a"...)
}

// charsetNames returns the names in the tables of x/text's indexes, those of IANA also
// without the "cs" with which its aliases begin.
func charsetNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{"ansi_x3.110-1983": true, "x-utf_8j": true}
	key := regexp.MustCompile(`(?m)^\s*"([^"]+)":`)
	for _, index := range []string{"ianaindex", "htmlindex"} {
		dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/text/encoding/"+index).Output()
		if err != nil {
			t.Skipf("go list: %v", err)
		}
		source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "tables.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range key.FindAllSubmatch(source, -1) {
			name := strings.ToLower(string(m[1]))
			names[name] = true
			names[strings.TrimPrefix(name, "cs")] = true
		}
	}
	return names
}
