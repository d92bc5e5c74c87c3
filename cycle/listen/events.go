package listen

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"agentstateloop/cycle/view"
)

const (
	// maxFollowers limits the followers that a listener serves at once.
	maxFollowers = 16

	// defaultHeartbeat is the default of Listener.Heartbeat.
	defaultHeartbeat = 15 * time.Second

	// followerPatience limits the time that a follower takes to read an event.
	followerPatience = 10 * time.Second
)

// events serves the events of one of our agents as server-sent events, until the follower
// disconnects or the listener stops. It begins after the event named in Last-Event-ID, or now.
func (w *webServer) events(rw http.ResponseWriter, r *http.Request) {
	p := w.admitted(rw, r, "GET /events/HANDLE")
	if p == nil {
		return
	}
	select {
	case w.followers <- struct{}{}:
		defer func() { <-w.followers }()
	default:
		rw.Header().Set("Retry-After", "30")
		refuse(rw, http.StatusServiceUnavailable, fmt.Sprintf("too many followers: the limit is %d", maxFollowers))
		return
	}
	events, err := p.View().EventsFromNow()
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		var after view.Cursor
		if after, err = view.ParseCursor(last); err != nil {
			refuse(rw, http.StatusBadRequest, "Last-Event-ID: "+err.Error())
			return
		}
		events = p.View().Events(after)
	}
	if err != nil {
		refuse(rw, http.StatusInternalServerError, err.Error())
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(w.running, cancel)()
	stream, err := NewStream(rw, w.Heartbeat)
	if err != nil {
		refuse(rw, http.StatusInternalServerError, err.Error())
		return
	}
	if stream.Write(": events of @"+p.Handle+"\n\n") != nil {
		return
	}
	err = events.Follow(ctx, stream.send)
	if err != nil && !errors.Is(err, errFollowerGone) {
		w.Logf("@%s: events: %v", p.Handle, err)
	}
}

// errFollowerGone means that a follower has disconnected, or reads too slowly.
var errFollowerGone = errors.New("the follower has disconnected")

// Stream is a connection that receives server-sent events.
type Stream struct {
	rw         http.ResponseWriter
	connection *http.ResponseController
	heartbeat  time.Duration
	patience   time.Duration
	wrote      time.Time
	zip        *gzip.Writer // nil: not compressed
}

// NewStream begins a stream as the answer to a request. If heartbeat is 0, it is that of a
// Listener.
func NewStream(rw http.ResponseWriter, heartbeat time.Duration) (*Stream, error) {
	s := newStream(rw, heartbeat)
	// The server's read timeout is for requests. Without it, reading on shows that the follower
	// has disconnected.
	if err := s.connection.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.New("this connection cannot stream events")
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("X-Accel-Buffering", "no") // a proxy must pass each event on at once
	return s, nil
}

func newStream(rw http.ResponseWriter, heartbeat time.Duration) *Stream {
	return &Stream{rw: rw, connection: http.NewResponseController(rw), heartbeat: cmp.Or(heartbeat, defaultHeartbeat), patience: followerPatience}
}

// Compress compresses the stream, before its first text. Close ends a compressed stream.
func (s *Stream) Compress() {
	s.rw.Header().Set("Content-Encoding", "gzip")
	s.zip = gzip.NewWriter(s.rw)
}

// Close ends the stream.
func (s *Stream) Close() {
	if s.zip != nil {
		_ = s.zip.Close() // a failure means that the follower has disconnected
	}
}

// send sends events, or a heartbeat.
func (s *Stream) send(events []view.LiveEvent) error {
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if err := s.Write(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Event, data)); err != nil {
			return err
		}
	}
	return s.Beat()
}

// Beat sends a heartbeat if the last write is too long ago.
func (s *Stream) Beat() error {
	if time.Since(s.wrote) < s.heartbeat {
		return nil
	}
	return s.Write(": still here\n\n")
}

func (s *Stream) writeText(text string) error {
	if s.zip == nil {
		_, err := io.WriteString(s.rw, text)
		return err
	}
	if _, err := io.WriteString(s.zip, text); err != nil {
		return err
	}
	return s.zip.Flush()
}

// Write writes text at once. It fails if the follower has disconnected, or does not read the text
// in time.
func (s *Stream) Write(text string) error {
	s.wrote = time.Now()
	if s.connection.SetWriteDeadline(s.wrote.Add(s.patience)) != nil {
		return errFollowerGone
	}
	if s.writeText(text) != nil || s.connection.Flush() != nil {
		return errFollowerGone
	}
	return nil
}
