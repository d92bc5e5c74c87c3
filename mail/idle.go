package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/emersion/go-imap/v2/imapclient"
)

const (
	// idleFor is the duration of one IDLE. RFC 2177 asks for less than 29
	// minutes; Gmail and many NATs drop a connection after 10.
	idleFor = 8*time.Minute + 30*time.Second

	// noopEvery is the interval at which a server without IDLE is polled.
	noopEvery = 20 * time.Second
)

// Watch is a session that also waits for new mail (IDLE, RFC 2177). Only one
// goroutine may use it, and it holds one connection.
type Watch struct {
	*Session
	news   chan struct{} // holds one value if the mailbox has grown since the last Wait
	noIdle bool          // the server has refused IDLE
}

// Watch opens the mailbox as Open does, with the same errors.
func (m Mailbox) Watch(ctx context.Context) (*Watch, error) {
	w := &Watch{news: make(chan struct{}, 1)}
	var err error
	if w.Session, err = m.open(ctx, w.options(), nil); err != nil {
		return nil, fmt.Errorf("watch mailbox %s at %s: %w", m.name(), m.Addr, cause(ctx, err))
	}
	return w, nil
}

// UIDNext returns the UIDNEXT of the mailbox when it was opened, or 0 if the
// server did not send it.
func (w *Watch) UIDNext() uint32 { return w.uidNext }

// Wait returns nil when mail has come since the mailbox was opened, or since the last Wait. It
// may return too often, which costs a scan. After an error, which is that of ctx or of the
// connection, the watch cannot be used any more.
func (w *Watch) Wait(ctx context.Context) error {
	stop := closeOnDone(ctx, w.conn)
	defer stop()
	for {
		select {
		case <-w.news:
			return nil
		default:
		}
		var err error
		if w.noIdle {
			err = w.noop(ctx)
		} else {
			err = w.idle(ctx)
		}
		if err != nil {
			return fmt.Errorf("watch mailbox %s: %w", w.mailbox.name(), cause(ctx, err))
		}
	}
}

// idle runs one IDLE, which ends with news or after idleFor.
func (w *Watch) idle(ctx context.Context) error {
	w.mailbox.startPhase(w.conn)
	idle, err := w.client.Idle()
	if err != nil && serverRefused(err) {
		w.noIdle = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	// The deadline detects a connection that died unnoticed, once the IDLE is due to end.
	w.conn.SetDeadline(time.Now().Add(idleFor + w.mailbox.timeout()))
	w.sleep(ctx, idleFor)
	w.mailbox.startPhase(w.conn)
	if err := errors.Join(idle.Close(), idle.Wait()); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	return nil
}

// noop waits noopEvery and then sends NOOP. The server reports news along with its answer.
func (w *Watch) noop(ctx context.Context) error {
	w.conn.SetDeadline(time.Now().Add(noopEvery + w.mailbox.timeout()))
	w.sleep(ctx, noopEvery)
	w.mailbox.startPhase(w.conn)
	if err := w.client.Noop().Wait(); err != nil {
		return fmt.Errorf("noop: %w", err)
	}
	return nil
}

// sleep waits for d, for news, or for the end of ctx or of the connection. It
// leaves the news for Wait.
func (w *Watch) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.client.Closed():
	case <-w.news:
		w.notify()
	}
}

// notify records that something changed, for Wait.
func (w *Watch) notify() {
	select {
	case w.news <- struct{}{}:
	default: // noted already
	}
}

// options makes the library call notify when the mailbox grows.
func (w *Watch) options() *imapclient.Options {
	return &imapclient.Options{UnilateralDataHandler: &imapclient.UnilateralDataHandler{
		Mailbox: func(data *imapclient.UnilateralDataMailbox) {
			if data.NumMessages != nil {
				w.notify()
			}
		},
	}}
}
