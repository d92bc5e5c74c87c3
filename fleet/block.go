package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
)

// ErrExists means that the history of this agent already has another block with this number.
var ErrExists = errors.New("the history already has another block with this number")

// errNoBlock means that the server does not have a block.
var errNoBlock = errors.New("the server does not have the block")

// blocksAhead is how many blocks GetBlocks requests before it returns the first one.
const blocksAhead = 256

// PutBlock stores block n of this agent's history, where the first block is 1, and waits until the
// server has it on disk. A block that is stored never changes: the error is ErrExists if the server
// has another one, and nil if it has the same one.
func (c *Conn) PutBlock(ctx context.Context, n uint64, body []byte) error {
	m, err := c.signed(ctx, blockSubject(c.Handle, n), blockLine(c.Handle, n), body)
	if err != nil {
		return err
	}
	m.Header[headerExpected] = []string{"0"}
	err = c.do(ctx, func(ctx context.Context, l *link) error {
		_, err := l.offer(ctx, m)
		return l.blockRefusal(err)
	})
	if !isA[*Refused](err) {
		return err
	}
	return c.GetBlocks(ctx, n, n, func(_ uint64, stored []byte) error {
		if !bytes.Equal(stored, body) {
			return ErrExists
		}
		return nil
	})
}

// blockRefusal returns an error that is retried if the server was busy with another message for the
// same block, which may be our own first try. It may fail.
func (l *link) blockRefusal(err error) error {
	if refused, ok := errors.AsType[*Refused](err); ok && refused.Last == 0 {
		return lostError(l.server, 409, errors.New("another block is being stored"))
	}
	return err
}

// GetBlocks reads the blocks from..to of this agent's history in one round trip, and passes them
// to take in their order. It asks again for a block that a server does not have, because the
// server may lag. Then the error has the code 404.
func (c *Conn) GetBlocks(ctx context.Context, from, to uint64, take func(n uint64, body []byte) error) error {
	public, err := c.PublicKey(ctx)
	if err != nil {
		return err
	}
	for first := from; first <= to; first += blocksAhead {
		got := make([][]byte, min(blocksAhead, to-first+1))
		err := c.do(ctx, func(ctx context.Context, l *link) error { return c.getBlocks(ctx, l, public, first, got) })
		if err != nil {
			return err
		}
		for i, body := range got {
			if err := take(first+uint64(i), body); err != nil {
				return err
			}
		}
	}
	return nil
}

// getBlocks requests the blocks that got lacks. The number of the first one is first.
func (c *Conn) getBlocks(ctx context.Context, l *link, public string, first uint64, got [][]byte) error {
	f, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer f.end()
	asked := 0
	for i := range got {
		if got[i] != nil {
			continue
		}
		asked++
		if err := f.ask(strconv.Itoa(i), directGet(HistoryStream, blockSubject(c.Handle, first+uint64(i))), nil, nil); err != nil {
			return err
		}
	}
	var missing error
	for range asked {
		a, err := f.next()
		if err != nil {
			return err
		}
		i, err := strconv.Atoi(a.name)
		if err != nil || i < 0 || i >= len(got) {
			return &Error{Server: l.server, Err: errInvalidAnswer}
		}
		n := first + uint64(i)
		if a.status == 404 {
			missing = lostError(l.server, 404, fmt.Errorf("%w %d", errNoBlock, n))
			continue
		}
		if _, _, err := f.place(a); err != nil {
			return err
		}
		if !verifies(public, a.Header.Get(headerSignature), blockLine(c.Handle, n), a.Data) {
			return &Error{Server: l.server, Err: fmt.Errorf("block %d is not signed by the key of %s", n, c.Handle)}
		}
		if got[i] = a.Data; a.Data == nil {
			got[i] = []byte{}
		}
	}
	return missing
}
