package members

import (
	"reflect"
	"slices"
)

// Memo remembers the rows and the map of a written value, and their bytes. Most later values
// have them in common with it, so they need not be encoded again. The rows, the map and the
// bytes must not change any more.
type Memo struct {
	data []byte // the written bytes
	rows any    // the rows, as *rowBytes
	set  any    // the map
	at   place  // of the map in data
}

// Bytes returns the written bytes, or nil for a nil memo. If the caller overwrites them, the
// memo must not be used any more.
func (m *Memo) Bytes() []byte {
	if m == nil {
		return nil
	}
	return m.data
}

// rowBytes are rows, and the place of each in the data of the memo.
type rowBytes[T comparable] struct {
	rows   []T
	places []place
}

type place struct{ from, to int }

// AppendAgain is Append for a value that is similar to the value of memo. Without an earlier
// value, memo is nil. AppendAgain returns the memo of this value.
func AppendAgain[T any](data []byte, v *T, list func(*T, *Coder), memo *Memo) (written []byte, next *Memo, ok bool) {
	if memo == nil {
		memo = new(Memo)
	}
	c := Coder{data: slices.Grow(data, len(memo.data)+512), before: memo, memo: new(Memo)}
	object(&c, v, list)
	c.memo.data = c.data
	return c.data, c.memo, !c.failed
}

// maxGone is how many rows may have left a list at one place while the rows after them are
// still recognized.
const maxGone = 8

// OptRows is OptObjects for a list whose rows a memo remembers. A type has at most one of
// these.
func OptRows[T comparable](c *Coder, name string, v *[]T, list func(*T, *Coder)) {
	if c.memo == nil {
		OptObjects(c, name, v, list)
		return
	}
	if !c.member(name, len(*v) == 0) {
		return
	}
	old, _ := c.before.rows.(*rowBytes[T])
	if old == nil {
		old = new(rowBytes[T])
	}
	rows := *v
	places := make([]place, len(rows))
	c.data = append(c.data, '[')
	for i, j := 0, 0; i < len(rows); {
		if i > 0 {
			c.data = append(c.data, ',')
		}
		gone := old.gone(j, &rows[i])
		if gone < 0 {
			from := len(c.data)
			object(c, &rows[i], list)
			places[i] = place{from, len(c.data)}
			i++
			j++
			continue
		}
		j += gone
		first, start := j, len(c.data)
		for i < len(rows) && j < len(old.rows) && rows[i] == old.rows[j] {
			shift := start - old.places[first].from
			places[i] = place{old.places[j].from + shift, old.places[j].to + shift}
			i++
			j++
		}
		c.data = append(c.data, c.before.data[old.places[first].from:old.places[j-1].to]...)
	}
	c.data = append(c.data, ']')
	c.memo.rows = &rowBytes[T]{rows, places}
}

// gone returns how many rows, from j on, precede a row that is equal to row, or -1 if none is
// near.
func (r *rowBytes[T]) gone(j int, row *T) int {
	for n := 0; n <= maxGone && j+n < len(r.rows); n++ {
		if r.rows[j+n] == *row {
			return n
		}
	}
	return -1
}

// OptSet is OptNumberMap for a map that a memo remembers. A type has at most one of these.
func OptSet[K key, T number](c *Coder, name string, v *map[K]T) {
	if c.memo == nil || len(*v) == 0 || c.first {
		OptNumberMap(c, name, v)
		return
	}
	from := len(c.data)
	if old, ok := c.before.set.(map[K]T); ok && sameMap(old, *v) {
		c.data = append(c.data, c.before.data[c.before.at.from:c.before.at.to]...)
	} else {
		OptNumberMap(c, name, v)
	}
	c.memo.set, c.memo.at = *v, place{from, len(c.data)}
}

// sameMap reports whether two maps are the same map.
func sameMap[K key, T number](a, b map[K]T) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}
