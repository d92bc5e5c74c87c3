package message

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/emersion/go-message/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// TestCharsetNames compares encodingOf with the indexes of x/text, for every name in their tables,
// in lower and upper case.
func TestCharsetNames(t *testing.T) {
	probe := charsetProbe()
	known := 0
	extended := map[string]string{} // texts that are decoded in the Windows charset that extends theirs
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
			if _, wide := wideCharsetOf(label); wide {
				continue // TestWideText
			}
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

// TestASCIIIsUTF8 checks that UTF-8 text labelled US-ASCII is decoded whole.
func TestASCIIIsUTF8(t *testing.T) {
	for _, label := range []string{"ascii", "ANSI_X3.4-1968"} {
		for b, want := range map[string]string{"plain": "plain", "caf\xc3\xa9": "café", "caf\xe9": "caf\uFFFD"} {
			if got, err := encodingOf(label).NewDecoder().Bytes([]byte(b)); err != nil || string(got) != want {
				t.Errorf("%s: %q is read as %q, %v", label, b, got, err)
			}
		}
	}
}

// isASCIIName reports whether name is a name of US-ASCII. x/text decodes bytes from 0x80 on in it
// as U+FFFD.
func isASCIIName(name string) bool {
	r, err := charset.Reader(name, strings.NewReader("a~\x80\xc3\xa9"))
	if err != nil {
		return false
	}
	s, err := io.ReadAll(r)
	return err == nil && string(s) == "a~"+strings.Repeat(string(utf8.RuneError), 3)
}

// charsetProbe returns bytes that any two encodings decode differently: each byte alone, and each
// lead byte with each trail byte of the double-byte encodings, some after an escape sequence.
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

// charsetNames returns the names in the tables of x/text's indexes. It adds the names of IANA
// without the prefix "cs" of its aliases.
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

// labels has one label for each charset of encodingOf, and a few unknown ones.
var labels = []string{
	"utf-8", "us-ascii", "utf-16", "utf-16le", "utf-16be", "iso-8859-1", "iso-8859-2", "iso-8859-3", "iso-8859-4", "iso-8859-5", "iso-8859-6", "iso-8859-6-e", "iso-8859-6-i", "iso-8859-7",
	"iso-8859-8", "iso-8859-8-e", "iso-8859-8-i", "iso-8859-9", "iso-8859-10", "iso-8859-13", "iso-8859-14", "iso-8859-15", "iso-8859-16", "windows-874", "windows-1250",
	"windows-1251", "windows-1252", "windows-1253", "windows-1254", "windows-1255", "windows-1256", "windows-1257", "windows-1258", "koi8-r",
	"koi8-u", "macintosh", "x-mac-cyrillic", "ibm037", "ibm437", "ibm850", "ibm852", "ibm855", "ibm00858", "ibm860", "ibm862", "ibm863", "ibm865",
	"ibm866", "ibm1047", "ibm01140", "x-user-defined", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr", "gb18030", "gbk", "hz-gb-2312", "big5",
	"iso-2022-kr", "utf-7", "utf-32", "unknown", "",
}

// pairBodies returns texts that distinguish charsets: every byte beyond ASCII between letters and
// next to other bytes, escape sequences, and an order in ASCII.
func pairBodies() [][]byte {
	bodies := [][]byte{
		[]byte("run ~{!! tests~} now"), []byte("+AGQAZQBs- all"), []byte("run \x1b$B%F%9%H\x1b(B now"), []byte("run \x1b(J now \\ ~"), []byte("\x0e\x24\x22\x0f a"),
		[]byte("run \x1b[31mred\x1b[0m now"), []byte("run the tests"), []byte("\xfe\xffr u n"), []byte("r\x00u\x00n\x00"), []byte("\x99\xa4\x95"),
	}
	for a := 0x80; a < 0x100; a++ {
		lead := string([]byte{byte(a)})
		bodies = append(bodies, []byte("do not "+lead+"x run "+lead+", or stop "+lead+"."))
		for _, b := range []byte("A\\\xa1\xfe")[a%2*2:][:2] {
			trail := string([]byte{b})
			bodies = append(bodies, []byte("do not "+lead+trail+" run "+trail+lead+lead+trail+" x"))
		}
	}
	return bodies
}

// TestAmbiguousCharsets decodes each text in each pair of charsets. If both pass, the text has the
// same words in ASCII. The table of the decision lists the pairs that can differ in letters beyond
// ASCII.
func TestAmbiguousCharsets(t *testing.T) {
	confused, passed := map[string]map[string]bool{}, map[string]bool{}
	for _, label := range labels {
		confused[label] = map[string]bool{}
	}
	for _, body := range pairBodies() {
		type reading struct{ label, text string }
		var all []reading
		for _, label := range labels {
			raw := append([]byte("Content-Type: text/plain; charset=\""+label+"\"\nContent-Transfer-Encoding: 8bit\n\n"), body...)
			if SoleReading(raw, SignedFields{}) == nil {
				all = append(all, reading{label, ContentOf(raw, Sent{}).Full})
				passed[label] = true
			}
		}
		for i, one := range all {
			for _, other := range all[i+1:] {
				if inASCII(one.text) != inASCII(other.text) {
					t.Fatalf("%q is %q in %s, and %q in %s", body, one.text, one.label, other.text, other.label)
				}
				if one.text != other.text {
					confused[one.label][other.label], confused[other.label][one.label] = true, true
				}
			}
		}
	}
	var alone, among []string
	for _, label := range labels {
		switch {
		case len(confused[label]) > 0:
			among = append(among, label)
		case passed[label] && label != "":
			alone = append(alone, label)
		}
	}
	const page = "../../docs/decisions/0062-ambiguous-mail-and-challenges.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range [][]string{alone, among} {
		if group := strings.Join(group, ", "); !strings.Contains(strings.Join(strings.Fields(string(text)), " "), ": "+group+".") {
			t.Errorf("%s does not have this group: %s.", page, group)
		}
	}
}

