package store

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// historyName returns the name of the history file for a time. Each month in UTC has its own file.
func historyName(at time.Time) string { return "history-" + at.UTC().Format("2006-01") + ".jsonl" }

// appendLines is appendSealed for lines without sums, written by an older program.
func (st *Store) appendLines(lines []state.Line) error {
	var all []sealedLine
	for _, l := range lines {
		data, err := encodeLine(l)
		if err != nil {
			return err
		}
		all = append(all, sealedLine{line: l, data: append(data, '\n')})
	}
	return st.appendSealed(all)
}

// appendSealed appends lines to the history durably. On an error it truncates the file to its old
// length. The next attempt then writes and fsyncs the lines again, instead of trusting pages that
// never reached the disk.
func (st *Store) appendSealed(lines []sealedLine) error {
	if len(lines) == 0 {
		return nil
	}
	path := st.path(historyName(lines[0].line.At))
	var data bytes.Buffer
	for _, l := range lines {
		data.Write(l.data)
	}
	err := osfile.File(path, maxHistory)
	if notHistory(err) {
		if err := st.setAside(filepath.Base(path), "wrong", lines[0].line.At); err != nil {
			return err
		}
		err = fs.ErrNotExist
	}
	fresh := errors.Is(err, fs.ErrNotExist)
	f, err := osfile.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := endOfLastLine(f)
	if err != nil {
		return err
	}
	if err := st.writeAt(f, path, data.Bytes(), end); err != nil {
		return errors.Join(err, f.Truncate(end))
	}
	if fresh {
		if err := syncDir(st.Hook, st.Dir); err != nil {
			return err
		}
	}
	st.synced.Store(lines[len(lines)-1].line.Serial)
	return nil
}

func (st *Store) writeAt(f *os.File, path string, data []byte, end int64) error {
	if err := f.Truncate(end); err != nil {
		return err
	}
	if err := st.Hook.at("append", path); err != nil {
		return err
	}
	if _, err := f.WriteAt(data, end); err != nil {
		return err
	}
	if err := st.Hook.at("fsync", path); err != nil {
		return err
	}
	return f.Sync()
}

// appendMissing appends the lines of a state that the history lacks after a crash between the
// rename of the state and the append.
func (st *Store) appendMissing(s stored) error {
	if len(s.Lines) == 0 {
		return nil
	}
	name := historyName(s.Lines[0].At)
	last, err := st.lastLine(name)
	if err != nil {
		return err
	}
	if !s.Lines[len(s.Lines)-1].After(last.Serial, last.N) {
		if err := st.mendHole(name, s); err != nil {
			return err
		}
		return st.syncHistory(name, last.Serial)
	}
	// The commit of these lines was interrupted, perhaps before the name of its state was durable.
	// The history must not record lines that the state may lose.
	if err := syncDir(st.Hook, st.Dir); err != nil {
		return err
	}
	if s.Chain.Serial != s.Lines[0].Serial {
		return st.appendLines(slices.DeleteFunc(slices.Clone(s.Lines), func(l state.Line) bool { return !l.After(last.Serial, last.N) }))
	}
	lines, err := seal(s.Chain.Before, s.Lines)
	if err != nil {
		return err
	}
	return st.appendSealed(slices.DeleteFunc(lines, func(l sealedLine) bool { return !l.line.After(last.Serial, last.N) }))
}

// syncHistory fsyncs existing lines. The process that wrote them may have died before its fsync,
// and the next state no longer carries them.
func (st *Store) syncHistory(name string, serial uint64) error {
	if st.synced.Load() == serial {
		return nil // this process has fsynced them
	}
	if err := st.fsync(st.path(name)); err != nil {
		return err
	}
	st.synced.Store(serial)
	return nil
}

func (st *Store) fsync(path string) error {
	f, err := osfile.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := st.Hook.at("fsync", path); err != nil {
		return err
	}
	return f.Sync()
}

// cutTorn truncates the lines of a torn commit from the history, before its serial is used again.
func (st *Store) cutTorn() error {
	lines, err := st.allLines()
	if err != nil {
		return err
	}
	_, torn := state.Whole(lines)
	if len(torn) == 0 {
		return nil
	}
	path := st.path(historyName(torn[0].At))
	end, err := serialOffset(path, torn[0].Serial)
	if err != nil {
		return err
	}
	if err := st.Hook.at("truncate", path); err != nil {
		return err
	}
	if err := os.Truncate(path, end); err != nil {
		return err
	}
	return st.fsync(path)
}

// serialOffset returns the offset of the first line of a serial in a history file.
func serialOffset(path string, serial uint64) (start int64, err error) {
	f, err := osfile.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		raw, size, err := osfile.ReadLine(r, maxRecord)
		if errors.Is(err, io.EOF) {
			return start, nil
		}
		if err != nil {
			return 0, err
		}
		if l, ours := parseLine(raw); ours && l.Serial == serial {
			return start, nil
		}
		start += size
	}
}

// tailChunk is the size in bytes of the first read from the end of a history file. Lines are seldom
// longer.
const tailChunk = 4 << 10

// endOfLastLine returns the offset after the last whole line. The next append overwrites a torn line
// left by a crash.
func endOfLastLine(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end := info.Size()
	for chunk := int64(tailChunk); end > 0; chunk = min(2*chunk, 1<<20) {
		start := max(0, end-chunk)
		buf := make([]byte, end-start)
		if _, err := f.ReadAt(buf, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// lastLine returns our last whole line in a history file, or the zero Line if the file has no line
// of ours. Its cost does not depend on the file's length.
func (st *Store) lastLine(name string) (state.Line, error) {
	f, err := osfile.OpenAtMost(st.path(name), maxHistory)
	if errors.Is(err, fs.ErrNotExist) || notHistory(err) {
		return state.Line{}, nil
	}
	if err != nil {
		return state.Line{}, err
	}
	defer f.Close()
	end, err := endOfLastLine(f)
	if err != nil || end == 0 {
		return state.Line{}, err
	}
	for size := int64(tailChunk); ; size *= 2 {
		start := max(0, end-size)
		buf := make([]byte, end-start)
		if _, err := f.ReadAt(buf, start); err != nil {
			return state.Line{}, err
		}
		if l, ok := lastLineIn(buf, start == 0); ok || start == 0 || size > 2*maxRecord {
			return l, nil
		}
	}
}

// lastLineIn returns our last line in buf, the end of a file. It skips lines that do not parse, such as
// a person's note or the damage of a failing disk. buf begins with a whole line only if it is the
// whole file.
func lastLineIn(buf []byte, whole bool) (state.Line, bool) {
	lines := bytes.Split(buf, []byte("\n"))
	if !whole {
		lines = lines[1:]
	}
	for _, raw := range slices.Backward(lines) {
		if l, ok := parseLine(raw); ok {
			return l, true
		}
	}
	return state.Line{}, false
}
