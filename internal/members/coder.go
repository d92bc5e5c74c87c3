// Package members writes and reads JSON objects without reflection. A type lists its members in
// a method that takes a [Coder], in the order of its fields; the one list serves both ways. The
// written bytes are the same as those of encoding/json.
//
// encoding/json examines every type that a value can reach before it reads or writes the first
// byte. A process that lives for milliseconds pays for that each time: 2 ms and 120 page faults
// for the state of an agent (docs/decisions/0059-state-file.md).
package members

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// Coder writes or reads the members of a value.
type Coder struct {
	data    []byte // the input, or the output so far
	at      int    // the position for reading
	reading bool
	first   bool // the next member is the first one of its object
	failed  bool

	before, memo *Memo // for AppendAgain: the memo of the earlier value, and the memo of this one
}

// Append appends a value to data. If ok is false, encoding/json must write the value, because
// it has the better error.
func Append[T any](data []byte, v *T, list func(*T, *Coder)) (written []byte, ok bool) {
	c := Coder{data: data}
	object(&c, v, list)
	return c.data, !c.failed
}

// Read reads a value that Append wrote into the zero value at v. ok is false for any other
// input: members in another order, unknown members, spaces, other values, damage. encoding/json
// may still be able to read that input; the caller must then discard v.
func Read[T any](data []byte, v *T, list func(*T, *Coder)) (ok bool) {
	c := Coder{data: data, reading: true}
	object(&c, v, list)
	return !c.failed && c.at == len(data)
}

// fail ends the reading or writing.
func (c *Coder) fail() {
	c.failed = true
	if c.reading {
		c.at = len(c.data)
	}
}

// next reads b and returns true, or returns false if another byte follows.
func (c *Coder) next(b byte) bool {
	if c.at < len(c.data) && c.data[c.at] == b {
		c.at++
		return true
	}
	return false
}

// expect reads b. It fails if another byte follows.
func (c *Coder) expect(b byte) {
	if !c.next(b) {
		c.fail()
	}
}

// member begins a member, unless it is left out. It reports whether the caller must read or
// write its value now.
func (c *Coder) member(name string, leaveOut bool) bool {
	if !c.reading {
		if leaveOut {
			return false
		}
		if !c.first {
			c.data = append(c.data, ',')
		}
		c.first = false
		c.data = append(c.data, '"')
		c.data = append(c.data, name...)
		c.data = append(c.data, '"', ':')
		return true
	}
	at := c.at
	if !c.first {
		if at >= len(c.data) || c.data[at] != ',' {
			return false
		}
		at++
	}
	end := at + len(name) + len(`"":`)
	if end > len(c.data) || c.data[at] != '"' || string(c.data[at+1:end-2]) != name || c.data[end-2] != '"' || c.data[end-1] != ':' {
		return false
	}
	c.at, c.first = end, false
	return true
}

// object reads or writes an object.
func object[T any](c *Coder, v *T, list func(*T, *Coder)) {
	c.first = true
	if c.reading {
		c.expect('{')
		list(v, c)
		c.expect('}')
	} else {
		c.data = append(c.data, '{')
		list(v, c)
		c.data = append(c.data, '}')
	}
	c.first = false
}

// plain has the bytes that encoding/json does not escape in a string.
var plain = func() (plain [utf8.RuneSelf]bool) {
	for b := byte(' '); b < utf8.RuneSelf-1; b++ {
		plain[b] = b != '"' && b != '\\' && b != '<' && b != '>' && b != '&'
	}
	return plain
}()

func (c *Coder) appendText(s string) {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || !plain[s[i]] {
			data, err := json.Marshal(s)
			if err != nil {
				c.fail()
			}
			c.data = append(c.data, data...)
			return
		}
	}
	c.data = append(c.data, '"')
	c.data = append(c.data, s...)
	c.data = append(c.data, '"')
}

func (c *Coder) readText() string {
	if !c.next('"') {
		c.fail()
		return ""
	}
	start := c.at
	for ; c.at < len(c.data); c.at++ {
		switch b := c.data[c.at]; {
		case b == '"':
			c.at++
			return string(c.data[start : c.at-1])
		case b >= utf8.RuneSelf || !plain[b]:
			return c.readOddText(start)
		}
	}
	c.fail()
	return ""
}

// readOddText reads a string that begins at start, after the quote, and that has other bytes
// than plain ones.
func (c *Coder) readOddText(start int) string {
	for ; c.at < len(c.data) && c.data[c.at] != '"'; c.at++ {
		if c.data[c.at] == '\\' {
			c.at++
		}
	}
	if c.at >= len(c.data) {
		c.fail()
		return ""
	}
	c.at++
	var s string
	if json.Unmarshal(c.data[start-1:c.at], &s) != nil {
		c.fail()
	}
	return s
}

// digits reads the digits of a number. It fails for a number that strconv would write
// differently.
func (c *Coder) digits() uint64 {
	start := c.at
	for c.at < len(c.data) && c.data[c.at] >= '0' && c.data[c.at] <= '9' {
		c.at++
	}
	raw := c.data[start:c.at]
	if len(raw) == 1 {
		return uint64(raw[0] - '0')
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil || raw[0] == '0' {
		c.fail()
	}
	return n
}

// number is a type of whole numbers.
type number interface {
	~int | ~int64 | ~uint32 | ~uint64
}

func appendNumber[T number](c *Coder, n T) {
	if n < 0 {
		c.data = strconv.AppendInt(c.data, int64(n), 10)
		return
	}
	c.data = strconv.AppendUint(c.data, uint64(n), 10)
}

func readNumber[T number](c *Coder) T {
	if c.next('-') {
		n := -int64(c.digits())
		if T(n) >= 0 || int64(T(n)) != n {
			c.fail()
		}
		return T(n)
	}
	n := c.digits()
	if T(n) < 0 || uint64(T(n)) != n {
		c.fail()
	}
	return T(n)
}

func (c *Coder) appendTime(t time.Time) {
	data, err := t.AppendText(append(c.data, '"'))
	if err != nil {
		c.fail()
		return
	}
	c.data = append(data, '"')
}

func (c *Coder) readTime() (t time.Time) {
	if !c.next('"') {
		c.fail()
		return t
	}
	start := c.at
	for c.at < len(c.data) && c.data[c.at] != '"' {
		c.at++
	}
	if t.UnmarshalText(c.data[start:c.at]) != nil {
		c.fail()
	}
	c.expect('"')
	return t
}
