package message

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// wide encodes s without a byte order mark.
func wide(s string, order binary.AppendByteOrder) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return b
}

// wide32 is wide for UTF-32.
func wide32(s string, order binary.AppendByteOrder) []byte {
	var b []byte
	for _, r := range s {
		b = order.AppendUint32(b, uint32(r))
	}
	return b
}

// TestWideText reads texts of two and four bytes for each character, in either order.
func TestWideText(t *testing.T) {
	little, big := binary.LittleEndian, binary.BigEndian
	for _, tt := range []struct {
		name, charset string
		body          []byte
		want          string
	}{
		{"no mark, little", "utf-16", wide("STOP\r\n", little), "STOP"},
		{"no mark, big", "utf-16", wide("STOP\r\n", big), "STOP"},
		{"one letter", "UTF-16", wide("A", little), "A"},
		{"a mark, little", "utf-16", wide("\uFEFFSTOP", little), "STOP"},
		{"a mark, big", "utf-16", wide("\uFEFFSTOP", big), "STOP"},
		{"a mark and no zero byte, little", "utf-16", wide("\uFEFF停止", little), "停止"},
		{"a mark before a zero byte, big", "utf-16", wide("\uFEFF一", big), "一"},
		{"a mark before a zero byte, little", "utf-16", wide("\uFEFF一", little), "一"},
		{"no zero byte", "utf-16", wide("停止", big), "停止"},
		{"Cyrillic with a blank, little", "utf-16", wide("стоп да", little), "стоп да"},
		{"Cyrillic with a blank, big", "utf-16", wide("стоп да", big), "стоп да"},
		{"named little", "utf-16le", wide("停止", little), "停止"},
		{"named big", "UTF-16BE", wide("停止", big), "停止"},
		{"named little, with a mark", "utf-16le", wide("\uFEFFSTOP", little), "STOP"},
		{"beyond the first plane", "utf-16", wide("go 🚀 now", little), "go 🚀 now"},
		{"half of a pair", "utf-16le", append(wide("a", little), 0x3d, 0xd8, 'b', 0), "a\uFFFDb"},
		{"the other half", "utf-16le", append(wide("a", little), 0x00, 0xdc), "a\uFFFD"},
		{"an odd length", "utf-16", append(wide("STOP", little), 'x'), "STOP\uFFFD"},
		{"one byte", "utf-16", []byte("x"), "\uFFFD"},
		{"nothing", "utf-16", nil, ""},
		{"ucs-2", "ISO-10646-UCS-2", wide("STOP", little), "STOP"},
		{"UTF-32, little", "utf-32", wide32("STOP 🚀", little), "STOP 🚀"},
		{"UTF-32, big", "utf-32", wide32("停止", big), "停止"},
		{"UTF-32, a mark", "utf-32", wide32("\uFEFFSTOP", little), "STOP"},
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
		raw := "Content-Type: text/plain; charset=utf-16\nContent-Transfer-Encoding: base64\n\n" + base64.StdEncoding.EncodeToString(wide("HALT\r\n", order))
		if got := Control(ReadContent(strings.NewReader(raw), Sent{}).Text); got != "HALT" {
			t.Errorf("control %q", got)
		}
		subject := "Subject: =?utf-16?B?" + base64.StdEncoding.EncodeToString(wide("@goulard3120 hi", order)) + "?=\n"
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
