package memory

import (
	"bytes"
	"strconv"
)

// message is what is published, or delivered.
type message struct {
	subject, reply string
	header         []byte // as on the wire; nil for none
	body           []byte

	agents bool // it is of the account of the agents, and so is what answers it
}

const (
	headerBegin = "NATS/1.0"
	lineEnd     = "\r\n"
)

// field returns the first value of a field of a header, with its name as it is written;
// "" if there is none.
func field(header []byte, name string) string {
	for line := range bytes.SplitSeq(header, []byte(lineEnd)) {
		if value, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return string(bytes.TrimLeft(value, " "))
		}
	}
	return ""
}

// withField returns a copy of a header with one more field at its end.
func withField(header []byte, name, value string) []byte {
	begin := []byte(headerBegin + lineEnd)
	if len(header) > 0 {
		begin = bytes.TrimSuffix(header, []byte(lineEnd))
	}
	return bytes.Join([][]byte{begin, []byte(name + ": " + value + lineEnd + lineEnd)}, nil)
}

// withoutStatus returns a header as a stream keeps it: without a status in its first line,
// and none if nothing else is in it.
func withoutStatus(header []byte) []byte {
	_, fields, ok := bytes.Cut(header, []byte(lineEnd))
	if !ok || len(fields) <= len(lineEnd) {
		return nil
	}
	return append([]byte(headerBegin+lineEnd), fields...)
}

// status returns a message that is a status of the engine, with fields as name and value
// by turns.
func status(code int, text string, fields ...string) message {
	header := headerBegin + " " + strconv.Itoa(code)
	if text != "" {
		header += " " + text
	}
	header += lineEnd
	for i := 0; i+1 < len(fields); i += 2 {
		header += fields[i] + ": " + fields[i+1] + lineEnd
	}
	return message{header: []byte(header + lineEnd)}
}
