package members

import (
	"reflect"
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
