package mesh

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrNoFiles means that a mesh does not support files: it does not know the call, like an older
// version.
var ErrNoFiles = errors.New("this mesh carries no files")

// PutBlob uploads the bytes of a file. The mesh refuses a message that names a file before the
// file is uploaded. The caller can repeat a PutBlob whose answer was lost. The recipient does
// not matter: the mesh stores the file for its uploader.
func (c *Client) PutBlob(ctx context.Context, _, sum string, size int64, content io.Reader) error {
	var answer struct {
		SHA256 string `json:"sha256"`
	}
	const op = "upload file"
	err := c.do(ctx, request{
		op: op, method: http.MethodPut, path: join(cmp.Or(c.Paths.Blob, "/blob"), sum),
		content: content, length: size,
		into: &answer, accept: []int{http.StatusOK, http.StatusCreated},
	})
	if e, ok := errors.AsType[*Error](err); ok && (e.Code == http.StatusNotFound || e.Code == http.StatusMethodNotAllowed || e.Code == http.StatusNotImplemented) {
		return &Error{Op: op, Code: e.Code, Err: ErrNoFiles}
	}
	if err != nil {
		return err
	}
	if answer.SHA256 != sum {
		return &Error{Op: op, Code: http.StatusOK, Err: fmt.Errorf("the answer does not repeat the sum of the file, so nothing shows that the mesh took it: is this the mesh?")}
	}
	return nil
}

// GetBlob downloads the bytes of a file that a message in our mailbox names, from any sender.
// It calls take once with a reader. At the end, the reader returns an error unless the bytes
// match the message. GetBlob returns the error of take unchanged. An *Error with the code 404
// means that the mesh does not have the file.
func (c *Client) GetBlob(ctx context.Context, _ string, f File, take func(io.Reader) error) error {
	var taken error
	err := c.do(ctx, request{
		op: "download file", method: http.MethodGet, path: join(cmp.Or(c.Paths.Blob, "/blob"), f.SHA256),
		accept: []int{http.StatusOK},
		receive: func(resp *http.Response) error {
			meshFault, err := TakeVerified(f, resp.Body, take)
			if meshFault == nil {
				taken = err
			}
			return cmp.Or(meshFault, err)
		},
	})
	return cmp.Or(taken, err)
}

// TakeVerified calls take once with a reader of content. At the end, the reader returns an
// error unless the bytes match f. meshFault is that error, or the error from reading content.
// err is the error of take.
func TakeVerified(f File, content io.Reader, take func(io.Reader) error) (meshFault, err error) {
	v := &verified{file: f, summed: summed{r: content, hash: sha256.New()}}
	err = take(v)
	return v.err, err
}

// verified reads a file. At the end it returns an error unless the bytes match the message.
type verified struct {
	summed
	file File
	err  error
}

func (v *verified) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.summed.Read(p)
	switch {
	case v.n > v.file.Size:
		err = fmt.Errorf("the mesh has more than the %d bytes that the message names", v.file.Size)
	case err == io.EOF && (v.n != v.file.Size || v.text() != v.file.SHA256):
		err = errors.New("the mesh has other bytes than those that the message names")
	}
	if err != nil && err != io.EOF {
		v.err, n = err, 0
	}
	return n, err
}
