package store

import (
	"fmt"
	"strconv"
	"strings"
)

// sumLen is the length of the sum of a history line: 160 bits in hexadecimal.
const sumLen = 40

// Head names a line of the history by its serial and its sum, and with it all lines
// before it (docs/design.md, "The audit chain"). Of the lines of one serial it names
// the last.
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

// ParseHead reads what String returns. ok is false for anything else.
func ParseHead(s string) (h Head, ok bool) {
	serial, sum, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(serial, 10, 64)
	h = Head{Serial: n, Sum: sum}
	return h, err == nil && isSum(sum) && h.String() == s
}

// isSum reports whether s has the form of a sum.
func isSum(s string) bool {
	return len(s) == sumLen && strings.Trim(s, "0123456789abcdef") == ""
}

// Head returns the newest line that the state knows of, or the zero Head if the
// history has no sums yet.
func (st *Store) Head() (Head, error) {
	s, _, err := st.loadStored()
	return s.Chain.head(), err
}
