package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// An attachment that is kept apart is large, and has a file of its own. Render leaves out its
// content, and Whole inserts the content when the mail is sent. So a waiting mail stores its
// files only once.

// apartMark begins the placeholder line for the content of an attachment. It begins no other
// line: "=_" occurs in no part of our mail, and a field of the header begins with a name.
const apartMark = "=_apart "

func apartLine(n int) string { return apartMark + strconv.Itoa(n) + "\r\n" }

// Whole returns a reader of a mail that Render has written. contents are the contents of its
// attachments kept apart, in the order of Draft.Attachments; each is read once. If contents has
// more or fewer elements than the mail needs, Whole returns an error.
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

// base64Reader encodes the bytes of from as the content of an attachment.
type base64Reader struct {
	from  io.Reader
	lines bytes.Buffer // encoded, but not read yet
	chunk []byte
	err   error
}

// chunkLines is the number of lines encoded at a time.
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
