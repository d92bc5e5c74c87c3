package react

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEventLine bounds a line in an answer's stream of the Messages API, in bytes with its end.
const maxEventLine = 32 << 20

// eventReader reads the server-sent events of a stream
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type eventReader struct{ lines *bufio.Scanner }

// newEventReader returns a reader of body. A line of more than maxLine bytes is an error.
func newEventReader(body io.Reader, maxLine int) eventReader {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	return eventReader{lines}
}

// line returns the next line, which is valid until the next call. The error is io.EOF at the end
// of the body.
func (r eventReader) line() ([]byte, error) {
	if r.lines.Scan() {
		return r.lines.Bytes(), nil
	}
	if err := r.lines.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// next returns the next event: its name from the "event:" line, and the lines of its data. Only a
// blank line completes an event. The error is io.EOF at the end of the body.
func (r eventReader) next() (name string, data []byte, err error) {
	for {
		line, err := r.line()
		if err != nil {
			return "", nil, err
		}
		if len(line) == 0 {
			return name, data, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) { // a comment has no field name
		case "event":
			name = string(value)
		case "data":
			data = append(append(data, value...), '\n')
		}
	}
}

// errDone is the error at the "[DONE]" that ends a stream.
var errDone = errors.New("[DONE]")

// nextData returns the data of the next line that has any, which is valid until the next call. It
// is for servers that omit the blank line between events, or send an error without "data:". The
// error is errDone at "[DONE]", and io.EOF if the body ends without it.
func (r eventReader) nextData() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		data, named := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:"))
		data = bytes.TrimSpace(data)
		switch {
		case len(data) == 0 || !named && data[0] != '{' && data[0] != '[':
			continue
		case string(data) == "[DONE]":
			return nil, errDone
		}
		return data, nil
	}
}
