package osfile

import (
	"bufio"
	"errors"
	"io"
	"iter"
)

// Lines yields the lines of a file, each with its newline. It omits a last line without
// one, which a crash has torn. Of a line of more than limit bytes it yields the newline
// alone, so that no file takes more memory than that. An error is the last that it
// yields.
func Lines(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		buffered := bufio.NewReaderSize(r, 64<<10)
		for {
			line, _, err := ReadLine(buffered, limit)
			if errors.Is(err, io.EOF) || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// ReadLine returns the next line as Lines yields it, and how many bytes it takes in the
// file. The error is io.EOF at the end, also after a torn line.
func ReadLine(r *bufio.Reader, limit int) (line []byte, size int64, err error) {
	for tooLong := false; ; {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, size, err
		}
		if tooLong = tooLong || len(line)+len(part) > limit; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case err != nil: // the line goes on
		case tooLong:
			return []byte{'\n'}, size, nil
		default:
			return line, size, nil
		}
	}
}
