package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// allKeys returns every key of a table and of the tables in it, such as
// "turn.timeout". It omits keys that the user chooses.
func allKeys(table toml.Key) []string {
	keys, ours := keysOf(table)
	if !ours {
		return nil
	}
	var all []string
	for _, name := range keys {
		key := append(slices.Clone(table), name)
		all = append(all, strings.Join(key, "."))
		all = append(all, allKeys(key)...)
	}
	return all
}

// TestKeysOf checks that the keys of a table are the fields of File. That holds
// also in a table whose name the user chooses.
func TestKeysOf(t *testing.T) {
	for _, test := range []struct {
		table toml.Key
		keys  []string
		ours  bool
	}{
		{toml.Key{"replies"}, []string{"ack", "quiet_prep", "quiet_active", "ack_peers", "working", "notices", "html", "ack_after"}, true},
		{toml.Key{"turn", "env"}, nil, false},
		{toml.Key{"prices"}, nil, false},
		{toml.Key{"prices", "gpt-4.1"}, []string{"input", "output", "cache_read", "cache_write"}, true},
		{toml.Key{"turn", "timeout"}, nil, false},
		{toml.Key{"timming"}, nil, false},
	} {
		if keys, ours := keysOf(test.table); !reflect.DeepEqual(keys, test.keys) || ours != test.ours {
			t.Errorf("%s has %q, %v; want %q, %v", test.table, keys, ours, test.keys, test.ours)
		}
	}
}
