package state_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"agentstateloop/internal/members"
	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestEveryMember sets each field that a state can reach, alone and with all others, and
// compares what package members makes of it with what encoding/json does. It fails for a
// field that members_gen.go forgets, misspells, has at another place, or leaves out when it
// is empty though its tag says otherwise.
func TestEveryMember(t *testing.T) {
	var zero, full state.State
	wantMembers(t, "zero", zero)
	fields := 0
	eachPath(reflect.TypeFor[state.State](), nil, func(path []int) {
		fields++
		var s state.State
		name := setAlone(reflect.ValueOf(&s).Elem(), path)
		wantMembers(t, name, s)
	})
	fill(reflect.ValueOf(&full).Elem())
	wantMembers(t, "full", full)
	if fields < 500 {
		t.Errorf("tried only %d fields", fields)
	}
}

// wantMembers checks that package members writes s as encoding/json does, and reads it.
func wantMembers(t *testing.T, name string, s state.State) {
	t.Helper()
	want := statetest.JSON(t, s)
	got, ok := members.Append(nil, &s, (*state.State).Members)
	if !ok || string(got) != want {
		n := 0
		for n < min(len(got), len(want)) && got[n] == want[n] {
			n++
		}
		t.Fatalf("%s: written as\n… %.200s (%v), want\n… %.200s", name, got[max(0, n-40):], ok, want[max(0, n-40):])
	}
	var read, wanted state.State
	check(t, json.Unmarshal(got, &wanted))
	if !members.Read(got, &read, (*state.State).Members) || !reflect.DeepEqual(read, wanted) {
		t.Fatalf("%s: read as\n%+v, want\n%+v", name, read, wanted)
	}
}

// fill sets every field below v, and gives each list and map an empty element as well.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 3, 2, 9, 30, 15, 123456789, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for n := range 12 { // 10 stands before 9
			key, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			setNumbered(key, n)
			if n > 0 {
				fill(e)
			}
			v.SetMapIndex(key, e)
		}
	default:
		setNumbered(v, -7)
	}
}

// setNumbered sets a value that is not composed to one that has n in it.
func setNumbered(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("é <&>\"\\\n\u2028 " + string(rune('a'+max(0, n))))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(uint32(n)))
	default:
		panic("what is " + v.Type().String() + "?")
	}
}

// eachPath calls f with the path to each field below a struct that is not a struct
// itself, through the elements of pointers, lists and maps.
func eachPath(t reflect.Type, path []int, f func([]int)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		f(path)
		return
	}
	for i := range t.NumField() {
		eachPath(t.Field(i).Type, append(path[:len(path):len(path)], i), f)
	}
}

// setAlone sets the field at the end of a path. It returns the name of the path.
func setAlone(v reflect.Value, path []int) string {
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return setAlone(v.Elem(), path)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return setAlone(v.Index(0), path)
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		setNumbered(key, 1)
		name := setAlone(e, path)
		v.SetMapIndex(key, e)
		return name
	case len(path) == 0:
		fill(v)
		return ""
	}
	return v.Type().Field(path[0]).Name + "." + setAlone(v.Field(path[0]), path[1:])
}
