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
	// chunkSize is how many bytes of a file are published at once.
	chunkSize = 256 << 10

	// chunksAhead is how many chunks are asked for before the first one is read.
	chunksAhead = 8

	headerChunks = "Asl-Chunks"
	headerSize   = "Asl-Size"
)

// chunks returns how many chunks a file has. An empty one has one.
func chunks(size int64) int { return max(1, int((size+chunkSize-1)/chunkSize)) }

// PutBlob publishes a file for an agent, in one flight, and waits until the engine has all
// of it on disk. The file may be published again.
func (c *Conn) PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error {
	data := make([]byte, size)
	if _, err := io.ReadFull(content, data); err != nil {
		return &Error{Err: fmt.Errorf("read the file: %w", err)}
	}
	stored := make([]bool, chunks(size))
	return c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		missing := 0
		for n := range stored {
			if stored[n] {
				continue
			}
			missing++
			header := nats.Header{}
			if n == 0 {
				header[headerChunks], header[headerSize] = []string{strconv.Itoa(len(stored))}, []string{strconv.FormatInt(size, 10)}
			}
			chunk := data[n*chunkSize : min((n+1)*chunkSize, len(data))]
			if err := f.ask(strconv.Itoa(n), blobSubject(to, c.Handle, sum, n), header, chunk); err != nil {
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
				return &Error{Server: l.server, Err: errStrange}
			}
			if _, err := f.stored(a, BlobStream); err != nil {
				return err
			}
			stored[n] = true
		}
		return nil
	})
}

// errNoBlob means that the engine does not have a file, or not all of it.
var errNoBlob = errors.New("the file is gone")

// Blob is a file that an agent published for us. It reads it, once.
type Blob struct {
	ctx   context.Context
	conn  *Conn
	from  string
	sum   string
	count int // of chunks
	next  int // that was not asked for yet

	ready  [][]byte // chunks that have come and were not read
	chunks []chunk  // as they were read
	err    error
}

// chunk is what is known of a chunk that was read.
type chunk struct {
	sequence uint64
	stored   time.Time
}

// OpenBlob returns a reader of a file of that size from an agent. Nothing is proved of
// its bytes.
func (c *Conn) OpenBlob(ctx context.Context, from, sum string, size int64) *Blob {
	return &Blob{ctx: ctx, conn: c, from: from, sum: sum, count: chunks(size)}
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

// fetchPatiently is fetch, which asks again for what is gone: the server that answered
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

// fetch asks for the next chunks, in one flight.
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
			subject := "$JS.API.DIRECT.GET." + BlobStream + "." + blobSubject(b.conn.Handle, b.from, b.sum, first+n)
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
				return &Error{Server: l.server, Err: errStrange}
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
		b.ready = b.ready[1:] // of an empty file
	}
	return nil
}

// chunk reads an answer that holds a chunk.
func (b *Blob) chunk(f *flight, a answer, n int) ([]byte, chunk, error) {
	gone := len(a.Data) == 0 && (n > 0 || len(a.Header[headerSize]) == 0)
	if a.status == 404 || a.status == 0 && gone {
		return nil, chunk{}, &Error{Server: f.link.server, Code: 404, Err: errNoBlob}
	}
	if a.status != 0 || len(a.Data) > chunkSize {
		return nil, chunk{}, &Error{Server: f.link.server, Code: a.status, Err: errStrange}
	}
	sequence, err := strconv.ParseUint(last(a.Header, "Nats-Sequence"), 10, 64)
	if err != nil {
		return nil, chunk{}, &Error{Server: f.link.server, Err: errStrange}
	}
	stored, err := time.Parse(time.RFC3339Nano, last(a.Header, "Nats-Time-Stamp"))
	if err != nil {
		return nil, chunk{}, &Error{Server: f.link.server, Err: errStrange}
	}
	if a.Data == nil {
		a.Data = []byte{}
	}
	return a.Data, chunk{sequence, stored}, nil
}

// Remove removes the file from the engine, as far as it was read, and does not wait. A
// chunk that was published again since, or later than a time, stays: another message may
// name it.
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
				"Nats-TTL":                            {"1s"},
				"Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(known.sequence, 10)},
			}
			if err := f.tell(blobSubject(b.conn.Handle, b.from, b.sum, n), header, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
