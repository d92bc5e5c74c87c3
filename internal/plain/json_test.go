package plain_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"unicode"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

// encode returns v as the commands encode it, before plain.JSON.
func encode(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  `""`,
		"plain, ünïcödé 漢字 🙂 <&>":           `"plain, ünïcödé 漢字 🙂 <&>"`,
		"\x1b[2J \a\b\t\r\n\x00":            `"\u001b[2J \u0007\b\t\r\n\u0000"`,
		"\x7f \u0080 \u009b2J \u009f":       `"\u007f \u0080 \u009b2J \u009f"`,
		"\u202e\u2066\u200f\u061c":          `"\u202e\u2066\u200f\u061c"`,
		"\u200b\u200c\u200d\u2060\ufeff":    `"\u200b\u200c\u200d\u2060\ufeff"`,
		"soft\u00adhyphen":                  `"soft\u00adhyphen"`,
		"\u2028\u2029\u0085":                `"\u2028\u2029\u0085"`,
		"\U000e0041\U000e007f":              `"\udb40\udc41\udb40\udc7f"`,
		"\ufe0f\U000e0100\u180b":            `"\ufe0f\udb40\udd00\u180b"`,
		"\u115f\u3164\uffa0\u034f":          `"\u115f\u3164\uffa0\u034f"`,
		"\U0001d173\U000110bd\ufff9":        `"\ud834\udd73\ud804\udcbd\ufff9"`,
		"\ue000\U000f0000\ufdd0\U0010ffff":  `"\ue000\udb80\udc00\ufdd0\udbff\udfff"`,
		"half \xff \xed\xa0\x80":            `"half \ufffd \ufffd\ufffd\ufffd"`,
		`\u202e is six characters, not one`: `"\\u202e is six characters, not one"`,
	} {
		got := plain.JSON(encode(t, text))
		if string(got) != want+"\n" {
			t.Errorf("%+q: %s, want %s", text, got, want)
		}
	}
}

// TestJSONRaw checks raw values, which encoding/json copies.
func TestJSONRaw(t *testing.T) {
	for raw, want := range map[string]string{
		"\"\xff\u202e\"": `"\ufffd\u202e"`,
		`"\ud800"`:       `"\ud800"`,
		`{"\u202e":"` + "\u202e" + `"}`: `{
  "\u202e": "\u202e"
}`,
	} {
		if got := plain.JSON(encode(t, json.RawMessage(raw))); string(got) != want+"\n" {
			t.Errorf("%+q: %s, want %s", raw, got, want)
		}
	}
}

// TestJSONOfEveryCharacter checks for each character that the output has no control or format
// characters, and that a reader gets the character back. Above the planes with letters it tries only
// every 17th character, and all tags and selectors, unless real programs are required.
func TestJSONOfEveryCharacter(t *testing.T) {
	const letters, tags = 0x3ffff, 0xe0 // tags are those from U+E0000 to U+E0FFF
	all := os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != ""
	for r := range rune(unicode.MaxRune + 1) {
		if !utf8.ValidRune(r) || !all && r > letters && r>>12 != tags && r%17 != 0 {
			continue
		}
		out := plain.JSON(encode(t, string(r)))
		var back string
		if err := json.Unmarshal(out, &back); err != nil || back != string(r) {
			t.Fatalf("%U: %q, %v, from %s", r, back, err, out)
		}
		wantSeen(t, out)
	}
}

func wantSeen(t *testing.T, out []byte) {
	t.Helper()
	for _, r := range string(out) {
		if r != '\n' && unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			t.Fatalf("%U is in the output: %q", r, out)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("key", "a\u202eb\x7f\xff\U000e0041")
	f.Fuzz(func(t *testing.T, key, text string) {
		plainly := encode(t, map[string]any{key: []string{text, text + key}})
		out := plain.JSON(bytes.Clone(plainly))
		var want, got any
		if err := json.Unmarshal(plainly, &want); err != nil {
			t.Skip()
		}
		if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %q: %v", plainly, out, err)
		}
		wantSeen(t, out)
	})
}
