package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"

	"agentstateloop/internal/members"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// History yields the lines of the history, oldest first: those of the given kinds, or all lines if
// kinds is empty. Lines still missing from the files come last, from state.json. Each line comes
// once. History skips lines that do not parse.
func (st *Store) History(kinds ...state.LineKind) iter.Seq2[state.Line, error] {
	return func(yield func(state.Line, error) bool) {
		// Read the state first. In the other order, a line could move from the state into a file
		// between the two reads and be missed.
		s, err := st.Read()
		if err != nil {
			yield(state.Line{}, err)
			return
		}
		var last state.Line
		var failed []error
		for l := range st.fileLines(&failed, kinds...) {
			if !yield(l, nil) {
				return
			}
			last = l
		}
		for _, l := range s.Lines {
			if len(kinds) > 0 && !slices.Contains(kinds, l.Kind) || !l.After(last.Serial, last.N) {
				continue
			}
			if !yield(l, nil) {
				return
			}
		}
		for _, err := range failed {
			if !yield(state.Line{}, err) {
				return
			}
		}
	}
}

// fileLines yields the lines in the history files. If it cannot read a file to its end, it adds the
// error to failed and continues with the next file.
func (st *Store) fileLines(failed *[]error, kinds ...state.LineKind) iter.Seq[state.Line] {
	return func(yield func(state.Line) bool) {
		names, err := st.historyFiles()
		if err != nil {
			*failed = append(*failed, err)
			return
		}
		for _, name := range names {
			more, err := yieldLines(name, parserFor(kinds), yield)
			if err != nil {
				*failed = append(*failed, err)
			}
			if !more {
				return
			}
		}
	}
}

// parser parses a line. ok is false if the line does not parse or is of an unwanted kind.
type parser func(raw []byte) (l state.Line, ok bool)

// parserFor returns the parser for lines of these kinds, or for all lines if kinds is empty. Checking
// the kind before parsing is many times cheaper than parsing.
func parserFor(kinds []state.LineKind) parser {
	if len(kinds) == 0 {
		return parseLine
	}
	var marks [][]byte
	for _, k := range kinds {
		marks = append(marks, fmt.Appendf(nil, `"kind":%q`, string(k)))
	}
	return func(raw []byte) (state.Line, bool) {
		if !slices.ContainsFunc(marks, func(mark []byte) bool { return bytes.Contains(raw, mark) }) {
			return state.Line{}, false
		}
		l, ok := parseLine(raw)
		return l, ok && slices.Contains(kinds, l.Kind)
	}
}

func parseLine(raw []byte) (state.Line, bool) {
	l, err := unmarshalLine(raw)
	return l, err == nil && l.Kind != ""
}

// yieldLines yields the lines of a file. more is false if yield returned false.
func yieldLines(name string, parse parser, yield func(state.Line) bool) (more bool, err error) {
	f, err := osfile.OpenAtMost(name, maxHistory)
	if err != nil {
		return true, err
	}
	defer f.Close()
	for raw, err := range osfile.Lines(f, maxRecord) {
		if err != nil {
			return true, err
		}
		if l, ok := parse(raw); ok && !yield(l) {
			return false, nil
		}
	}
	return true, nil
}

// Newest yields lines from the newest backwards: those of the given kinds, or all lines if kinds is
// empty. It reads at most limit bytes of the history. It skips lines that do not parse and files
// that are not regular.
func (st *Store) Newest(limit int64, kinds ...state.LineKind) iter.Seq2[state.Line, error] {
	return func(yield func(state.Line, error) bool) {
		names, err := st.historyFiles()
		if err != nil {
			yield(state.Line{}, err)
			return
		}
		slices.Reverse(names)
		for _, name := range names {
			if !yieldNewest(name, &limit, parserFor(kinds), yield) || limit <= 0 {
				return
			}
		}
	}
}

// Before yields the lines before a position, the newest first: those of the given kinds, or all lines
// if kinds is empty. It passes over the newer lines without parsing them, and does not open more files
// than its caller wants lines of. It skips what Newest skips.
func (st *Store) Before(serial uint64, n int, kinds ...state.LineKind) iter.Seq2[state.Line, error] {
	parse := parserFor(kinds)
	older := func(raw []byte) (state.Line, bool) {
		if at, ok := serialOf(raw); ok && at > serial {
			return state.Line{}, false
		}
		l, ok := parse(raw)
		return l, ok && !l.After(serial, n) && (l.Serial != serial || l.N != n)
	}
	return func(yield func(state.Line, error) bool) {
		names, err := st.historyFiles()
		if err != nil {
			yield(state.Line{}, err)
			return
		}
		limit := int64(math.MaxInt64)
		for _, name := range slices.Backward(names) {
			if begin, ok := firstSerial(name); ok && begin > serial {
				continue
			}
			if !yieldNewest(name, &limit, older, yield) {
				return
			}
		}
	}
}

// serialOf reads the serial at the beginning of a line, where this program writes it.
func serialOf(raw []byte) (serial uint64, ok bool) {
	digits, ok := bytes.CutPrefix(raw, []byte(`{"serial":`))
	end := bytes.IndexByte(digits, ',')
	if !ok || end < 0 {
		return 0, false
	}
	serial, err := strconv.ParseUint(string(digits[:end]), 10, 64)
	return serial, err == nil
}

