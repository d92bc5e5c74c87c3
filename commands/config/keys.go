package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"agentstateloop/commands/terminal"
)

// checkKeys rejects keys that are not in File. The library ignores such keys, and accepts keys in
// another case.
func (c *Config) checkKeys() error {
	if c.allKnown() {
		return nil
	}
	for _, key := range c.meta.Keys() {
		for last := range key {
			siblings, ours := keysOf(key[:last])
			if !ours || slices.Contains(siblings, key[last]) {
				continue
			}
			const all = "see agent.toml.example for all keys"
			switch {
			case last > 0:
				return c.At(key[:last+1], terminal.DidYouMean(key[last], siblings, all), "unknown key")
			case c.meta.Type(key[0]) == "Hash" || c.meta.Type(key[0]) == "ArrayHash":
				return c.At(key[:1], terminal.DidYouMean(key[0], siblings, all), "unknown section")
			}
			return c.At(key[:1], inSection(key[0], siblings, all), "this key stands in no section, and is unknown there")
		}
	}
	return nil
}

// inSection returns the hint for a key above all sections: the section that it may belong in, or
// other.
func inSection(key string, sections []string, other string) string {
	var all []string
	section := map[string]string{} // the first section of each key
	for _, s := range sections {
		keys, _ := keysOf(toml.Key{s})
		for _, k := range keys {
			if section[k] == "" {
				all, section[k] = append(all, k), s
			}
		}
	}
	if near := terminal.Nearest(key, all); near != "" {
		return "did you mean " + near + " in [" + section[near] + "]?"
	}
	return other
}

// allKnown is a fast path that spares checkKeys its work on each start. If it returns false, there
// may still be no unknown key. Our keys are in lower case. If all keys of the file are too, the
// library has not accepted one in another case, and Undecoded lists all keys that are not in File.
func (c *Config) allKnown() bool {
	for _, key := range c.meta.Keys() {
		for _, part := range key {
			if strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
				return false
			}
		}
	}
	return len(c.meta.Undecoded()) == 0
}

// keysOf returns the valid keys of a table in the file. ours is false if the user chooses the keys,
// as in [turn.env], or if table is not a table.
func keysOf(table toml.Key) (keys []string, ours bool) {
	t := reflect.TypeFor[File]()
	for _, name := range table {
		t = elementOf(t)
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			field, ok := fieldOf(t, name)
			if !ok {
				return nil, false // the table itself is unknown
			}
			t = field.Type
		}
	}
	t = elementOf(t)
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.Tag.Get("toml"))
	}
	return keys, true
}

// elementOf returns the table type of an array of tables. It returns other types unchanged.
func elementOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		return t.Elem()
	}
	return t
}

// fieldsOf returns the fields of a section, including those of embedded sections.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous })
}

// fieldOf returns the field of a section for a key.
func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for _, f := range fieldsOf(t) {
		if f.Tag.Get("toml") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}
