package mail

import (
	"agentstateloop/mail/trust"
	"context"
	"sync"
)

const maxQuestions = 32 // DNS queries that run at the same time

// findKeys asks for the keys by which the mails of heads may be proved, many at
// the same time, and rejects those mails for which there is none. So thousands of
// forged mails, each with a selector of its own, cost no bodies, and not much
// more time than one.
//
// A question without an answer rejects nothing: it is for the judgement of the
// body.
func (sc *scanner) findKeys(heads []head) {
	sc.conn.paced.pause() // it is read all the time, and must outlast the questions
	defer sc.conn.paced.resume()
	ctx, cancel := context.WithTimeout(sc.ctx, sc.mailbox.timeout())
	defer cancel()
	absent := sc.absentKeys(ctx, heads)
	for i := range heads {
		h := &heads[i]
		if len(h.keys) == 0 || !allIn(h.keys, absent) {
			continue
		}
		rejected := *h.message
		v := sc.filter.WithoutKey(h.keys[0])
		rejected.Gate, rejected.Reason, rejected.Ask = v.Gate, v.Reason, v.Ask
		h.rejected = &rejected
	}
}

// absentKeys returns those keys of heads that the DNS says do not exist.
func (sc *scanner) absentKeys(ctx context.Context, heads []head) map[trust.KeyName]bool {
	var mu sync.Mutex
	var asking sync.WaitGroup
	defer asking.Wait()
	free := make(chan struct{}, maxQuestions)
	absent, asked := map[trust.KeyName]bool{}, map[trust.KeyName]bool{}
	for _, h := range heads {
		for _, k := range h.keys {
			if asked[k] || sc.late() || ctx.Err() != nil {
				continue
			}
			asked[k] = true
			free <- struct{}{}
			asking.Go(sc.mailbox.Secrets.Guarded(func() {
				defer func() { <-free }()
				if sc.filter.KeyAbsent(ctx, k) {
					mu.Lock()
					defer mu.Unlock()
					absent[k] = true
				}
			}))
		}
	}
	return absent
}

func allIn(keys []trust.KeyName, absent map[trust.KeyName]bool) bool {
	for _, k := range keys {
		if !absent[k] {
			return false
		}
	}
	return true
}
