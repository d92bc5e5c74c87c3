package natsfaults_test

import (
	"context"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
)

// letter names a message on the mesh.
type letter struct{ from, id string }

// books record when the engine acknowledged messages.
type books struct {
	mu   sync.Mutex
	kept map[letter]time.Time
}

// post is a carrier that keeps the books.
type post struct {
	cycle.Carrier
	books *books
}

func (p *post) Send(ctx context.Context, m mesh.Message) (string, error) {
	id, err := p.Carrier.Send(ctx, m)
	if err == nil {
		p.books.mu.Lock()
		defer p.books.mu.Unlock()
		p.books.kept[letter{m.From, m.ID}] = time.Now()
	}
	return id, err
}
