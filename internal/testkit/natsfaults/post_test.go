package natsfaults_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
)

// letter names a message on the mesh.
type letter struct{ from, id string }

// post is a carrier that notes when messages left and came.
type post struct {
	cycle.Carrier
	books *books
}

// books are the times of messages.
type books struct {
	mu                 sync.Mutex
	began, kept, taken map[letter]time.Time // first tried, acknowledged by the engine, first shown to a poll
	sends, takes       []time.Duration
	failed             map[string]int // calls, by their error
	again              int            // messages that were shown more than once
}

func newBooks() *books {
	return &books{began: map[letter]time.Time{}, kept: map[letter]time.Time{}, taken: map[letter]time.Time{}, failed: map[string]int{}}
}

func (p *post) Send(ctx context.Context, m mesh.Message) (string, error) {
	began, l := time.Now(), letter{m.From, m.ID}
	p.books.mu.Lock()
	if p.books.began[l].IsZero() {
		p.books.began[l] = began
	}
	p.books.mu.Unlock()
	id, err := p.Carrier.Send(ctx, m)
	p.books.mu.Lock()
	defer p.books.mu.Unlock()
	p.books.sends = append(p.books.sends, time.Since(began))
	if err != nil {
		p.books.failed[short(err)]++
	} else {
		p.books.kept[l] = time.Now()
	}
	return id, err
}

func (p *post) Take(ctx context.Context) (mesh.Mailbox, error) {
	began := time.Now()
	box, err := p.Carrier.Take(ctx)
	now := time.Now()
	p.books.mu.Lock()
	defer p.books.mu.Unlock()
	p.books.takes = append(p.books.takes, now.Sub(began))
	if err != nil {
		p.books.failed[short(err)]++
	}
	for _, m := range box.Messages {
		if l := (letter{m.From, m.ID}); p.books.taken[l].IsZero() {
			p.books.taken[l] = now
		} else {
			p.books.again++
		}
	}
	return box, err
}

var address = regexp.MustCompile(`127\.0\.0\.1:\d+: `)

// short returns an error without the names of servers.
func short(err error) string {
	text, _, _ := strings.Cut(address.ReplaceAllString(err.Error(), ""), ";")
	return text
}

// gap returns the longest time between two messages that the engine acknowledged.
func (b *books) gap() (longest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.SortedFunc(maps.Values(b.kept), time.Time.Compare)
	for n := 1; n < len(all); n++ {
		longest = max(longest, all[n].Sub(all[n-1]))
	}
	return longest
}

// delays returns how long messages took from the first try to send them until a poll was
// shown them, the shortest first.
func (b *books) delays() (all []time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l, at := range b.taken {
		all = append(all, at.Sub(b.began[l]))
	}
	slices.Sort(all)
	return all
}
