package seat

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"agentstateloop/fleet"
	"agentstateloop/state/store"
)

// blockSize is the size of the lines in a head, in bytes, above which the next head puts them into
// a block. maxBlock keeps a block below the limit of a message.
const (
	blockSize = 32 << 10
	maxBlock  = 512 << 10
)

// tail puts the lines of the history that no block has into a head. If they are long, it stores
// them as blocks before.
func (s *Seat) tail(ctx context.Context, e *envelope) error {
	lines, err := s.Store.LinesAfter(e.BlocksEnd.Serial, e.BlocksEnd.N)
	if err != nil {
		return err
	}
	skip := uint64(1)
	for size(lines) > blockSize {
		block, err := s.putBlock(ctx, e, lines[:fitting(lines)])
		if errors.Is(err, errOtherHistory) {
			// The servers lost a head, and still have its blocks: begin again behind them.
			e.FirstBlock = e.Blocks + 1 + skip
			e.Series, e.Blocks, e.BlocksEnd, skip = s.NewID(), e.FirstBlock-1, store.Place{}, 2*skip
			if lines, err = s.Store.LinesAfter(0, 0); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		lines = lines[len(block):]
	}
	e.lines = lines
	return nil
}

// errOtherHistory means that the servers have a block of the same number that is not of this history.
var errOtherHistory = errors.New("the servers have another history of this agent")

// putBlock stores lines as the next block, and returns those that the block has. Another host may
// have stored fewer of them under that number: all of them were in accepted heads, so its block is
// right as well.
func (s *Seat) putBlock(ctx context.Context, e *envelope, lines [][]byte) ([][]byte, error) {
	n := e.Blocks + 1
	err := s.Engine.PutBlock(ctx, n, bytes.Join(lines, nil))
	if errors.Is(err, fleet.ErrExists) {
		err = s.Engine.GetBlocks(ctx, n, n, func(_ uint64, body []byte) error {
			stored := splitLines(body)
			if len(stored) == 0 || len(stored) > len(lines) || !bytes.Equal(bytes.Join(lines[:len(stored)], nil), body) {
				return errOtherHistory
			}
			lines = lines[:len(stored)]
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	end, ok := store.PlaceOf(lines[len(lines)-1])
	if !ok {
		return nil, errors.New("the history has a line that cannot be read")
	}
	e.Blocks, e.BlocksEnd = n, end
	return lines, nil
}

func size(lines [][]byte) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}

// fitting returns how many of the lines fit into a block, at least one.
func fitting(lines [][]byte) (n int) {
	for total := 0; n < len(lines) && (n == 0 || total+len(lines[n]) <= maxBlock); n++ {
		total += len(lines[n])
	}
	return n
}

// blocksAtOnce is how many blocks are appended to the local history together.
const blocksAtOnce = 64

// blocks returns the lines of some blocks. A block that the servers have lost leaves a gap in the
// history of this host.
func (s *Seat) blocks(ctx context.Context, from, to uint64) (lines [][]byte, err error) {
	take := func(_ uint64, body []byte) error {
		lines = append(lines, splitLines(body)...)
		return nil
	}
	if err = s.Engine.GetBlocks(ctx, from, to, take); !isGone(err) {
		return lines, err
	}
	lines = nil
	for n := from; n <= to; n++ {
		err := s.Engine.GetBlocks(ctx, n, n, take)
		if isGone(err) {
			err = s.Store.Log(s.Now(), fmt.Sprintf("block %d of the history is missing in the servers", n))
		}
		if err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// install makes the cache hold a head: its history, its files, and at last its state. own is set for
// a head of this host.
func (s *Seat) install(ctx context.Context, c *store.Cache, r *record, e envelope, own bool) error {
	last, err := s.Store.LastPlace()
	if err != nil {
		return err
	}
	first := r.Head.Blocks + 1
	if !r.known || r.Head.Series != e.Series || last == (store.Place{}) {
		first = max(1, e.FirstBlock)
	}
	for ; first <= e.Blocks; first += blocksAtOnce {
		lines, err := s.blocks(ctx, first, min(e.Blocks, first+blocksAtOnce-1))
		if err == nil {
			err = c.Append(lines)
		}
		if err != nil {
			return err
		}
	}
	if err := s.fetch(ctx, r, e, own); err != nil {
		return err
	}
	if err := s.unsealIDKey(ctx, r, e.header); err != nil {
		return err
	}
	return c.Install(e.state, e.lines, s.Now())
}
