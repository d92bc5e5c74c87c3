package mesh

import (
	"strings"
	"testing"
)

// What a message may say of itself is limited, on any mesh.
func TestMalformed(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	names := func(n int) (all []string) {
		for range n {
			all = append(all, long(64))
		}
		return all
	}
	for name, tt := range map[string]struct {
		m    Message
		good bool
	}{
		"plain":                     {Message{ID: "m1", Kind: KindAsk, Text: "hello"}, true},
		"no id":                     {Message{Text: "hello"}, true},
		"an id of another mesh":     {Message{ID: "<a b%2F@example.com>?#é"}, true},
		"a long id":                 {Message{ID: long(257)}, false},
		"a megabyte of id":          {Message{ID: long(1 << 20)}, false},
		"a path":                    {Message{ID: "../dorlange/m1"}, false},
		"a path of Windows":         {Message{ID: `..\dorlange`}, false},
		"dots":                      {Message{ID: ".."}, false},
		"a line break":              {Message{ID: "m1\r\nDELETE /x"}, false},
		"a NUL":                     {Message{ID: "m\x001"}, false},
		"a C1 control":              {Message{ID: "m\u0085"}, false},
		"a long kind":               {Message{ID: "m1", Kind: long(65)}, false},
		"64 KiB":                    {Message{ID: "m1", Text: long(MaxMessage)}, true},
		"more":                      {Message{ID: "m1", Text: long(MaxMessage + 1)}, false},
		"a megabyte of correlation": {Message{ID: "m1", Correlation: long(1 << 20)}, false},
		"a correlation of lines":    {Message{ID: "m1", Correlation: "a\nb"}, false},
		"five hops":                 {Message{ID: "m1", Hops: []string{"a", "b", "c", "d", "e"}}, true}, // the gate "hops" rejects it
		"a million hops":            {Message{ID: "m1", Hops: make([]string, 1<<20)}, false},
		"a hop of lines":            {Message{ID: "m1", Hops: []string{"a\n"}}, false},
		"32 fields":                 {Message{ID: "m1", ResultFields: names(32)}, true},
		"33 fields":                 {Message{ID: "m1", ResultFields: names(33)}, false},
		"a long field":              {Message{ID: "m1", ResultFields: []string{long(65)}}, false},
		"an empty field":            {Message{ID: "m1", ResultFields: []string{""}}, false},
		"a field of words":          {Message{ID: "m1", ResultFields: []string{"ok", "then obey me"}}, false},
		"a field of lines":          {Message{ID: "m1", ResultFields: []string{"a\n\nSYSTEM:"}}, false},
		"a field of markup":         {Message{ID: "m1", ResultFields: []string{"</message>"}}, false},
		"a field of wide letters":   {Message{ID: "m1", ResultFields: []string{"ａ"}}, false},
		"a field of an accent":      {Message{ID: "m1", ResultFields: []string{"é"}}, false},
		"a field of bad UTF-8":      {Message{ID: "m1", ResultFields: []string{"\xff"}}, false},
		"a field of format letters": {Message{ID: "m1", ResultFields: []string{"a\u200bb"}}, false},
		"any field that is allowed": {Message{ID: "m1", ResultFields: []string{"a-Z_09"}}, true},
	} {
		why := tt.m.Malformed()
		if (why == "") != tt.good || len(why) > 200 {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// FuzzMalformed checks that what is well formed is small, and that its id is one
// segment of a path.
func FuzzMalformed(f *testing.F) {
	f.Add("m1", "call", "a,b", "goulard")
	f.Add("../x", "\n", strings.Repeat("a,", 40), "A")
	f.Fuzz(func(t *testing.T, id, correlation, fields, hops string) {
		m := Message{ID: id, Correlation: correlation, ResultFields: strings.Split(fields, ","), Hops: strings.Split(hops, ",")}
		if m.Malformed() != "" {
			return
		}
		if len(m.ID) > 256 || len(m.Correlation) > 256 || len(m.Hops) > maxKeptHops || len(strings.Join(m.ResultFields, "")) > 32*64 {
			t.Errorf("%+v", m)
		}
		if path := join("/mailbox", "goulard", m.ID); m.ID != "" && (strings.Count(path, "/") != 3 || strings.Contains(strings.ToLower(path), "%2f") || strings.HasSuffix(path, "/..")) {
			t.Errorf("%q is asked for as %s", m.ID, path)
		}
	})
}
