package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// A line of the history ends in its sum: the bytes sumKey, sumLen hexadecimal digits
// and sumEnd. The sum covers the bytes of the line before that, as they are in the
// file, so that a program whose lines have other fields verifies it as well.
const (
	sumKey = `,"sum":"`
	sumEnd = `"}`
)

// chain is where the chain of the history stands, as state.json keeps it. The zero chain
// is that of an agent whose history has no sums yet.
type chain struct {
	Serial uint64 `json:"serial"` // of the newest history line
	Sum    string `json:"sum"`    // of that line
	Before string `json:"before"` // what the first line of this serial follows
}

func (c chain) head() Head { return Head{Serial: c.Serial, Sum: c.Sum} }

// stored is what state.json holds.
type stored struct {
	state.State
	Chain chain `json:"chain,omitzero"`

	// Settled is set by a commit that changed only times: all else that the state
	// holds was durable before. See writeTimes.
	Settled bool `json:"settled,omitempty"`
}

// digest is the SHA-256 of a line without its sum.
type digest [sha256.Size]byte

// sumAfter returns the sum of a line that follows a line with the sum before.
func sumAfter(before string, line digest) string {
	sum := sha256.Sum256(append([]byte(before), line[:]...))
	return hex.EncodeToString(sum[:])[:sumLen]
}

// encodeLine returns a line as it is in a file, without its sum and the newline. It
// returns the same bytes for the line that state.json gives back, where a character
// stands for invalid UTF-8.
func encodeLine(l state.Line) ([]byte, error) {
	data, err := marshalLine(&l)
	if err != nil || !bytes.Contains(data, []byte(`\ufffd`)) {
		return data, err
	}
	back, err := unmarshalLine(data)
	if err != nil {
		return nil, err
	}
	return marshalLine(&back)
}

// unsealed returns a line of a file without its sum, and the sum. ok is false for a
// line that has none. raw may end in a newline.
func unsealed(raw []byte) (covered []byte, sum string, ok bool) {
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	start := len(raw) - len(sumKey) - sumLen - len(sumEnd)
	if start < 1 || !bytes.HasSuffix(raw, []byte(sumEnd)) || !bytes.HasPrefix(raw[start:], []byte(sumKey)) {
		return nil, "", false
	}
	sum = string(raw[start+len(sumKey) : len(raw)-len(sumEnd)])
	return raw[:start], sum, isSum(sum)
}

// sealedLine is a line as it is in a file.
type sealedLine struct {
	line state.Line
	data []byte // with its sum and the newline
	sum  string // "" for a line that has none
}

// seal returns lines with their sums. The first follows a line with the sum before.
func seal(before string, lines []state.Line) ([]sealedLine, error) {
	var sealed []sealedLine
	for _, l := range lines {
		data, err := encodeLine(l)
		if err != nil {
			return nil, err
		}
		covered := data[:len(data)-1] // without the brace
		before = sumAfter(before, sha256.Sum256(covered))
		sealed = append(sealed, sealedLine{line: l, data: fmt.Appendf(nil, "%s%s%s%s\n", covered, sumKey, before, sumEnd), sum: before})
	}
	return sealed, nil
}

// extend returns the lines of a commit with their sums, and the chain that old becomes
// by them. If the state knows of no chain, it goes on where the one of the files ends,
// or else begins with what is in the files.
func (st *Store) extend(old chain, lines []state.Line) (chain, []sealedLine, error) {
	if len(lines) == 0 {
		return old, nil, nil
	}
	var err error
	if old.Sum == "" {
		if old, err = st.newestSum(nil); err != nil {
			return old, nil, err
		}
	}
	next := chain{Serial: lines[0].Serial, Before: old.Sum}
	if old.Sum == "" {
		if next.Before, err = st.genesis(); err != nil {
			return old, nil, err
		}
	}
	sealed, err := seal(next.Before, lines)
	if err != nil {
		return old, nil, err
	}
	next.Sum = sealed[len(sealed)-1].sum
	return next, sealed, nil
}

// genesis returns what the first line with a sum follows: a sum over all that the
// history held before, as an older program wrote it. It reads all of that, once.
func (st *Store) genesis() (string, error) {
	names, err := st.historyFiles()
	if err != nil {
		return "", err
	}
	all := sha256.New()
	for _, name := range names {
		if err := addUnsealed(all, name); err != nil {
			return "", err
		}
	}
	return sumAfter("", digest(all.Sum(nil))), nil
}

// addUnsealed adds to a hash the whole lines of a file before its first line with a
// sum, under the file's name.
func addUnsealed(all io.Writer, name string) error {
	f, err := openHistory(name)
	if f == nil {
		return err
	}
	defer f.Close()
	part, size := sha256.New(), 0
	for raw, err := range osfile.Lines(f, maxRecord) {
		if err != nil {
			return err
		}
		if _, _, sealed := unsealed(raw); sealed {
			break
		}
		size += len(raw)
		part.Write(raw)
	}
	if size > 0 {
		fmt.Fprintf(all, "%s %d %x\n", filepath.Base(name), size, part.Sum(nil))
	}
	return nil
}

// openHistory opens a file of the history for reading. It returns nil for what cannot
// be one and holds no line of ours; Obstacles names it.
func openHistory(name string) (*os.File, error) {
	f, err := osfile.OpenAtMost(name, maxHistory)
	if notHistory(err) {
		return nil, nil
	}
	return f, err
}

// notHistory reports whether what could not be opened cannot be a file of the history.
func notHistory(err error) bool {
	return errors.Is(err, osfile.ErrKind) || errors.Is(err, osfile.ErrTooLarge)
}

// historyFiles returns the paths of the history's files, the oldest first.
func (st *Store) historyFiles() ([]string, error) {
	names, err := filepath.Glob(st.path("history-*.jsonl"))
	slices.Sort(names)
	return names, err
}

// newestSum returns the place where the chain of the files ends: the newest line that
// has a sum and is not of a torn commit. It returns the zero chain if no line has one.
func (st *Store) newestSum(torn []state.Line) (chain, error) {
	names, err := st.historyFiles()
	if err != nil {
		return chain{}, err
	}
	end, n := chain{}, -1
	for _, name := range names {
		err := eachSealed(name, func(l state.Line, sum string) {
			if len(torn) > 0 && l.Serial == torn[0].Serial || !l.After(end.Serial, n) {
				return
			}
			end, n = chain{Serial: l.Serial, Sum: sum}, l.N
		})
		if err != nil {
			return chain{}, err
		}
	}
	return end, nil
}

// eachSealed calls f with each line of a file that has a sum.
func eachSealed(name string, f func(l state.Line, sum string)) error {
	file, err := openHistory(name)
	if file == nil {
		return err
	}
	defer file.Close()
	for raw, err := range osfile.Lines(file, maxRecord) {
		if err != nil {
			return err
		}
		_, sum, sealed := unsealed(raw)
		if l, ours := parseLine(raw); sealed && ours {
			f(l, sum)
		}
	}
	return nil
}
