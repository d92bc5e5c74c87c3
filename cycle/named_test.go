package cycle_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// TestNamedFilesAreComplete fills each field of a state that names a file, and looks for the file
// among those that another host gets.
func TestNamedFilesAreComplete(t *testing.T) {
	st := &store.Store{Dir: t.TempDir(), Agent: handle}
	var s state.State
	files := map[string]string{} // the field, by the name of its file
	n := 0
	var fill func(v reflect.Value, field string)
	fill = func(v reflect.Value, field string) {
		switch v.Kind() {
		case reflect.Struct:
			if v.Type().PkgPath() != "agentstateloop/state" {
				return
			}
			for i := range v.NumField() {
				f := v.Type().Field(i)
				tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				name := v.Type().Name() + "." + f.Name
				if !isFileField(name, tag) || f.Type.Kind() != reflect.String {
					fill(v.Field(i), field+">"+name)
					continue
				}
				n++
				file := fileFor(name, n)
				v.Field(i).SetString(file)
				files[file] = field + ">" + name
				if strings.HasPrefix(file, "turns/") {
					file = path.Join(file, "answer.md")
				}
				full := filepath.Join(st.Dir, file)
				check(t, os.MkdirAll(filepath.Dir(full), 0o700))
				check(t, os.WriteFile(full, []byte(name), 0o600))
			}
		case reflect.Slice:
			if field != ">State.Lines>Line.Collected" { // they were in the inbox before
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
				fill(v.Index(0), field)
			}
		case reflect.Pointer:
			onlyOfHooks := strings.HasSuffix(field, "Effect.Announces") && !strings.Contains(field, "HookQueue")
			if v.Type().Elem().Kind() == reflect.Struct && !onlyOfHooks && !strings.HasPrefix(field, ">State.Lines") {
				v.Set(reflect.New(v.Type().Elem()))
				fill(v.Elem(), field)
			}
		}
	}
	fill(reflect.ValueOf(&s).Elem(), "")
	if n < 12 {
		t.Fatalf("only %d fields name a file", n)
	}
	named := cycle.NamedFiles(st)(s)
	for file, field := range files {
		if !slices.Contains(named, file) {
			t.Errorf("%s names %s, which no other host gets", field, file)
		}
	}
}

// TestManyFilesOfATurn checks that an agent that leaves thousands of files does not fill the servers.
func TestManyFilesOfATurn(t *testing.T) {
	st := &store.Store{Dir: t.TempDir(), Agent: handle}
	var s state.State
	s.Turn.TurnID = "t1"
	dir := filepath.Join(st.Dir, "turns", "t1", "1", "output")
	check(t, os.MkdirAll(dir, 0o700))
	for i := range 1001 {
		check(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	named := slices.DeleteFunc(cycle.NamedFiles(st)(s), func(name string) bool { return !strings.HasPrefix(name, "turns/") })
	if len(named) != 1000 {
		t.Errorf("%d files of the turn are named, want 1,000", len(named))
	}
}

// isFileField reports whether a field of the state names a file of the directory.
func isFileField(name, tag string) bool {
	switch name {
	case "FileRef.Place", "Head.Submitted", "Wait.Words", "Message.Said", "Line.Deliverable", "Line.Fields", "Line.File":
		return false // in an output box or a folder that other fields name
	}
	return slices.Contains([]string{"payload", "file", "report", "box", "output_box"}, tag)
}

func fileFor(name string, n int) string {
	if strings.HasSuffix(name, "Box") {
		return fmt.Sprintf("turns/t%d/1/output", n)
	}
	return fmt.Sprintf("messages/%d.json", n)
}
