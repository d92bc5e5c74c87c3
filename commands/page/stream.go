package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

const (
	// maxStreams limits the streams that a listener serves at once.
	maxStreams = 16

	// documentEvery is the shortest time between two documents.
	documentEvery = time.Second

	// refreshEvery is the longest time for which a document says "in 3 minutes".
	refreshEvery = 15 * time.Second
)

// events sends the document at once, and after each change of an agent, until the browser
// disconnects, its session ends or the listener stops.
func (s *Server) events(rw http.ResponseWriter, r *http.Request) {
	of, p := s.admitted(r)
	if p != nil {
		p.write(rw, r)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		p := &problem{code: http.StatusServiceUnavailable, text: fmt.Sprintf("too many open pages: the limit is %d", maxStreams),
			hint: "close the page in another tab", retrySecond: 30}
		p.write(rw, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.running, cancel)()
	stream, err := listen.NewStream(rw, s.Heartbeat)
	if err != nil {
		(&problem{code: http.StatusInternalServerError, text: err.Error()}).write(rw, r)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		stream.Compress() // during a turn a phone gets a document each second
	}
	defer stream.Close()
	if stream.Write(": the page\n\n") != nil {
		return
	}
	s.newest.join()
	defer s.newest.leave()
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	var sent uint64
	for {
		d, number, next := s.newest.get()
		if _, p := s.admitted(r); p != nil {
			return // the token has changed, or the session has expired
		}
		if number != sent {
			data, err := json.Marshal(s.complete(d, of))
			if err != nil || stream.Write(fmt.Sprintf("event: document\ndata: %s\n\n", data)) != nil {
				return
			}
			sent = number
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		case <-beat.C:
			if stream.Beat() != nil {
				return
			}
		}
	}
}

// watcher makes the documents of all streams. It works only while a stream is open.
type watcher struct {
	server *Server

	mu      sync.Mutex
	streams int
	stop    context.CancelFunc
	newest  Document
	number  uint64        // of the newest document; 0: none yet
	next    chan struct{} // closed with the next document
}

// join starts the work for the first stream.
func (w *watcher) join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams++; w.streams > 1 {
		return
	}
	ctx, cancel := context.WithCancel(w.server.running)
	w.stop, w.newest, w.number, w.next = cancel, Document{}, 0, make(chan struct{})
	go w.server.Secrets.Guarded(func() { w.run(ctx) })()
}

// leave ends the work after the last stream.
func (w *watcher) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams--; w.streams == 0 {
		w.stop()
	}
}

// get returns the newest document and its number, and a channel that is closed with the next one.
func (w *watcher) get() (Document, uint64, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest, w.number, w.next
}

// run looks for changes until ctx ends, as often as a follower of events.
func (w *watcher) run(ctx context.Context) {
	known := map[*cycle.Agent]*watched{}
	for first := true; ; first = false {
		began := time.Now()
		if d, changed := w.look(known); changed || first {
			w.publish(ctx, d)
		}
		// Many agents must not keep the processor busy.
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(view.FollowEvery, 3*time.Since(began))):
		}
	}
}

// publish passes a document to the streams. After the last stream has left, ctx has ended.
func (w *watcher) publish(ctx context.Context, d Document) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	w.newest, w.number = d, w.number+1
	close(w.next)
	w.next = make(chan struct{})
}

// watched is an agent with the part of the newest document about it.
type watched struct {
	maker Maker
	stamp store.Stamp // of the state that it shows
	made  time.Time
	cost  time.Duration // of making it
	shown Agent
	body  []byte // see essence
}

// look makes the parts of the agents that have changed. It returns the document, and reports whether
// it differs from the last one.
func (w *watcher) look(known map[*cycle.Agent]*watched) (d Document, changed bool) {
	now := w.server.Now()
	agents := w.server.shown()
	for a := range known {
		if !slices.ContainsFunc(agents, func(other listen.Shown) bool { return other.Agent == a }) {
			delete(known, a)
			changed = true
		}
	}
	d = newDocument(now)
	for _, a := range agents {
		part := known[a.Agent]
		if part == nil {
			part = &watched{}
			known[a.Agent] = part
		}
		if part.due(a.Agent, now) {
			changed = part.read(a, now) || changed
		}
		d.Agents = append(d.Agents, part.shown)
	}
	return d, changed
}

// due reports whether the part of an agent may have changed.
func (w *watched) due(a *cycle.Agent, now time.Time) bool {
	since := now.Sub(w.made)
	if since < max(documentEvery, 4*w.cost) {
		return false // a long history must not keep the processor busy
	}
	stamp, err := a.Store.Stamp()
	return err != nil || !stamp.Same(w.stamp) || w.inAttempt() || since >= refreshEvery
}

// inAttempt reports whether an agent works, whose steps and durations change each second.
func (w *watched) inAttempt() bool {
	return w.shown.Turn != nil && w.shown.Status.Turn.Status != state.HeadSuspended
}

// read makes the part of an agent, and reports whether it has changed.
func (w *watched) read(a listen.Shown, now time.Time) (changed bool) {
	began, before := time.Now(), w.body
	w.made = now
	w.stamp, _ = a.Agent.Store.Stamp() // an error is part of the document
	w.shown = w.document(sources([]listen.Shown{a}), now)
	w.body, w.cost = essence(w.shown), time.Since(began)
	return !bytes.Equal(before, w.body)
}

// document returns the newest part. The panic of one agent must not end the daemon of all.
func (w *watched) document(from []Source, now time.Time) (part Agent) {
	defer func() {
		if v := recover(); v != nil {
			a := from[0]
			w.maker = Maker{}
			part = tame(failed(a, fmt.Errorf("internal: %v; please report this", v)), a.Agent.Secrets)
		}
	}()
	return w.maker.Document(from, now).Agents[0]
}

// essence returns the visible part of an agent: without the ends of its bands, which move with the
// time.
func essence(a Agent) []byte {
	for _, b := range []*view.Band{&a.Bands.Day, &a.Bands.Week} {
		b.From, b.To = time.Time{}, time.Time{}
		b.Phases = slices.Clone(b.Phases)
		if n := len(b.Phases); n > 0 {
			b.Phases[0].From, b.Phases[n-1].To = time.Time{}, time.Time{}
		}
	}
	body, err := json.Marshal(a)
	if err != nil {
		return nil
	}
	return body
}
