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

// A line of the history ends in its sum: the bytes sumKey, sumLen hexadecimal digits and sumEnd.
// The sum covers the preceding bytes of the line exactly as they are in the file, so a program
// whose lines have other fields can verify it too.
const (
	sumKey = `,"sum":"`
	sumEnd = `"}`
)

// chain is the end of the history's chain, as recorded in state.json. The zero chain belongs to an
// agent whose history has no sums yet.
type chain struct {
	Serial uint64 `json:"serial"` // the serial of the newest history line
	Sum    string `json:"sum"`    // the sum of the newest history line
	Before string `json:"before"` // the sum that the first line of this serial follows
}

func (c chain) head() Head { return Head{Serial: c.Serial, Sum: c.Sum} }

// stored is the content of state.json.
type stored struct {
	state.State
	Chain chain `json:"chain,omitzero"`

	// Settled is set by a commit that changed only times: the rest of the state was already
	// durable. See writeTimes.
	Settled bool `json:"settled,omitempty"`

	// File is the identity of the file itself, the last member. It is a text, because many programs
	// round such numbers. See identified.
	File string `json:"file,omitempty"`

	copied bool // the state was read from a copy of its file
}

// digest is the SHA-256 of a line without its sum.
type digest [sha256.Size]byte

// sumAfter returns the sum of a line that follows a line with the sum before.
func sumAfter(before string, line digest) string {
	sum := sha256.Sum256(append([]byte(before), line[:]...))
	return hex.EncodeToString(sum[:])[:sumLen]
}

// encodeLine returns a line as written to a file, without its sum and the newline. A line read back
// from state.json, with invalid UTF-8 replaced by a replacement character, encodes to the same
// bytes.
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

// splitSum splits a line of a file into the bytes before its sum, and the sum. ok is false for a
// line without a sum. raw may end in a newline.
func splitSum(raw []byte) (covered []byte, sum string, ok bool) {
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	start := len(raw) - len(sumKey) - sumLen - len(sumEnd)
	if start < 1 || !bytes.HasSuffix(raw, []byte(sumEnd)) || !bytes.HasPrefix(raw[start:], []byte(sumKey)) {
		return nil, "", false
	}
	sum = string(raw[start+len(sumKey) : len(raw)-len(sumEnd)])
	return raw[:start], sum, isSum(sum)
}

// sealedLine is a line as written to a file.
type sealedLine struct {
	line state.Line
	data []byte // with its sum and the newline
	sum  string // "" for a line without a sum
}

// seal adds sums to lines. The first line follows a line with the sum before.
func seal(before string, lines []state.Line) ([]sealedLine, error) {
	var sealed []sealedLine
	for _, l := range lines {
		data, err := encodeLine(l)
		if err != nil {
			return nil, err
		}
		covered := data[:len(data)-1] // without the closing brace
		before = sumAfter(before, sha256.Sum256(covered))
		sealed = append(sealed, sealedLine{line: l, data: fmt.Appendf(nil, "%s%s%s%s\n", covered, sumKey, before, sumEnd), sum: before})
	}
	return sealed, nil
}

// extend adds sums to the lines of a commit, and returns them with the new chain that continues
// old. If the state records no chain, extend continues the chain of the history files. If the files
// have none either, it starts a new chain, whose genesis covers the existing lines.
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

// genesis returns the sum that the first line with a sum follows. It covers the whole older
// history, which an older program wrote without sums. It reads that history in one pass.
func (st *Store) genesis() (string, error) {
	names, err := st.historyFiles()
	if err != nil {
		return "", err
	}
	all := sha256.New()
	for _, name := range names {
		if err := hashUnsummed(all, name); err != nil {
			return "", err
		}
	}
	return sumAfter("", digest(all.Sum(nil))), nil
}

// hashUnsummed adds to a hash the file's name and the whole lines before its first line with a sum.
func hashUnsummed(all io.Writer, name string) error {
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
		if _, _, sealed := splitSum(raw); sealed {
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

// openHistory opens a file of the history for reading. It returns nil for a file that cannot be a
// history file and so holds no line of ours. Obstacles reports such a file.
func openHistory(name string) (*os.File, error) {
	f, err := osfile.OpenAtMost(name, maxHistory)
	if notHistory(err) {
		return nil, nil
	}
	return f, err
}

// notHistory reports whether an error of opening a file means that it cannot be a history file.
func notHistory(err error) bool {
	return errors.Is(err, osfile.ErrKind) || errors.Is(err, osfile.ErrTooLarge)
}

// historyFiles returns the paths of the history's files, oldest first.
func (st *Store) historyFiles() ([]string, error) {
	names, err := filepath.Glob(st.path("history-*.jsonl"))
	slices.Sort(names)
	return names, err
}

// newestSum returns the end of the chain in the files: the newest line with a sum that is not part
// of a torn commit. It returns the zero chain if no line has a sum.
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
		_, sum, sealed := splitSum(raw)
		if l, ours := parseLine(raw); sealed && ours {
			f(l, sum)
		}
	}
	return nil
}
