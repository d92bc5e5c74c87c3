package members

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"
)

// thing has a member of every kind.
type thing struct {
	Text    string           `json:"text"`
	Note    string           `json:"note,omitempty"`
	Big     uint64           `json:"big"`
	Small   int64            `json:"small,omitempty"`
	Short   uint32           `json:"short,omitempty"`
	Yes     bool             `json:"yes,omitempty"`
	At      time.Time        `json:"at"`
	Until   *time.Time       `json:"until,omitempty"`
	Part    part             `json:"part,omitzero"`
	Other   *part            `json:"other,omitempty"`
	Parts   []part           `json:"parts,omitempty"`
	Words   []string         `json:"words,omitempty"`
	Numbers []uint32         `json:"numbers,omitempty"`
	Times   []time.Time      `json:"times,omitempty"`
	Counts  map[string]int64 `json:"counts,omitempty"`
	ByUID   map[uint32]part  `json:"by_uid,omitempty"`
	Last    part             `json:"last"`
}

type part struct {
	A string `json:"a,omitempty"`
	B int    `json:"b"`
}

func (v *thing) members(c *Coder) {
	Text(c, "text", &v.Text)
	OptText(c, "note", &v.Note)
	Number(c, "big", &v.Big)
	OptNumber(c, "small", &v.Small)
	OptNumber(c, "short", &v.Short)
	OptBool(c, "yes", &v.Yes)
	Time(c, "at", &v.At)
	OptTimePointer(c, "until", &v.Until)
	OptObject(c, "part", &v.Part, (*part).members)
	OptPointer(c, "other", &v.Other, (*part).members)
	OptObjects(c, "parts", &v.Parts, (*part).members)
	OptTexts(c, "words", &v.Words)
	OptNumbers(c, "numbers", &v.Numbers)
	OptTimes(c, "times", &v.Times)
	OptNumberMap(c, "counts", &v.Counts)
	OptObjectMap(c, "by_uid", &v.ByUID, (*part).members)
	Object(c, "last", &v.Last, (*part).members)
}

func (v *part) members(c *Coder) {
	OptText(c, "a", &v.A)
	Number(c, "b", &v.B)
}

func things() map[string]thing {
	at := time.Date(2026, 3, 2, 9, 30, 0, 120, time.UTC)
	there := at.In(time.FixedZone("", 5400))
	return map[string]thing{
		"zero":    {},
		"empty":   {Parts: []part{}, Words: []string{}, Counts: map[string]int64{}, Other: new(part)},
		"large":   {Big: math.MaxUint64, Small: math.MaxInt64, Short: math.MaxUint32},
		"least":   {Small: math.MinInt64},
		"text":    {Text: "é<&>\"\\\n\x00\x7f\u2028\U0001f600", Note: "\xff is not UTF-8"},
		"times":   {At: there, Until: &at, Times: []time.Time{at, there, {}}},
		"objects": {Part: part{"x", -1}, Other: &part{B: 5}, Parts: []part{{}, {"y", 2}}},
		"lists":   {Words: []string{"", "a", "b"}, Numbers: []uint32{0, 10, 9}, Yes: true},
		"maps":    {Counts: map[string]int64{"b": 1, "": 2, "<": -3}, ByUID: map[uint32]part{9: {}, 10: {"z", 1}, 100: {}}},
	}
}

func TestAppendAndRead(t *testing.T) {
	for name, v := range things() {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := Append([]byte("before "), &v, (*thing).members)
		if !ok || string(got) != "before "+string(want) {
			t.Errorf("%s: written as %s (%v), want %s", name, got, ok, want)
		}
		if !sameAsJSON(t, want) {
			t.Errorf("%s: %s was not read", name, want)
		}
	}
}

// What encoding/json would not write is left to it, with its error.
func TestAppendLeaves(t *testing.T) {
	v := thing{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	if data, ok := Append(nil, &v, (*thing).members); ok {
		t.Errorf("wrote %s", data)
	}
}

// What encoding/json reads in another way, or not at all, is left to it.
func TestReadLeaves(t *testing.T) {
	for _, text := range []string{
		"", "{", "{}x", "{} ", "[]", "null", "nul", `{"text"}`, `{"text":}`, `{"text":"a}`, `{"text":"\x"}`, "{\"text\":\"\n\"}", `{"text":"\`,
		`{"text":1}`, `{"Text":"a"}`, `{"note":"a","text":"b"}`, `{"text":"a","text":"b"}`, `{"text":"a",}`, `{,"text":"a"}`, `{"unknown":1}`,
		`{"big":-1}`, `{"big":01}`, `{"big":}`, `{"big":1.5}`, `{"big":1e3}`, `{"big":18446744073709551616}`, `{"small":9223372036854775808}`,
		`{"small":-9223372036854775809}`, `{"small":-0}`, `{"small":--1}`, `{"short":4294967296}`, `{"yes":false}`, `{"yes":tru`, `{"yes":null}`,
		`{"at":"yesterday"}`, `{"at":"2026-03-02T09:30:00Z`, `{"at":"2026-03-02 09:30:00Z"}`, `{"at":1}`, `{"at":"\u0032026-03-02T09:30:00Z"}`,
		`{"until":null}`, `{"part":null}`, `{"part":{"b":1}`, `{"part":{"b":1,"c":2}}`, `{"parts":[{"b":1},]}`, `{"parts":[`, `{"parts":[,]}`, `{"parts":{}}`,
		`{"words":["a""b"]}`, `{"words":["a",]}`, `{"words":null}`, `{"words":["a"`, `{"counts":{"a":1,}}`, `{"counts":{"a"}}`, `{"counts":{"a":1`, `{"counts":[]}`,
		`{"by_uid":{"01":{}}}`, `{"by_uid":{"x":{}}}`, `{"by_uid":{"4294967296":{}}}`, `{"by_uid":{"-1":{}}}`,
	} {
		var v thing
		if Read([]byte(text), &v, (*thing).members) {
			t.Errorf("%s was read as %+v", text, v)
		}
	}
}

// sameAsJSON reports whether Read takes data. It fails the test if encoding/json makes
// another value of it.
func sameAsJSON(t *testing.T, data []byte) bool {
	t.Helper()
	var got, want thing
	if !Read(data, &got, (*thing).members) {
		return false
	}
	if err := json.Unmarshal(data, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: read as\n%+v, and by encoding/json as\n%+v, %v", data, got, want, err)
	}
	return true
}

// FuzzRead reads arbitrary bytes: what Read takes, encoding/json reads in the same way.
func FuzzRead(f *testing.F) {
	for _, v := range things() {
		data, _ := json.Marshal(v)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameAsJSON(t, data) })
}