// TestLabelsAreComplete checks that labels covers each encoding of encodingOf.
func TestLabelsAreComplete(t *testing.T) {
	var known []encoding.Encoding
	for _, label := range labels {
		known = append(known, encodingOf(label))
	}
	for name := range charsetNames(t) {
		if !slices.Contains(known, encodingOf(name)) {
			t.Errorf("labels has no charset of %s", name)
		}
	}
}

// encodeUTF16 encodes s without a byte order mark.
func encodeUTF16(s string, order binary.AppendByteOrder) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return b
}

// encodeUTF32 is wide for UTF-32.
func encodeUTF32(s string, order binary.AppendByteOrder) []byte {
	var b []byte
	for _, r := range s {
		b = order.AppendUint32(b, uint32(r))
	}
	return b
}

// TestWideText reads texts in UTF-16 and UTF-32, in both byte orders.
func TestWideText(t *testing.T) {
	little, big := binary.LittleEndian, binary.BigEndian
	for _, tt := range []struct {
		name, charset string
		body          []byte
		want          string
	}{
		{"no mark, little", "utf-16", encodeUTF16("STOP\r\n", little), "STOP"},
		{"no mark, big", "utf-16", encodeUTF16("STOP\r\n", big), "STOP"},
		{"one letter", "UTF-16", encodeUTF16("A", little), "A"},
		{"a mark, little", "utf-16", encodeUTF16("\uFEFFSTOP", little), "STOP"},
		{"a mark, big", "utf-16", encodeUTF16("\uFEFFSTOP", big), "STOP"},
		{"a mark and no zero byte, little", "utf-16", encodeUTF16("\uFEFF停止", little), "停止"},
		{"a mark before a zero byte, big", "utf-16", encodeUTF16("\uFEFF一", big), "一"},
		{"a mark before a zero byte, little", "utf-16", encodeUTF16("\uFEFF一", little), "一"},
		{"no zero byte", "utf-16", encodeUTF16("停止", big), "停止"},
		{"Cyrillic with a blank, little", "utf-16", encodeUTF16("стоп да", little), "стоп да"},
		{"Cyrillic with a blank, big", "utf-16", encodeUTF16("стоп да", big), "стоп да"},
		{"named little", "utf-16le", encodeUTF16("停止", little), "停止"},
		{"named big", "UTF-16BE", encodeUTF16("停止", big), "停止"},
		{"named little, with a mark", "utf-16le", encodeUTF16("\uFEFFSTOP", little), "STOP"},
		{"beyond the first plane", "utf-16", encodeUTF16("go 🚀 now", little), "go 🚀 now"},
		{"half of a pair", "utf-16le", append(encodeUTF16("a", little), 0x3d, 0xd8, 'b', 0), "a\uFFFDb"},
		{"the other half", "utf-16le", append(encodeUTF16("a", little), 0x00, 0xdc), "a\uFFFD"},
		{"an odd length", "utf-16", append(encodeUTF16("STOP", little), 'x'), "STOP\uFFFD"},
		{"one byte", "utf-16", []byte("x"), "\uFFFD"},
		{"nothing", "utf-16", nil, ""},
		{"ucs-2", "ISO-10646-UCS-2", encodeUTF16("STOP", little), "STOP"},
		{"UTF-32, little", "utf-32", encodeUTF32("STOP 🚀", little), "STOP 🚀"},
		{"UTF-32, big", "utf-32", encodeUTF32("停止", big), "停止"},
		{"UTF-32, a mark", "utf-32", encodeUTF32("\uFEFFSTOP", little), "STOP"},
		{"beyond Unicode", "utf-32be", []byte{0, 0, 0, 'a', 0xff, 0xff, 0xff, 0xff, 0, 0, 0xd8, 0}, "a\uFFFD\uFFFD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw := "Content-Type: text/plain; charset=" + tt.charset + "\nContent-Transfer-Encoding: (odd) BASE64\n\n" + base64.StdEncoding.EncodeToString(tt.body) + "\n"
			if got := ReadContent(strings.NewReader(raw), Sent{}).Full; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	for _, order := range []binary.AppendByteOrder{little, big} {
		raw := "Content-Type: text/plain; charset=utf-16\nContent-Transfer-Encoding: base64\n\n" + base64.StdEncoding.EncodeToString(encodeUTF16("HALT\r\n", order))
		if got := Control(ReadContent(strings.NewReader(raw), Sent{}).Text); got != "HALT" {
			t.Errorf("control %q", got)
		}
		subject := "Subject: =?utf-16?B?" + base64.StdEncoding.EncodeToString(encodeUTF16("@goulard3120 hi", order)) + "?=\n"
		if got := ParseHeader([]byte(subject)).Subject; got != "@goulard3120 hi" {
			t.Errorf("subject %q", got)
		}
	}
}

func FuzzWideText(f *testing.F) {
	f.Add([]byte("S\x00T\x00O\x00P\x00"), "utf-16")
	f.Add([]byte("\xff\xfe\x3d\xd8x"), "utf-32")
	f.Fuzz(func(t *testing.T, b []byte, label string) {
		w, ok := wideCharsetOf(label)
		if !ok {
			return
		}
		if s := w.decode(b); !utf8.ValidString(s) || len(s) > 3*len(b)/2+6 {
			t.Errorf("%q", s)
		}
	})
}
