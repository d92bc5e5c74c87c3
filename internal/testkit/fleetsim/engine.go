package fleetsim

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"agentstateloop/internal/testkit/memfleet"
	"agentstateloop/state"
)

// engine is the servers, as one process sees them.
type engine struct {
	*memfleet.Client
	process *process
}

// OfferHead notes when a head is first offered.
func (e engine) OfferHead(ctx context.Context, after uint64, body []byte) (uint64, error) {
	e.process.host.world.truth.offers(e.process.host, body)
	return e.Client.OfferHead(ctx, after, body)
}

// answerWithin is how long a process waits for an answer.
const answerWithin = 2 * time.Second

// call makes a call of a process to the servers.
func (w *World) call(c memfleet.Call, do func() error) error {
	w.mu.Lock()
	p := w.processes[c.Host]
	w.mu.Unlock()
	if p == nil { // the checker
		return do()
	}
	p.point("call " + c.Name)
	time.Sleep(p.latency())
	p.breathe()
	w.mu.Lock()
	cut, down, late := p.host.cut, w.faults.down, time.Duration(0)
	if c.Name == "OfferHead" {
		late = w.faults.late(p.host)
	}
	stale := p.host.stale
	w.mu.Unlock()
	switch {
	case down && p.pick(2) == 0:
		return memfleet.ErrDown
	case cut.requests || down:
		time.Sleep(answerWithin)
		return memfleet.ErrLost
	case late > 0:
		w.happened("an offer came late")
		w.logf("%s: its offer comes %v late", p.name, late)
		time.AfterFunc(late, func() { w.do(p, c, do) })
		time.Sleep(answerWithin)
		return memfleet.ErrLost
	}
	if stale > 0 && p.pick(2) == 0 {
		*c.Lag = 1 + p.pick(stale)
		w.happened("a read was stale")
	}
	err := w.do(p, c, do)
	if cut.answers {
		time.Sleep(answerWithin)
		return memfleet.ErrLost
	}
	p.point("answer " + c.Name)
	time.Sleep(p.latency())
	p.breathe()
	return err
}

// do lets a call reach the servers.
func (w *World) do(p *process, c memfleet.Call, do func() error) error {
	err := do()
	if c.Name == "OfferHead" && err == nil {
		w.truth.accepted(p.host, c.After)
	}
	return err
}

// head is an accepted head.
type head struct {
	header
	revision uint64
	host     *host         // that offered it
	sent     time.Duration // when it was first offered, by the true clock
	at       time.Duration // when it was accepted
	body     []byte
}

// raw returns the state.
func (n head) raw() []byte {
	_, read, err := readHead(n.body)
	if err != nil {
		return nil
	}
	raw, _ := read()
	return raw
}

// state decodes the state.
func (n head) state() (s state.State) {
	_ = json.Unmarshal(n.raw(), &s) // a damaged head is found by the hosts
	return s
}

// header is the begin of a head.
type header struct {
	Commit string        `json:"commit"`
	Term   uint64        `json:"term"`
	Seat   string        `json:"seat"`
	Host   string        `json:"host"`
	Beat   uint64        `json:"beat"`
	Lease  time.Duration `json:"lease"`
	Serial uint64        `json:"serial"`
	Files  []struct {
		Name string `json:"name"`
		Sum  string `json:"sha256"`
		Size int64  `json:"size"`
		Past bool   `json:"past"`
	} `json:"files"`
	StateSize int `json:"state_size"`
}

// readHead decodes the begin of a head, apart from the code that is tested. state reads the state.
func readHead(body []byte) (h header, state func() ([]byte, error), err error) {
	var plain io.Reader = bytes.NewReader(body)
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		if plain, err = gzip.NewReader(plain); err != nil {
			return h, nil, err
		}
	}
	r := bufio.NewReader(plain)
	line, err := r.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	return h, func() ([]byte, error) {
		raw := make([]byte, h.StateSize)
		_, err := io.ReadFull(r, raw)
		return raw, err
	}, err
}

// truth has the accepted heads, in order. World.mu guards it.
type truth struct {
	world  *World
	offer  map[string]time.Duration // when a commit was first offered, by its id
	heads  []head
	newest map[*host]head // the newest accepted head of each host that has a lease
	files  map[string]bool
	forgot bool // the servers have lost accepted heads, until a host joins again

	joined time.Duration // when a host joined again; 0: the servers never forgot

	died time.Duration // when the holder lost its power for good; 0: another host acts
}

