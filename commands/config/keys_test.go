package config

import (
	"errors"
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

// TestKeysOfTable checks that the keys of a table are the fields of File, also in a table whose name
// the user chooses.
func TestKeysOfTable(t *testing.T) {
	for _, test := range []struct {
		table toml.Key
		keys  []string
		ours  bool
	}{
		{toml.Key{"replies"}, []string{"name", "ack", "quiet_prep", "quiet_active", "ack_peers", "working", "notices", "html", "sent", "ack_after"}, true},
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

// TestKeysAreInLowerCase checks that no key has a capital, on which allKeysKnown relies.
func TestKeysAreInLowerCase(t *testing.T) {
	for _, key := range allKeys(nil) {
		if rest := strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_."); rest != "" {
			t.Errorf("%s has %q", key, rest)
		}
	}
}

// TestFastPathFindsUnknownKeys checks that the quick check accepts no configuration that the whole
// check refuses.
func TestFastPathFindsUnknownKeys(t *testing.T) {
	for _, test := range []struct {
		text   string
		quick  bool
		refuse string // the key
	}{
		{smallConfig + smallMail, true, ""},
		{"[[hook]]\nname = \"a\"\non = [\"*\"]\n[tools.x]\nmcp = { url = \"http://x\" }\n[prices.m]\ninput = 1", true, ""},
		{"[turn.env]\nPATH = \"/bin\"\n[prices.\"gpt-4.1\"]\ninput = 1", false, ""},
		{"[turn]\ntimeuot = \"1m\"", false, "turn.timeuot"},
		{"[turn]\nTimeout = \"1m\"", false, "turn.Timeout"},
		{"[\"tru\u017ft\"]\nverify = \"server\"", false, "\"tru\u017ft\""}, // s in another case
		{"[[hook]]\nname = \"a\"\n[[hook]]\nnmae = \"b\"", false, "hook.nmae"},
		{"[tools.x]\nmcp = { uri = \"http://x\" }", false, "tools.x.mcp.uri"},
		{"[prices.m]\ninputs = 1", false, "prices.m.inputs"},
	} {
		c, err := newTestLoader().decode("agent.toml", test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if quick := c.allKeysKnown(); quick != test.quick {
			t.Errorf("%s: the quick check reports %v, want %v", test.text, quick, test.quick)
		}
		refused := ""
		if e, ok := errors.AsType[*Error](c.checkKeys()); ok {
			refused = e.Key
		}
		if refused != test.refuse {
			t.Errorf("%s: refused %q, want %q", test.text, refused, test.refuse)
		}
	}
}
