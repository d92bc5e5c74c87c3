package memfleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"agentstateloop/fleet"
)

// Client makes the calls of one host.
type Client struct {
	server *Server
	host   string
}

// tries is how often a client makes a call before it returns the error.
const tries = 3

// once makes a call once.
func (c *Client) once(ctx context.Context, call Call, do func(s *Server, lag int) error) error {
	if ctx.Err() != nil {
		return &fleet.Error{Err: context.Cause(ctx)}
	}
	lag := 0
	call.Host, call.Lag = c.host, &lag
	locked := func() error {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		return do(c.server, lag)
	}
	if c.server.Hook == nil {
		return locked()
	}
	return c.server.Hook(call, locked)
}

// again makes a call until it is answered.
func (c *Client) again(ctx context.Context, call Call, do func(s *Server, lag int) error) (err error) {
	for range tries {
		if err = c.once(ctx, call, do); !fleet.Unsure(err) {
			return err
		}
	}
	return err
}

// LoadHead is as fleet.Conn.LoadHead.
func (c *Client) LoadHead(ctx context.Context) (fleet.Head, error) {
	return c.load(ctx, "LoadHead", head)
}

func (c *Client) load(ctx context.Context, name, subject string) (h fleet.Head, err error) {
	err = c.again(ctx, Call{Name: name}, func(s *Server, lag int) error {
		m := s.last(subject, lag)
		if m == nil {
			h = fleet.Head{}
			return nil
		}
		h = fleet.Head{Revision: m.sequence, Stored: m.at, Signed: m.signed}
		if len(m.body) > 0 {
			h.Body = bytes.Clone(m.body)
		}
		return nil
	})
	return h, err
}

// OfferHead is as fleet.Conn.OfferHead.
func (c *Client) OfferHead(ctx context.Context, after uint64, body []byte) (revision uint64, err error) {
	if err := fits(body); err != nil {
		return 0, err
	}
	err = c.once(ctx, Call{Name: "OfferHead", After: after}, func(s *Server, _ int) error {
		r, err := s.offer(head, after, body)
		if err == nil {
			revision = r
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return revision, nil
}

func fits(body []byte) error {
	if len(body) <= fleet.MaxHead {
		return nil
	}
	return &fleet.Error{Code: 413, Err: fmt.Errorf("message of %d bytes exceeds %d bytes", len(body), fleet.MaxHead)}
}

// SetWish is as fleet.Conn.SetWish.
func (c *Client) SetWish(ctx context.Context, body []byte) error {
	if err := fits(body); err != nil {
		return err
	}
	return c.again(ctx, Call{Name: "SetWish"}, func(s *Server, _ int) error {
		s.put(wish, body)
		return nil
	})
}

// LoadWish is as fleet.Conn.LoadWish.
func (c *Client) LoadWish(ctx context.Context) (body []byte, stored time.Time, err error) {
	h, err := c.load(ctx, "LoadWish", wish)
	if err != nil || !h.Signed || h.Body == nil {
		return nil, time.Time{}, err
	}
	return h.Body, h.Stored, nil
}

func blockSubject(n uint64) string { return "hist." + strconv.FormatUint(n, 10) }

// PutBlock is as fleet.Conn.PutBlock.
func (c *Client) PutBlock(ctx context.Context, n uint64, body []byte) error {
	if err := fits(body); err != nil {
		return err
	}
	err := c.again(ctx, Call{Name: "PutBlock", Block: n}, func(s *Server, _ int) error {
		_, err := s.offer(blockSubject(n), 0, body)
		return err
	})
	if _, refused := errors.AsType[*fleet.Refused](err); !refused {
		return err
	}
	return c.GetBlocks(ctx, n, n, func(_ uint64, stored []byte) error {
		if !bytes.Equal(stored, body) {
			return fleet.ErrExists
		}
		return nil
	})
}

// GetBlocks is as fleet.Conn.GetBlocks.
func (c *Client) GetBlocks(ctx context.Context, from, to uint64, take func(n uint64, body []byte) error) error {
	var got [][]byte
	err := c.again(ctx, Call{Name: "GetBlocks", Block: from}, func(s *Server, lag int) error {
		got = nil
		for n := from; n <= to; n++ {
			m := s.last(blockSubject(n), lag)
			if m == nil {
				return &fleet.Error{Server: "memory", Code: 404, Lost: true, Err: fmt.Errorf("the server does not have the block %d", n)}
			}
			if !m.signed {
				return &fleet.Error{Server: "memory", Err: fmt.Errorf("block %d is not signed", n)}
			}
			got = append(got, bytes.Clone(m.body))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, body := range got {
		if err := take(from+uint64(i), body); err != nil {
			return err
		}
	}
	return nil
}

// chunkSize is how much of a file one message has.
const chunkSize = 256 << 10

// chunkSubjects returns the subjects of the chunks of a file.
func chunkSubjects(sum string, size int64) (all []string) {
	for n := range max(1, (size+chunkSize-1)/chunkSize) {
		all = append(all, "file."+sum+"."+strconv.FormatInt(n, 10))
	}
	return all
}

// PutFile is as fleet.Conn.PutFile.
func (c *Client) PutFile(ctx context.Context, sum string, size int64, content io.Reader) error {
	data := make([]byte, size)
	if _, err := io.ReadFull(content, data); err != nil {
		return &fleet.Error{Err: fmt.Errorf("read the file: %w", err)}
	}
	if sumOf(data) != sum {
		return errWrongSum
	}
	return c.again(ctx, Call{Name: "PutFile"}, func(s *Server, _ int) error {
		for n, subject := range chunkSubjects(sum, size) {
			s.put(subject, data[n*chunkSize:min((n+1)*chunkSize, len(data))])
		}
		return nil
	})
}

var errWrongSum = &fleet.Error{Err: errors.New("the file does not have the expected SHA-256")}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// GetFile is as fleet.Conn.GetFile.
func (c *Client) GetFile(ctx context.Context, sum string, size int64, take func(io.Reader) error) error {
	var data []byte
	end := c.again(ctx, Call{Name: "GetFile"}, func(s *Server, lag int) error {
		data = nil
		for _, subject := range chunkSubjects(sum, size) {
			m := s.last(subject, lag)
			if m == nil {
				return &fleet.Error{Server: "memory", Code: 404, Err: errors.New("the server no longer has the file")}
			}
			data = append(data, m.body...)
		}
		return nil
	})
	switch {
	case end == nil && sumOf(data) != sum:
		end = errWrongSum
	case end == nil:
		end = io.EOF
	}
	return take(io.MultiReader(bytes.NewReader(data), failing{end}))
}

// failing is a reader that returns an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