// firstSerial returns the serial of the first line of a history file.
func firstSerial(name string) (serial uint64, ok bool) {
	f, err := openHistory(name)
	if f == nil || err != nil {
		return 0, false
	}
	defer f.Close()
	head := make([]byte, 64)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false
	}
	return serialOf(head[:n])
}

// yieldNewest yields the lines of a file from its end. It reads in chunks that double in length up
// to a bound, because most readers want only a few lines. It reads at most limit bytes.
func yieldNewest(name string, limit *int64, parse parser, yield func(state.Line, error) bool) bool {
	f, err := openHistory(name)
	if err != nil {
		return yield(state.Line{}, err)
	}
	if f == nil {
		return true
	}
	defer f.Close()
	end, err := endOfLastLine(f)
	if err != nil {
		return yield(state.Line{}, err)
	}
	for chunk := int64(tailChunk); end > 0 && *limit > 0; {
		start := max(0, end-min(chunk, *limit))
		data := make([]byte, end-start)
		if _, err := f.ReadAt(data, start); err != nil && !errors.Is(err, io.EOF) {
			return yield(state.Line{}, err)
		}
		*limit -= int64(len(data))
		if start > 0 { // possibly in the middle of a line
			_, whole, _ := bytes.Cut(data, []byte("\n"))
			if len(whole) == 0 {
				if chunk *= 2; chunk > 2*maxRecord {
					return true // earlier bytes are not ours
				}
				continue
			}
			start, data = end-int64(len(whole)), whole
		}
		if !yieldBackwards(data, parse, yield) {
			return false
		}
		end = start
		chunk = max(chunk, min(2*chunk, 16*tailChunk))
	}
	return true
}

func yieldBackwards(data []byte, parse parser, yield func(state.Line, error) bool) bool {
	for len(data) > 0 {
		data = data[:len(data)-1] // the newline
		i := bytes.LastIndexByte(data, '\n')
		if l, ok := parse(data[i+1:]); ok && !yield(l, nil) {
			return false
		}
		data = data[:i+1]
	}
	return true
}

func (st *Store) allLines() ([]state.Line, error) {
	var failed []error
	lines := slices.Collect(st.fileLines(&failed))
	for _, err := range failed {
		if !notHistory(err) {
			return nil, fmt.Errorf("read history: %w", err)
		}
	}
	return lines, nil
}

// mendHole rewrites the newest lines of the history if a power loss left a hole in them: the end of
// the append reached the disk, but an earlier part did not. A hole reads as zero bytes, which no
// line contains. The lines come from the state s.
func (st *Store) mendHole(name string, s stored) error {
	if st.synced.Load() == s.Lines[0].Serial || s.Chain.Serial != s.Lines[0].Serial {
		return nil // this process has fsynced them, or an older program wrote them
	}
	lines, err := seal(s.Chain.Before, s.Lines)
	if err != nil {
		return err
	}
	var want []byte
	for _, l := range lines {
		want = append(want, l.data...)
	}
	path := st.path(name)
	f, err := osfile.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := endOfLastLine(f)
	if err != nil {
		return err
	}
	start := end - int64(len(want))
	if start < 0 {
		return nil
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, start); err != nil {
		return err
	}
	if !bytes.Contains(got, []byte{0}) {
		return nil
	}
	return st.writeAt(f, path, want, start)
}

// recent caches the state last read or written, with its file. As long as the state's name still
// refers to this file, the state need not be read again: a runner that works through a thousand
// messages reads its own state eight times for each. The cache holds the file open, so that no
// other file can be mistaken for it: every commit makes a new file, and the system reuses an inode
// number only after the file is closed. The file's time and size are compared too, in case a person
// edits it.
//
// The cached state is shared by all its readers and writers. Only Step changes a state, and it
// copies the state first.
type recent struct {
	mu    sync.Mutex
	file  *os.File // nil if the cache is empty
	info  fs.FileInfo
	state stored

	memo  *members.Memo // the memo of the state, if this process wrote it
	spare []byte        // the buffer of the previous memo, for reuse
}

// lookUp returns the cached state, if the cache holds the file at path.
func (r *recent) lookUp(path string) (stored, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return stored{}, false
	}
	info, err := os.Lstat(path)
	if err != nil || !os.SameFile(info, r.info) || !info.ModTime().Equal(r.info.ModTime()) || info.Size() != r.info.Size() {
		return stored{}, false
	}
	return r.state, true
}

// store caches the state that was read from f or written to it, and takes ownership of f. data is
// the content of f.
func (r *recent) store(f *os.File, data []byte, s stored, memo *members.Memo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.file.Close()
	}
	info, err := f.Stat()
	// Invalid UTF-8 is encoded as this character, so the decoded text would differ.
	if err != nil || bytes.Contains(data, []byte(`\ufffd`)) {
		f.Close()
		r.file, r.memo = nil, nil
		return
	}
	r.spare = r.memo.Bytes()
	r.file, r.info, r.state, r.memo = f, info, s, memo
}

// encode is encodeState with the memo and buffer of the cached state.
func (r *recent) encode(s *stored) ([]byte, *members.Memo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, memo, err := encodeState(r.spare[:0], s, r.memo)
	r.spare = nil
	return data, memo, err
}
