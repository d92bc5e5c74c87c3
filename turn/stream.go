package turn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"agentstateloop/internal/plain"
)

// maxLine is the longest line of a stream that is read as JSON.
const maxLine = 4 << 20

// maxUnknown is how much of a line that was not understood an event keeps.
const maxUnknown = 4 << 10

// readText gives plain output as it comes, line or no line, until its end. A
// character is not cut in two, since an event is kept as JSON, which would
// mangle the halves.
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

// readLines gives the events of a stream of JSON lines until its end. A line
// longer than maxLine is an Error event and is not kept in memory; the last
// line needs no newline.
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

// parser reads one line of an agent's stream. It never fails: what it does not
// understand is an Unknown event.
type parser func(line []byte) []Event

// unknown is the event for a line, or a part of one, that was not understood.
func unknown(line []byte) []Event {
	return []Event{{Kind: Unknown, Text: plain.Cut(clean(string(line[:min(len(line), maxUnknown)])), maxUnknown)}}
}
