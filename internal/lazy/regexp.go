// Package lazy delays work that most runs of the program never need until its first use. Cron
// starts the program each minute, and the initialization of packages is most of the cost of an
// empty poll (docs/performance.md).
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

// Get returns the compiled expression. The first call compiles it.
func (r *Regexp) Get() *regexp.Regexp {
	r.once.Do(func() {
		r.re = regexp.MustCompile(r.expr)
		r.expr = ""
	})
	return r.re
}