// offers notes an offer.
func (t *truth) offers(h *host, body []byte) {
	offered, _, err := readHead(body)
	if err != nil {
		t.world.violate("%s offers a head that cannot be read: %v", h.id, err)
		return
	}
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	if t.offer == nil {
		t.offer, t.newest, t.files = map[string]time.Duration{}, map[*host]head{}, map[string]bool{}
	}
	if _, known := t.offer[offered.Commit]; !known {
		t.offer[offered.Commit] = t.world.now()
	}
}

// accepted checks a head that the servers have just accepted.
func (t *truth) accepted(by *host, after uint64) {
	w := t.world
	checker := w.servers.Host("")
	got, err := checker.LoadHead(context.Background())
	if err != nil {
		w.violate("the accepted head cannot be read: %v", err)
		return
	}
	n := head{revision: got.Revision, host: by, at: w.now(), body: got.Body}
	if n.header, _, err = readHead(got.Body); err != nil {
		w.violate("the accepted head cannot be read: %v", err)
		return
	}
	w.mu.Lock()
	n.sent = t.offer[n.Commit]
	var last *head
	if len(t.heads) > 0 {
		last = &t.heads[len(t.heads)-1]
	}
	var unknown []string
	for _, f := range n.Files {
		if !f.Past && !t.files[f.Sum] {
			unknown = append(unknown, f.Name)
		}
	}
	forgot := t.forgot
	w.mu.Unlock()
	for _, f := range n.Files {
		if len(unknown) == 0 || f.Past {
			continue
		}
		err := checker.GetFile(context.Background(), f.Sum, f.Size, func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
		if err != nil && !forgot {
			w.violate("the head of serial %d names %s, which the servers do not have: %v", n.Serial, f.Name, err)
		}
	}
	if last != nil && !forgot {
		t.follows(*last, n, after)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range n.Files {
		t.files[f.Sum] = true
	}
	if last == nil || last.Term != n.Term {
		t.acts()
		w.log = append(w.log, "          "+n.Host+" has the seat")
		w.count["takeovers"]++
	}
	if len(t.heads) > 200 { // only the newest are compared
		t.heads = append(t.heads[:0], t.heads[100:]...)
	}
	t.heads = append(t.heads, n)
	w.count["commits"]++
	if n.Lease > 0 {
		t.newest[by] = n
	}
}

// follows checks that a head follows another one.
func (t *truth) follows(last, n head, after uint64) {
	w := t.world
	switch {
	case after != last.revision:
		w.violate("%s offered a head after revision %d, which is not the newest one: %d", n.host.id, after, last.revision)
	case n.Serial < last.Serial:
		w.violate("%s replaced the serial %d by %d", n.host.id, last.Serial, n.Serial)
	case n.Term == last.Term && (n.Seat != last.Seat || n.host != last.host):
		w.violate("%s (seat %s) continues the term of %s (seat %s)", n.host.id, n.Seat, last.host.id, last.Seat)
	case n.Term == last.Term && n.Beat != last.Beat+1:
		w.violate("%s: beat %d after %d", n.host.id, n.Beat, last.Beat)
	case n.Term != last.Term && n.Term != last.Term+1:
		w.violate("%s: term %d after %d", n.host.id, n.Term, last.Term)
	case n.Term == last.Term+1 && last.Lease > 0 && n.at < last.sent+last.Lease:
		w.violate("%s took the seat %.1f s before the lease of %s ended", n.host.id, (last.sent + last.Lease - n.at).Seconds(), last.host.id)
	}
}

// takeoverWithin is how soon another host acts after the death of the holder.
const takeoverWithin = 250 * time.Second

// acts checks how soon a new holder acts. World.mu is held.
func (t *truth) acts() {
	w := t.world
	if t.died == 0 {
		return
	}
	if after := w.now() - t.died; after > takeoverWithin && w.broken == "" {
		w.broken = fmt.Sprintf("the takeover came %v after the death of the holder", after)
	}
	t.died = 0
}

// leaseOf returns the newest head with a lease that a host had accepted. World.mu is held.
func (t *truth) leaseOf(h *host) (n head, held bool) {
	n, held = t.newest[h]
	return n, held
}

// mayAct checks that a host performs an effect within its lease.
func (t *truth) mayAct(h *host, what string) (n head, ok bool) {
	w := t.world
	w.mu.Lock()
	n, held := t.leaseOf(h)
	forgot := t.forgot
	w.mu.Unlock()
	switch now := w.now(); {
	case forgot:
		return n, false
	case !held:
		w.violate("%s: %s without the seat", h.id, what)
	case now >= n.sent+n.Lease:
		w.violate("%s: %s %.1f s after its lease ended", h.id, what, (now - n.sent - n.Lease).Seconds())
	default:
		return n, true
	}
	return n, false
}

// last returns the newest accepted head.
func (t *truth) last() head {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	return t.heads[len(t.heads)-1]
}
