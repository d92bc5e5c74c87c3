package members

import (
	"reflect"
	"slices"
	"time"
)

// Call the functions below in the order of a type's fields. Those whose names begin with Opt
// omit an empty value, as omitempty and omitzero do.

// Text is a member that is a string.
func Text[T ~string](c *Coder, name string, v *T) { text(c, name, v, false) }

// OptText is Text, but omits an empty string.
func OptText[T ~string](c *Coder, name string, v *T) { text(c, name, v, *v == "") }

func text[T ~string](c *Coder, name string, v *T, leaveOut bool) {
	switch {
	case !c.member(name, leaveOut):
	case c.reading:
		*v = T(c.readText())
	default:
		c.appendText(string(*v))
	}
}

// Number is a member that is a whole number.
func Number[T number](c *Coder, name string, v *T) { numeric(c, name, v, false) }

// OptNumber is Number, but omits 0.
func OptNumber[T number](c *Coder, name string, v *T) { numeric(c, name, v, *v == 0) }

func numeric[T number](c *Coder, name string, v *T, leaveOut bool) {
	switch {
	case !c.member(name, leaveOut):
	case c.reading:
		*v = readNumber[T](c)
	default:
		appendNumber(c, *v)
	}
}

// OptBool is a member that is true. It omits false.
func OptBool(c *Coder, name string, v *bool) {
	switch {
	case !c.member(name, !*v):
	case !c.reading:
		c.data = append(c.data, "true"...)
	case len(c.data)-c.at >= len("true") && string(c.data[c.at:c.at+len("true")]) == "true":
		c.at += len("true")
		*v = true
	default:
		c.fail()
	}
}

// Time is a member that is a time.
func Time(c *Coder, name string, v *time.Time) { instant(c, name, v, false) }

// OptTime is Time, but omits the zero time.
func OptTime(c *Coder, name string, v *time.Time) { instant(c, name, v, v.IsZero()) }

func instant(c *Coder, name string, v *time.Time, leaveOut bool) {
	switch {
	case !c.member(name, leaveOut):
	case c.reading:
		*v = c.readTime()
	default:
		c.appendTime(*v)
	}
}

// OptTimePointer is Time, but omits a nil pointer.
func OptTimePointer(c *Coder, name string, v **time.Time) {
	if !c.member(name, *v == nil) {
		return
	}
	if c.reading {
		*v = new(time.Time)
		**v = c.readTime()
		return
	}
	c.appendTime(**v)
}

// Object is a member that is an object, with the members of list.
func Object[T any](c *Coder, name string, v *T, list func(*T, *Coder)) {
	if c.member(name, false) {
		object(c, v, list)
	}
}

// OptObject is Object, but omits the zero value.
func OptObject[T any](c *Coder, name string, v *T, list func(*T, *Coder)) {
	if c.member(name, !c.reading && reflect.ValueOf(v).Elem().IsZero()) {
		object(c, v, list)
	}
}

// OptPointer is Object, but omits a nil pointer.
func OptPointer[T any](c *Coder, name string, v **T, list func(*T, *Coder)) {
	if !c.member(name, *v == nil) {
		return
	}
	if c.reading {
		*v = new(T)
	}
	object(c, *v, list)
}

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
		removed := old.removedRows(j, &rows[i])
		if removed < 0 {
			from := len(c.data)
			object(c, &rows[i], list)
			places[i] = place{from, len(c.data)}
			i++
			j++
			continue
		}
		j += removed
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

// removedRows returns how many rows, from j on, precede a row that is equal to row, or -1 if none is
// near.
func (r *rowBytes[T]) removedRows(j int, row *T) int {
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
