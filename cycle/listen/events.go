package listen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"agentstateloop/cycle/view"
)

const (
	// maxFollowers limits the followers that a listener serves at once.
	maxFollowers = 16

	// heartbeat is the default of Listener.Heartbeat.
	heartbeat = 15 * time.Second

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
	follower := w.follower(rw)
	// The server's read timeout is for requests. Without it, reading on shows that the follower
	// has disconnected.
	if err := follower.connection.SetReadDeadline(time.Time{}); err != nil {
		refuse(rw, http.StatusInternalServerError, "this connection cannot stream events")
		return
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	if follower.write(": events of @"+p.Handle+"\n\n") != nil {
		return
	}
	err = events.Follow(ctx, follower.send)
	if err != nil && !errors.Is(err, errFollowerGone) {
		w.Logf("@%s: events: %v", p.Handle, err)
	}
}

// errFollowerGone means that a follower has disconnected, or reads too slowly.
var errFollowerGone = errors.New("the follower has disconnected")

// follower is one connection that receives events.
type follower struct {
	rw         http.ResponseWriter
	connection *http.ResponseController
	heartbeat  time.Duration
	patience   time.Duration
	wrote      time.Time
}

// follower returns the follower at the other end of a connection.
func (w *webServer) follower(rw http.ResponseWriter) *follower {
	return &follower{rw: rw, connection: http.NewResponseController(rw), heartbeat: cmp.Or(w.Heartbeat, heartbeat), patience: followerPatience}
}

// send sends events, or a heartbeat if the last write is too long ago.
func (f *follower) send(events []view.LiveEvent) error {
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if err := f.write(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Event, data)); err != nil {
			return err
		}
	}
	if time.Since(f.wrote) < f.heartbeat {
		return nil
	}
	return f.write(": still here\n\n")
}

// write writes text at once. It fails with errFollowerGone if the follower does not read it in
// time.
func (f *follower) write(text string) error {
	f.wrote = time.Now()
	if f.connection.SetWriteDeadline(f.wrote.Add(f.patience)) != nil {
		return errFollowerGone
	}
	if _, err := f.rw.Write([]byte(text)); err != nil {
		return errFollowerGone
	}
	if f.connection.Flush() != nil {
		return errFollowerGone
	}
	return nil
}
