package memfleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/testkit/memfleet"
)

// offer offers a head and returns its revision.
func offer(t *testing.T, by seat.Engine, after uint64, body string) uint64 {
	t.Helper()
	r, err := by.OfferHead(t.Context(), after, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLag checks that a read that lags shows each earlier state of the server.
func TestLag(t *testing.T) {
	ctx, now, lag := t.Context(), time.Unix(1000, 0), 0
	s := &memfleet.Server{Now: func() time.Time { return now }}
	s.Hook = func(c memfleet.Call, do func() error) error {
		*c.Lag = lag
		return do()
	}
	c := s.Host("alpha")
	first := offer(t, c, 0, "one")
	if err := c.PutBlock(ctx, 1, []byte("block")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetWish(ctx, []byte("wish")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	second := offer(t, c, first, "two")
	for lag = range 6 {
		h, err := c.LoadHead(ctx)
		if err != nil {
			t.Fatal(err)
		}
		wish, _, err := c.LoadWish(ctx)
		if err != nil {
			t.Fatal(err)
		}
		blocks := c.GetBlocks(ctx, 1, 1, func(uint64, []byte) error { return nil })
		got := fmt.Sprint(h.Revision, string(h.Body), h.Stored.Unix(), string(wish), blocks == nil)
		want := []string{fmt.Sprint(second, "two", 1060, "wish", true), fmt.Sprint(first, "one", 1000, "wish", true), fmt.Sprint(first, "one", 1000, "", true),
			fmt.Sprint(first, "one", 1000, "", false)}
		if lag < 4 && got != want[lag] || lag >= 4 && h.Revision != 0 {
			t.Errorf("%d writes ago: %s", lag, got)
		}
	}
}

// TestForget checks that the server forgets its last writes, and counts on from the ones before.
func TestForget(t *testing.T) {
	ctx := t.Context()
	s := &memfleet.Server{Now: time.Now}
	c := s.Host("alpha")
	r := offer(t, c, 0, "one")
	for n := range uint64(3) {
		if err := c.PutBlock(ctx, n+1, []byte("block")); err != nil {
			t.Fatal(err)
		}
	}
	r = offer(t, c, r, "two")
	lost := offer(t, c, r, "three")
	s.Forget(1)
	if h, err := c.LoadHead(ctx); err != nil || h.Revision != r || string(h.Body) != "two" {
		t.Errorf("after one write is forgotten: %+v, %v", h, err)
	}
	if again := offer(t, c, r, "other"); again != lost {
		t.Errorf("the next revision is %d, want %d again", again, lost)
	}
	s.Forget(3)
	h, err := c.LoadHead(ctx)
	if err != nil || string(h.Body) != "one" {
		t.Errorf("after four writes are forgotten: %+v, %v", h, err)
	}
	if err := c.PutBlock(ctx, 3, []byte("other")); err != nil {
		t.Errorf("a forgotten block: %v", err)
	}
	if err := c.PutBlock(ctx, 2, []byte("other")); err != fleet.ErrExists {
		t.Errorf("a block before: %v", err)
	}
	s.Forget(100)
	if h, err := c.LoadHead(ctx); err != nil || h.Revision != 0 {
		t.Errorf("after all is forgotten: %+v, %v", h, err)
	}
}

// TestHook checks which calls a hook sees, and that a client repeats all but an offer.
func TestHook(t *testing.T) {
	ctx := t.Context()
	var seen []string
	s := &memfleet.Server{Now: time.Now, Hook: func(c memfleet.Call, _ func() error) error {
		seen = append(seen, fmt.Sprint(c.Host, c.Name, c.After, c.Block))
		return memfleet.ErrLost
	}}
	c := s.Host("alpha")
	for want, call := range map[string]func() error{
		"1 alphaOfferHead7 0": func() error { _, err := c.OfferHead(ctx, 7, nil); return err },
		"3 alphaLoadHead0 0":  func() error { _, err := c.LoadHead(ctx); return err },
		"3 alphaPutBlock0 7":  func() error { return c.PutBlock(ctx, 7, nil) },
		"3 alphaGetBlocks0 7": func() error { return c.GetBlocks(ctx, 7, 9, nil) },
		"3 alphaPutFile0 0":   func() error { return c.PutFile(ctx, sum(nil), 0, strings.NewReader("")) },
		"3 alphaSetWish0 0":   func() error { return c.SetWish(ctx, nil) },
		"3 alphaLoadWish0 0":  func() error { _, _, err := c.LoadWish(ctx); return err },
	} {
		seen = nil
		err := call()
		if !fleet.Unsure(err) {
			t.Errorf("%s: %v", want, err)
		}
		if got := fmt.Sprint(len(seen), " ", seen[0]); got != want || len(slices.Compact(seen)) != 1 {
			t.Errorf("the calls are %s, want %s", got, want)
		}
	}
	s.Hook = func(memfleet.Call, func() error) error { return memfleet.ErrDown }
	if _, err := c.OfferHead(context.WithoutCancel(ctx), 0, nil); fleet.Unsure(err) || !errors.Is(err, memfleet.ErrDown) {
		t.Errorf("without a server: %v", err)
	}
}
