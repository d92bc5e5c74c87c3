package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
)

// Mails are the mails of files, with the times at which they came (see mail.StoredReader).
type Mails struct {
	all    []*mail.Stored // without their bytes
	reader mail.StoredReader

	Undated   int // mails without a date; they are left out
	Future    int // mails from after now; they are left out
	Unordered int // mails of an mbox that are older than the mail before them
}

// ErrReadTwice is the error for standard input and for a pipe.
var ErrReadTwice = errors.New("a replay reads each mail twice")

// Find finds the mails of files and folders, without holding their bytes. skip gets each file that
// cannot be read. maxSize limits the bytes of a mail that are held later.
func Find(ctx context.Context, names []string, maxSize int64, now time.Time, skip func(name string, why error) error) (*Mails, error) {
	ms := &Mails{reader: mail.StoredReader{MaxSize: maxSize, Now: func() time.Time { return time.Time{} }}}
	last := mail.Stored{}
	finder := ms.reader
	finder.MaxSize, finder.Skip = message.MaxHeader, skip // its time is in its header
	finder.Take = func(m mail.Stored) error {
		m.Raw = nil
		switch {
		case m.At.IsZero():
			ms.Undated++
			return ctx.Err()
		case m.At.After(now):
			ms.Future++
			return ctx.Err()
		case m.File == last.File && m.At.Before(last.At):
			ms.Unordered++
		}
		last = m
		ms.all = append(ms.all, &m)
		return ctx.Err()
	}
	for _, name := range names {
		if name == "-" {
			return nil, fmt.Errorf("standard input cannot be replayed: %w", ErrReadTwice)
		}
		if info, err := os.Stat(name); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
			return nil, fmt.Errorf("%s is a pipe, which cannot be replayed: %w", name, ErrReadTwice)
		}
		if err := finder.Read(name); err != nil {
			return nil, err
		}
	}
	order.Stable(ms.all, func(a, b *mail.Stored) int { return a.At.Compare(b.At) })
	return ms, nil
}

// Last returns when the last mail came, or the zero time without a mail.
func (ms *Mails) Last() time.Time {
	if len(ms.all) == 0 {
		return time.Time{}
	}
	return ms.all[len(ms.all)-1].At
}

// between returns the mails from a time to another, without those at the end.
func (ms *Mails) between(from, to time.Time) []*mail.Stored {
	at := func(t time.Time) int {
		return sort.Search(len(ms.all), func(i int) bool { return !ms.all[i].At.Before(t) })
	}
	return ms.all[at(from):max(at(from), at(to))]
}
