package message

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// CutHeader reads up to and including the first empty line. It stops at the
// end, or a little beyond MaxHeader bytes.
func CutHeader(br *bufio.Reader) ([]byte, error) {
	var header []byte
	whole := true // the last line was read to its end
	for len(header) < MaxHeader {
		line, err := br.ReadSlice('\n')
		header = append(header, line...)
		empty := whole && len(bytes.TrimRight(line, "\r\n")) == 0
		whole = err == nil
		switch {
		case err == io.EOF || empty && err == nil:
			return header, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return header, err
		}
	}
	return header, nil
}
