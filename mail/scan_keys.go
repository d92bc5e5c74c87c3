package mail

import (
	"agentstateloop/mail/trust"
	"context"
	"sync"
)

const maxQuestions = 32 // DNS queries that run at the same time

// findKeys looks up the keys that may prove the mails of heads, many at a time, and rejects the
// mails whose keys do not exist. So thousands of forged mails, each with its own selector, cost
// no bodies, and little more time than one.
//
// A query without an answer rejects no mail. The judgement of the body then decides.
func (sc *scanner) findKeys(heads []head) {
	sc.conn.paced.pause() // its reader always waits, and must outlast the queries
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

// absentKeys returns the keys of heads that do not exist according to the DNS.
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
