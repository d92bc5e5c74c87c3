package members

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
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

// TestAppendFallsBackToJSON checks that a value is not written for which encoding/json has an error.
func TestAppendFallsBackToJSON(t *testing.T) {
	v := thing{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	if data, ok := Append(nil, &v, (*thing).members); ok {
		t.Errorf("wrote %s", data)
	}
}

// TestReadFallsBackToJSON checks that text is not read that encoding/json refuses or reads differently.
func TestReadFallsBackToJSON(t *testing.T) {
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

// list has rows and a map that a memo keeps.
type list struct {
	Head string           `json:"head"`
	Rows []part           `json:"rows,omitempty"`
	Set  map[string]int64 `json:"set,omitempty"`
	Tail []part           `json:"tail,omitempty"`
}

func (v *list) members(c *Coder) {
	Text(c, "head", &v.Head)
	OptRows(c, "rows", &v.Rows, (*part).members)
	OptSet(c, "set", &v.Set)
	OptObjects(c, "tail", &v.Tail, (*part).members)
}

// TestAppendAgain changes the rows of a value at random, and checks that it is written with the memo of
// the last one as without.
func TestAppendAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var v list
	var memo *Memo
	for n := range 3000 {
		v.Head = strings.Repeat("h", rng.IntN(5))
		v.Rows = slices.Clone(v.Rows)
		switch at := rng.IntN(len(v.Rows) + 1); rng.IntN(9) {
		case 0, 1, 2:
			v.Rows = append(v.Rows, part{B: n})
		case 3:
			v.Rows = slices.Insert(v.Rows, at, part{A: "new", B: n}, part{})
		case 4:
			v.Rows = slices.Delete(v.Rows, max(0, at-rng.IntN(2*maxGone)), at)
		case 5:
			for i := range v.Rows[at:] {
				v.Rows[at+i].A = "changed"
			}
		case 6:
			if at < len(v.Rows) {
				v.Rows[at].B = -n
			}
		case 7:
			v.Set = maps.Clone(v.Set)
			if v.Set == nil || n%5 == 0 {
				v.Set = map[string]int64{}
			}
			v.Set[strconv.Itoa(n)] = int64(n)
		case 8:
			if n%20 == 0 {
				v.Rows, v.Set = nil, nil
			}
		}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		data, next, ok := AppendAgain(nil, &v, (*list).members, memo)
		if !ok || string(data) != string(want) {
			t.Fatalf("round %d: written as\n%s, want\n%s", n, data, want)
		}
		memo = next
	}
}

// TestRowsAreCopied checks that the bytes of unchanged rows are copied.
func TestRowsAreCopied(t *testing.T) {
	v := list{Rows: make([]part, 100), Set: map[string]int64{"a": 1, "b": 2}}
	written := 0
	members := func(v *list, c *Coder) {
		Text(c, "head", &v.Head)
		OptRows(c, "rows", &v.Rows, func(p *part, c *Coder) { written++; p.members(c) })
		OptSet(c, "set", &v.Set)
	}
	for i := range v.Rows {
		v.Rows[i].B = i
	}
	_, memo, _ := AppendAgain(nil, &v, members, nil)
	v.Rows = slices.Delete(slices.Clone(v.Rows), 10, 12)
	v.Rows[50].A = "changed"
	v.Rows = append(v.Rows, part{})
	written = 0
	if _, _, ok := AppendAgain(nil, &v, members, memo); !ok || written != 2 {
		t.Errorf("wrote %d rows, want 2", written)
	}
}

// sameAsJSON reports whether Read accepts data. It fails the test if encoding/json reads another value.
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

// FuzzRead checks that encoding/json reads the same value from any bytes that Read accepts.
func FuzzRead(f *testing.F) {
	for _, v := range things() {
		data, _ := json.Marshal(v)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameAsJSON(t, data) })
}
