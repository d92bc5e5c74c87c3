package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// An attachment that lies apart is large, and kept in a file of its own: Render leaves its
// content out, and Whole puts it in when the mail is sent. So a mail that waits takes
// the room of its files once.

// apartMark begins the line that stands for the content of an attachment. It occurs at the
// beginning of no other line: "=_" occurs in no part of a mail of ours, and a field of
// its header begins with a name.
const apartMark = "=_apart "

func apartLine(n int) string { return apartMark + strconv.Itoa(n) + "\r\n" }

// Whole returns a reader of a mail that Render has written. contents are those of its
// attachments that lie apart, in the order of Draft.Attachments; each is read once. A
// number of contents that is not the mail's is an error.
func Whole(rendered []byte, contents []io.Reader) (io.Reader, error) {
	var parts []io.Reader
	n := 0
	for at := 0; ; {
		mark := []byte("\n" + apartMark)
		i := bytes.Index(rendered[at:], mark)
		if i < 0 {
			parts = append(parts, bytes.NewReader(rendered[at:]))
			break
		}
		begin := at + i + 1
		n++
		if !bytes.HasPrefix(rendered[begin:], []byte(apartLine(n))) || n > len(contents) {
			return nil, fmt.Errorf("an attachment of the mail has no content of its own")
		}
		parts = append(parts, bytes.NewReader(rendered[at:begin]), &base64Reader{from: contents[n-1]})
		at = begin + len(apartLine(n))
	}
	if n != len(contents) {
		return nil, fmt.Errorf("%d files for the %d attachments of the mail that lie apart", len(contents), n)
	}
	return io.MultiReader(parts...), nil
}

// base64Reader encodes what it reads as the content of an attachment.
type base64Reader struct {
	from  io.Reader
	lines bytes.Buffer // encoded, and not read yet
	chunk []byte
	err   error
}

// chunkLines is how many lines are encoded at a time.
const chunkLines = 512

func (r *base64Reader) Read(p []byte) (int, error) {
	for r.lines.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.chunk == nil {
			r.chunk = make([]byte, chunkLines*lineBytes)
		}
		n, err := io.ReadFull(r.from, r.chunk)
		base64Lines(&r.lines, r.chunk[:n])
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		r.err = err
	}
	return r.lines.Read(p)
}
