package commands

import (
	"reflect"
	"testing"

	"github.com/BurntSushi/toml"
)

// TestKinds: what a field of the configuration may hold follows from its type,
// below names that the user chooses, too.
func TestKinds(t *testing.T) {
	type price struct {
		Input float64 `toml:"input"`
	}
	type file struct {
		Env    map[string]string `toml:"env"`
		Prices map[string]price  `toml:"prices"`
		Calls  int               `toml:"calls"`
	}
	known := map[string]kind{}
	addKeys(known, "", reflect.TypeFor[file]())
	for _, test := range []struct {
		key  toml.Key
		want kind
	}{
		{toml.Key{"env"}, aTableOfStrings},
		{toml.Key{"env", "PATH"}, aString},
		{toml.Key{"prices"}, aTableOfTables},
		{toml.Key{"prices", "gpt-4.1"}, aTable},
		{toml.Key{"prices", "gpt-4.1", "input"}, aNumber},
		{toml.Key{"prices", "*", "input"}, aNumber},
		{toml.Key{"prices", "gpt-4.1", "inputs"}, ""},
		{toml.Key{"prices", "gpt-4.1", "input", "more"}, ""},
		{toml.Key{"calls"}, aWhole},
		{toml.Key{"calls", "more"}, ""},
		{toml.Key{"*"}, ""},
	} {
		if got := known[general(test.key, known)]; got != test.want {
			t.Errorf("%s is %q, want %q", test.key, got, test.want)
		}
	}

	for tomlType, ok := range map[string]bool{"Float": true, "Integer": true, "String": false, "Bool": false} {
		var fits bool
		for _, want := range aNumber.toml() {
			fits = fits || want == tomlType
		}
		if fits != ok {
			t.Errorf("a %s is a number: %v", tomlType, fits)
		}
	}
}
