// Package lazy makes at their first use what most runs of the program never need.
// Cron starts the program each minute, and what packages make when it starts is most of
// what an empty poll costs (docs/performance.md).
package lazy

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled at its first use. Make one with
// NewRegexp.
type Regexp struct {
	expr string
	once sync.Once
	re   *regexp.Regexp
}

// NewRegexp returns the regular expression expr. If it is wrong, its first use panics.
func NewRegexp(expr string) *Regexp { return &Regexp{expr: expr} }

// Get compiles the expression, the first time.
func (r *Regexp) Get() *regexp.Regexp {
	r.once.Do(func() {
		r.re = regexp.MustCompile(r.expr)
		r.expr = ""
	})
	return r.re
}
