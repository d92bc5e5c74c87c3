package store

import (
	"fmt"
	"strconv"
	"strings"
)

// sumLen is the length of the sum of a history line: 160 bits in hexadecimal.
const sumLen = 40

// Head names a history line by its serial and its sum, and with it all lines before it
// (docs/design.md, "The audit chain"). If several lines share the serial, it names the last.
type Head struct {
	Serial uint64
	Sum    string
}

// String returns the head as "SERIAL.SUM", or "" for the zero Head.
func (h Head) String() string {
	if h.Sum == "" {
		return ""
	}
	return fmt.Sprintf("%d.%s", h.Serial, h.Sum)
}

// ParseHead parses the output of String. ok is false for any other text.
func ParseHead(s string) (h Head, ok bool) {
	serial, sum, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(serial, 10, 64)
	h = Head{Serial: n, Sum: sum}
	return h, err == nil && isSum(sum) && h.String() == s
}

// isSum reports whether s is formed like a sum.
func isSum(s string) bool {
	return len(s) == sumLen && strings.Trim(s, "0123456789abcdef") == ""
}

// Head returns the head of the newest line that the state records, or the zero Head if the history
// has no sums yet.
func (st *Store) Head() (Head, error) {
	s, _, err := st.loadStored()
	return s.Chain.head(), err
}
