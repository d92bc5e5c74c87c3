package store

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/internal/order"
	"agentstateloop/internal/osfile"
)

// Audit is the result of verifying the history's chain (docs/protocol.md, "The audit chain").
type Audit struct {
	Lines  int     // the number of lines with a sum
	Head   Head    // the newest line with a sum, or the zero Head if the history has no sums
	Breaks []Break // in history order

	ends map[uint64]string // the sum of the last line of each serial
}

// Break is a place where the history was altered.
type Break struct {
	Serial uint64 // the serial of the line
	File   string // the file's base name
	Line   int    // from 1, or 0 for the whole file
	What   string
}

// String returns the place and the problem found there.
func (b Break) String() string {
	if b.Line == 0 {
		return b.File + ": " + b.What
	}
	return fmt.Sprintf("%s, line %d: %s", b.File, b.Line, b.What)
}

// Values of Break.What.
const (
	breakChanged = "this line was changed, or a line before it was changed, added or removed"
	breakOlder   = "this is the first line with a sum, and the lines before it were changed, added or removed"
	breakNoSum   = "this line has no sum: it was added, or written by an older version"
	breakOrder   = "this line is out of order"
	breakMissing = "lines at the end of the history are missing"
)

// auditLine is a line of a history file, reduced to the fields the audit needs.
type auditLine struct {
	serial uint64
	n      int
	sealed bool
	line   digest
	sum    string
	file   string
	number int
	month  string // the file the line belongs in
}

func (p auditLine) breakOf(problem string) Break {
	return Break{Serial: p.serial, File: p.file, Line: p.number, What: problem}
}

// Audit reads the whole history and verifies its chain. It takes no lock and changes no file. Lines
// that a commit has yet to append count as present. Foreign lines, which every reader skips, do not
// count.
func (st *Store) Audit() (Audit, error) {
	// Read the state first. Then the files hold at least every line the state names.
	s, _, err := st.loadStored()
	if err != nil {
		return Audit{}, err
	}
	lines, breaks, err := st.auditLines()
	if err != nil {
		return Audit{}, err
	}
	genesis, err := st.genesis()
	if err != nil {
		return Audit{}, err
	}
	a := Audit{Breaks: breaks, ends: map[uint64]string{}}
	a.verifySums(lines, genesis)
	if err := a.checkEnd(s, genesis, lines); err != nil {
		return Audit{}, err
	}
	order.Stable(a.Breaks, func(x, y Break) int { return cmp.Compare(x.Serial, y.Serial) })
	return a, nil
}

// auditLines returns the lines of all files in the order they were written. That differs from the
// order of the files if the clock was set back across the end of a month. A line out of place
// within its file is a break.
func (st *Store) auditLines() (all []auditLine, breaks []Break, err error) {
	names, err := st.historyFiles()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		lines, err := auditLinesIn(name)
		if err != nil {
			return nil, nil, err
		}
		var last *auditLine // the last line with a sum
		for i, l := range lines {
			switch {
			case l.sealed && (last != nil && !l.after(*last) || l.month != l.file):
				breaks = append(breaks, l.breakOf(breakOrder))
			case !l.sealed && last != nil:
				breaks = append(breaks, l.breakOf(breakNoSum))
			}
			if l.sealed {
				last = &lines[i]
			}
		}
		all = append(all, lines...)
	}
	order.Stable(all, func(a, b auditLine) int { return cmp.Or(cmp.Compare(a.serial, b.serial), cmp.Compare(a.n, b.n)) })
	return all, breaks, nil
}

func (p auditLine) after(q auditLine) bool {
	return p.serial > q.serial || p.serial == q.serial && p.n > q.n
}

// auditLinesIn returns our lines in one file.
func auditLinesIn(name string) ([]auditLine, error) {
	f, err := openHistory(name)
	if f == nil {
		return nil, err
	}
	defer f.Close()
	var lines []auditLine
	number := 0
	for raw, err := range osfile.Lines(f, maxRecord) {
		if err != nil {
			return nil, err
		}
		number++
		l, ours := parseLine(raw)
		if !ours {
			continue
		}
		p := auditLine{serial: l.Serial, n: l.N, file: filepath.Base(name), number: number, month: historyName(l.At)}
		var covered []byte
		if covered, p.sum, p.sealed = splitSum(raw); p.sealed {
			p.line = sha256.Sum256(covered)
		}
		lines = append(lines, p)
	}
	return lines, nil
}

// verifySums verifies the sums in order. After a break it continues from the line's own sum.
func (a *Audit) verifySums(lines []auditLine, genesis string) {
	before := genesis
	for _, p := range lines {
		if !p.sealed {
			continue // older than the chain, or already reported as a break of its file
		}
		if sumAfter(before, p.line) != p.sum {
			problem := breakChanged
			if a.Lines == 0 {
				problem = breakOlder
			}
			a.Breaks = append(a.Breaks, p.breakOf(problem))
		}
		before = p.sum
		a.Lines++
		a.Head = Head{Serial: p.serial, Sum: p.sum}
		a.ends[p.serial] = p.sum
	}
}

// checkEnd checks that the history ends where the state says, or later. It adds lines that so far
// only the state holds.
func (a *Audit) checkEnd(s stored, genesis string, lines []auditLine) error {
	if s.Chain.Sum == "" || a.ends[s.Chain.Serial] == s.Chain.Sum {
		return nil
	}
	sealed, err := seal(s.Chain.Before, s.Lines)
	if err != nil {
		return err
	}
	newest := slices.IndexFunc(sealed, func(l sealedLine) bool { return l.sum == a.Head.Sum })
	if newest >= 0 || cmp.Or(a.Head.Sum, genesis) == s.Chain.Before {
		for _, l := range sealed[newest+1:] {
			a.Lines++
			a.Head = Head{Serial: l.line.Serial, Sum: l.sum}
			a.ends[l.line.Serial] = l.sum
		}
	}
	if a.ends[s.Chain.Serial] != s.Chain.Sum {
		a.Breaks = append(a.Breaks, missingLines(s.Chain.Serial, lines))
	}
	return nil
}

// missingLines returns the break for a history that ends too early.
func missingLines(serial uint64, lines []auditLine) Break {
	b := Break{Serial: serial, File: "history", What: breakMissing}
	if len(lines) > 0 {
		last := lines[len(lines)-1]
		b.File, b.Line = last.file, last.number
	}
	return b
}

// Holds returns nil if the history still contains the line that head names, and every line before
// it is intact. Otherwise it returns the problem. Each mail is sent with such a head.
func (a Audit) Holds(head Head) error {
	sum, known := a.ends[head.Serial]
	for _, b := range a.Breaks {
		if b.Serial <= head.Serial {
			return fmt.Errorf("%v", b)
		}
	}
	switch {
	case !known:
		return fmt.Errorf("no line has serial %d", head.Serial)
	case sum != head.Sum:
		return fmt.Errorf("the line with serial %d has the sum %s, not %s", head.Serial, sum, head.Sum)
	}
	return nil
}

// sumLen is the length of the sum of a history line: 160 bits in hexadecimal.
const sumLen = 40

// Head names a history line by its serial and its sum, and with it all lines before it
// (docs/protocol.md, "The audit chain"). If several lines share the serial, it names the last.
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
