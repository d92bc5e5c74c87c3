package turn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"agentstateloop/internal/plain"
)

// maxLine bounds a line of a JSON stream, in bytes.
const maxLine = 4 << 20

// maxUnknown bounds the text that an event keeps of an unrecognized line, in bytes.
const maxUnknown = 4 << 10

// readText emits plain output as it arrives, until EOF. It does not split a character, because an
// event is stored as JSON, which would corrupt the halves.
func readText(r io.Reader, emit func(Event)) {
	buf := make([]byte, 32<<10)
	held := 0
	for {
		n, err := r.Read(buf[held:])
		text := buf[:held+n]
		if err == nil {
			text = plain.TrimPartial(text)
		}
		if len(text) > 0 {
			emit(Event{Kind: TextDelta, Text: string(text)})
		}
		held = copy(buf, buf[len(text):held+n])
		if err != nil {
			return
		}
	}
}

// readLines emits the events of a stream of JSON lines, until EOF. A line longer than maxLine
// becomes an Error event and is not kept in memory. The last line needs no newline.
func readLines(r io.Reader, parse parser, emit func(Event)) {
	br := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	size := 0
	flush := func() {
		switch {
		case size > maxLine:
			emit(Event{Kind: Error, Text: fmt.Sprintf("the agent printed a line of %d bytes, which was skipped", size)})
		case len(bytes.TrimSpace(line)) > 0:
			for _, e := range parse(bytes.TrimSpace(line)) {
				emit(e)
			}
		}
		if cap(line) > 1<<20 {
			line = nil
		}
		line, size = line[:0], 0
	}
	for {
		part, err := br.ReadSlice('\n')
		size += len(part)
		if size <= maxLine {
			line = append(line, part...)
		}
		if err == nil {
			flush()
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			flush()
			return
		}
	}
}

// parser returns the events of one line of an agent's stream. An unrecognized line becomes an
// Unknown event.
type parser func(line []byte) []Event

// unknown returns the event for an unrecognized line.
func unknown(line []byte) []Event {
	return []Event{{Kind: Unknown, Text: plain.Cut(clean(string(line[:min(len(line), maxUnknown)])), maxUnknown)}}
}
