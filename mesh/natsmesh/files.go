package natsmesh

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// fileOf names a file that an agent sent us.
type fileOf struct{ from, sum string }

func (c *Client) timeout() time.Duration {
	if c.Timeout <= 0 {
		return 30 * time.Second
	}
	return c.Timeout
}

// PutBlob publishes the bytes of a file for an agent, and waits until the server has them on
// disk. The caller may repeat it.
func (c *Client) PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error {
	const op = "upload file"
	f := mesh.File{SHA256: sum, Name: "file", Size: size}
	if err := mesh.CheckFiles([]mesh.File{f}); err != nil || !state.ValidHandle(to) {
		return &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: errors.Join(err)}
	}
	return failure(op, c.engine().PutBlob(ctx, to, sum, size, content))
}

// GetBlob downloads a file of a message from an agent. It calls take once with a reader. At the
// end, the reader returns an error unless the bytes match the message. GetBlob returns the
// error of take unchanged. An *mesh.Error with the code 404 means that the file is gone.
func (c *Client) GetBlob(ctx context.Context, from string, f mesh.File, take func(io.Reader) error) error {
	const op = "download file"
	if err := mesh.CheckFiles([]mesh.File{f}); err != nil || !state.ValidHandle(from) {
		return &mesh.Error{Op: op, Code: http.StatusNotFound, Err: errors.Join(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	blob := c.engine().OpenBlob(ctx, from, f.SHA256, f.Size)
	meshFault, err := mesh.TakeVerified(f, blob, take)
	if meshFault != nil {
		return failure(op, meshFault)
	}
	if err != nil {
		return err
	}
	c.remember(fileOf{from, f.SHA256}, blob)
	return nil
}

// maxFiles limits the downloaded files that the client remembers for removal.
const maxFiles = 1024

func (c *Client) remember(f fileOf, blob *fleet.Blob) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[f] == nil && len(c.files) >= maxFiles {
		clear(c.files) // the server removes the files in a week
	}
	if c.files == nil {
		c.files = map[fileOf]*fleet.Blob{}
	}
	c.files[f] = blob
}

// removeFiles removes the files of an acknowledged message, unless another shown message names
// them. After a failure the files take up room on the server for a week.
func (c *Client) removeFiles(ctx context.Context, h *held) {
	for _, f := range h.files {
		c.mu.Lock()
		blob := c.files[f]
		needed := false
		for _, other := range c.held {
			needed = needed || slices.Contains(other.files, f)
		}
		if !needed {
			delete(c.files, f)
		}
		c.mu.Unlock()
		if blob != nil && !needed {
			_ = blob.Remove(ctx, h.items[len(h.items)-1].Stored)
		}
	}
}
