package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// chunkSize is the size of a chunk of a file, in bytes.
	chunkSize = 256 << 10

	// chunksAhead is how many chunks a Blob requests before it returns the first one.
	chunksAhead = 8

	headerChunks = "Asl-Chunks"
	headerSize   = "Asl-Size"
)

// chunks returns the number of chunks of a file. An empty file has one.
func chunks(size int64) int { return max(1, int((size+chunkSize-1)/chunkSize)) }

// PutBlob publishes a file for an agent, and waits until the server has the
// whole file on disk. The caller may publish the file again.
func (c *Conn) PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error {
	data, err := readFile(size, content)
	if err != nil {
		return err
	}
	return c.putChunks(ctx, BlobStream, blobPrefix(to, c.Handle, sum), data)
}

func readFile(size int64, content io.Reader) ([]byte, error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(content, data); err != nil {
		return nil, &Error{Err: fmt.Errorf("read the file: %w", err)}
	}
	return data, nil
}

// putAtOnce is how many chunks are on the way at a time. The time limit of a call is for so many: on a
// slow line a large file takes as long as it needs.
const putAtOnce = 8

// putChunks publishes a file in chunks, in one round trip for each putAtOnce of them. The subject of a
// chunk is the prefix and the number of the chunk.
func (c *Conn) putChunks(ctx context.Context, stream, prefix string, data []byte) error {
	for first := 0; first < chunks(int64(len(data))); first += putAtOnce {
		if err := c.putSome(ctx, stream, prefix, data, first); err != nil {
			return err
		}
	}
	return nil
}

// putSome publishes putAtOnce chunks of a file, from the chunk first on.
func (c *Conn) putSome(ctx context.Context, stream, prefix string, data []byte, first int) error {
	size := int64(len(data))
	all := chunks(size)
	stored := make([]bool, min(all, first+putAtOnce))
	return c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		missing := 0
		for n := first; n < len(stored); n++ {
			if stored[n] {
				continue
			}
			missing++
			header := nats.Header{}
			if n == 0 {
				header[headerChunks], header[headerSize] = []string{strconv.Itoa(all)}, []string{strconv.FormatInt(size, 10)}
			}
			chunk := data[n*chunkSize : min((n+1)*chunkSize, len(data))]
			if err := f.ask(strconv.Itoa(n), prefix+strconv.Itoa(n), header, chunk); err != nil {
				return err
			}
		}
		for range missing {
			a, err := f.next()
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(a.name)
			if err != nil || n < 0 || n >= len(stored) {
				return &Error{Server: l.server, Err: errInvalidAnswer}
			}
			if _, err := f.stored(a, stream); err != nil {
				return err
			}
			stored[n] = true
		}
		return nil
	})
}

// errNoBlob means that the server does not have the whole file.
var errNoBlob = errors.New("the server no longer has the file")

// Blob reads, once, a file that an agent published for us, or one of our own.
type Blob struct {
	ctx    context.Context
	conn   *Conn
	stream string
	prefix string // of the subjects of the chunks
	count  int    // number of chunks
	next   int    // the next chunk to request

	ready  [][]byte // chunks that were fetched but not read
	chunks []chunk  // the fetched chunks
	err    error
}

// chunk identifies a fetched chunk.
type chunk struct {
	sequence uint64
	stored   time.Time
}

// OpenBlob returns a reader of a file of that size from an agent. It does not verify the bytes.
func (c *Conn) OpenBlob(ctx context.Context, from, sum string, size int64) *Blob {
	return &Blob{ctx: ctx, conn: c, stream: BlobStream, prefix: blobPrefix(c.Handle, from, sum), count: chunks(size)}
}

// Read implements io.Reader. Its errors are *Error, with the code 404 if the file is gone.
func (b *Blob) Read(p []byte) (int, error) {
	for b.err == nil && len(b.ready) == 0 {
		if b.next == b.count {
			return 0, io.EOF
		}
		b.err = b.fetchPatiently()
	}
	if b.err != nil {
		return 0, b.err
	}
	n := copy(p, b.ready[0])
	if b.ready[0] = b.ready[0][n:]; len(b.ready[0]) == 0 {
		b.ready = b.ready[1:]
	}
	return n, nil
}

// fetchPatiently is fetch with retries for a missing chunk, because the server that answered
// may lag behind the others.
func (b *Blob) fetchPatiently() error {
	for tries := 1; ; tries++ {
		err := b.fetch()
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != 404 || tries == 3 {
			return err
		}
		select {
		case <-time.After(maxPause / 4):
		case <-b.ctx.Done():
			return err
		}
	}
}

// fetch requests the next chunks, in one round trip.
func (b *Blob) fetch() error {
	first, count := b.next, min(chunksAhead, b.count-b.next)
	got := make([][]byte, count)
	known := make([]chunk, count)
	err := b.conn.do(b.ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		missing := 0
		for n := range got {
			if got[n] != nil {
				continue
			}
			missing++
			subject := directGet(b.stream, b.prefix+strconv.Itoa(first+n))
			if err := f.ask(strconv.Itoa(n), subject, nil, nil); err != nil {
				return err
			}
		}
		for range missing {
			a, err := f.next()
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(a.name)
			if err != nil || n < 0 || n >= count {
				return &Error{Server: l.server, Err: errInvalidAnswer}
			}
			if got[n], known[n], err = b.chunk(f, a, first+n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.next += count
	b.ready, b.chunks = append(b.ready, got...), append(b.chunks, known...)
	if len(b.ready[0]) == 0 {
		b.ready = b.ready[1:] // the file is empty
	}
	return nil
}

// chunk reads an answer with a chunk.
func (b *Blob) chunk(f *flight, a answer, n int) ([]byte, chunk, error) {
	missing := len(a.Data) == 0 && (n > 0 || len(a.Header[headerSize]) == 0)
	if a.status == 404 || a.status == 0 && missing {
		return nil, chunk{}, &Error{Server: f.link.server, Code: 404, Err: errNoBlob}
	}
	if a.status != 0 || len(a.Data) > chunkSize {
		return nil, chunk{}, &Error{Server: f.link.server, Code: a.status, Err: errInvalidAnswer}
	}
	sequence, stored, err := f.place(a)
	if err != nil {
		return nil, chunk{}, err
	}
	if a.Data == nil {
		a.Data = []byte{}
	}
	return a.Data, chunk{sequence, stored}, nil
}

// Remove removes the fetched chunks of the file from the server, and does not wait. A chunk
// that was published again, or stored after the time before, stays: another message may name
// it.
func (b *Blob) Remove(ctx context.Context, before time.Time) error {
	return b.conn.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		for n, known := range b.chunks {
			if known.stored.After(before) {
				continue
			}
			header := nats.Header{
				"Nats-TTL":     {"1s"},
				headerExpected: {strconv.FormatUint(known.sequence, 10)},
			}
			if err := f.tell(b.prefix+strconv.Itoa(n), header, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
