package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// errWrongSum means that the content of a file does not match its name.
var errWrongSum = errors.New("the file does not have the expected SHA-256")

// PutFile stores a file of this agent's own under its SHA-256, and waits until
// the server has the whole file on disk. The caller may store the file again, which renews its
// age.
func (c *Conn) PutFile(ctx context.Context, sum string, size int64, content io.Reader) error {
	data, err := readFile(size, content)
	if err != nil {
		return err
	}
	if s := sha256.Sum256(data); hex.EncodeToString(s[:]) != sum {
		return &Error{Err: errWrongSum} // it would replace the right one
	}
	return c.putChunks(ctx, FileStream, filePrefix(c.Handle, sum), data)
}

// GetFile passes a reader of a file of this agent's own to take, and returns its error. The reader
// fails with the code 404 if the servers do not have the whole file, and at its end if the file
// does not have this sum.
func (c *Conn) GetFile(ctx context.Context, sum string, size int64, take func(io.Reader) error) error {
	b := &Blob{ctx: ctx, conn: c, stream: FileStream, prefix: filePrefix(c.Handle, sum), count: chunks(size)}
	return take(&summedReader{from: b, sum: sum, so: sha256.New()})
}

// summedReader returns an error in the place of io.EOF if its content does not have a sum.
type summedReader struct {
	from io.Reader
	sum  string
	so   hash.Hash
}

func (r *summedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.so.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(r.so.Sum(nil)) != r.sum {
		err = &Error{Err: errWrongSum}
	}
	return n, err
}
