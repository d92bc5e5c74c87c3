package members

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/order"
)

// OptObjects is a member that is a list of objects. It omits an empty list.
func OptObjects[S ~[]T, T any](c *Coder, name string, v *S, list func(*T, *Coder)) {
	elements(c, name, v, func(e *T) { object(c, e, list) })
}

// OptTexts is a member that is a list of strings. It omits an empty list.
func OptTexts[T ~string](c *Coder, name string, v *[]T) {
	elements(c, name, v, func(e *T) {
		if c.reading {
			*e = T(c.readText())
		} else {
			c.appendText(string(*e))
		}
	})
}

// OptNumbers is a member that is a list of numbers. It omits an empty list.
func OptNumbers[T number](c *Coder, name string, v *[]T) {
	elements(c, name, v, func(e *T) { element(c, e) })
}

// OptTimes is a member that is a list of times. It omits an empty list.
func OptTimes(c *Coder, name string, v *[]time.Time) {
	elements(c, name, v, func(e *time.Time) {
		if c.reading {
			*e = c.readTime()
		} else {
			c.appendTime(*e)
		}
	})
}

// element reads or writes a number without a name.
func element[T number](c *Coder, v *T) {
	if c.reading {
		*v = readNumber[T](c)
	} else {
		appendNumber(c, *v)
	}
}

func elements[S ~[]T, T any](c *Coder, name string, v *S, each func(*T)) {
	if !c.member(name, len(*v) == 0) {
		return
	}
	if !c.reading {
		c.data = append(c.data, '[')
		for i := range *v {
			if i > 0 {
				c.data = append(c.data, ',')
			}
			each(&(*v)[i])
		}
		c.data = append(c.data, ']')
		return
	}
	c.expect('[')
	*v = S{}
	for more := !c.next(']'); more && !c.failed; more = c.moreElements(']') {
		var e T
		each(&e)
		*v = append(*v, e)
	}
}

// moreElements reads the byte after an element: a comma, or the end. It reports whether another
// element follows.
func (c *Coder) moreElements(end byte) bool {
	if c.next(',') {
		return true
	}
	c.expect(end)
	return false
}

// OptNumberMap is a member that is an object of numbers. It omits an empty map.
func OptNumberMap[K key, T number](c *Coder, name string, v *map[K]T) {
	entries(c, name, v, func(e *T) { element(c, e) })
}

// OptObjectMap is a member that is an object of objects. It omits an empty map.
func OptObjectMap[K key, T any](c *Coder, name string, v *map[K]T, list func(*T, *Coder)) {
	entries(c, name, v, func(e *T) { object(c, e, list) })
}

// key is the type of the keys of a map.
type key interface{ string | uint32 }

func entries[K key, T any](c *Coder, name string, v *map[K]T, each func(*T)) {
	if !c.member(name, len(*v) == 0) {
		return
	}
	if !c.reading {
		c.data = append(c.data, '{')
		for i, k := range sortedKeys(*v) {
			if i > 0 {
				c.data = append(c.data, ',')
			}
			c.appendText(keyText(k))
			c.data = append(c.data, ':')
			e := (*v)[k]
			each(&e)
		}
		c.data = append(c.data, '}')
		return
	}
	c.expect('{')
	*v = map[K]T{}
	for more := !c.next('}'); more && !c.failed; more = c.moreElements('}') {
		k := readKey[K](c)
		c.expect(':')
		var e T
		each(&e)
		(*v)[k] = e
	}
}

// sortedKeys returns the keys of a map in the order of encoding/json: sorted by their texts.
func sortedKeys[K key, T any](m map[K]T) []K {
	keys := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	order.Sort(keys, func(a, b K) int { return strings.Compare(keyText(a), keyText(b)) })
	return keys
}

// keyText returns the text of a key.
func keyText[K key](k K) string {
	if n, ok := any(k).(uint32); ok {
		return strconv.FormatUint(uint64(n), 10)
	}
	return any(k).(string)
}

// readKey reads a key from its text.
func readKey[K key](c *Coder) (k K) {
	text := c.readText()
	switch k := any(&k).(type) {
	case *string:
		*k = text
	case *uint32:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || strconv.FormatUint(n, 10) != text {
			c.fail()
		}
		*k = uint32(n)
	}
	return k
}
