package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/emersion/go-imap/v2/imapclient"
)

const (
	// idleFor is how long one IDLE lasts: RFC 2177 asks for less than 29
	// minutes, Gmail and many a NAT forget a connection at 10.
	idleFor = 8*time.Minute + 30*time.Second

	// askEvery is how often a server without IDLE is asked.
	askEvery = 20 * time.Second
)

// Watch is a session that can also be told of new mail as it comes (IDLE, RFC
// 2177). It serves one goroutine, and holds one connection.
type Watch struct {
	*Session
	news chan struct{} // holds one: the mailbox has grown since it was last asked
	mute bool          // the server knows no IDLE
}

// Watch opens the mailbox as Open does, with the same errors.
func (b Box) Watch(ctx context.Context) (*Watch, error) {
	w := &Watch{news: make(chan struct{}, 1)}
	var err error
	if w.Session, err = b.open(ctx, w.options(), nil); err != nil {
		return nil, fmt.Errorf("watch mailbox %s at %s: %w", b.mailbox(), b.Addr, because(ctx, err))
	}
	return w, nil
}

// UIDNext is the UID that the next mail will have had when the mailbox was
// opened; 0 if the server did not say.
func (w *Watch) UIDNext() uint32 { return w.next }

// Wait returns nil when mail has come since the mailbox was opened, or since
// the last Wait; a word too many costs a look. With an error, that of ctx or of
// the connection, the watch is of no further use.
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
		if w.mute {
			err = w.ask(ctx)
		} else {
			err = w.idle(ctx)
		}
		if err != nil {
			return fmt.Errorf("watch mailbox %s: %w", w.box.mailbox(), because(ctx, err))
		}
	}
}

// idle is one IDLE, which ends with news or after idleFor.
func (w *Watch) idle(ctx context.Context) error {
	w.box.phase(w.conn)
	idle, err := w.client.Idle()
	if err != nil && refused(err) {
		w.mute = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	// A connection that is dead without a word is found out when it is time to
	// end the IDLE.
	w.conn.SetDeadline(time.Now().Add(idleFor + w.box.timeout()))
	w.sleep(ctx, idleFor)
	w.box.phase(w.conn)
	if err := errors.Join(idle.Close(), idle.Wait()); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	return nil
}

// ask waits askEvery and lets the server say what is new.
func (w *Watch) ask(ctx context.Context) error {
	w.conn.SetDeadline(time.Now().Add(askEvery + w.box.timeout()))
	w.sleep(ctx, askEvery)
	w.box.phase(w.conn)
	if err := w.client.Noop().Wait(); err != nil {
		return fmt.Errorf("noop: %w", err)
	}
	return nil
}

// sleep waits for d, for news, which it leaves where they are, or for the end
// of ctx or of the connection.
func (w *Watch) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.client.Closed():
	case <-w.news:
		w.tell()
	}
}

// tell notes that there are news.
func (w *Watch) tell() {
	select {
	case w.news <- struct{}{}:
	default: // noted already
	}
}

// options let us hear of a mailbox that has grown.
func (w *Watch) options() *imapclient.Options {
	return &imapclient.Options{UnilateralDataHandler: &imapclient.UnilateralDataHandler{
		Mailbox: func(data *imapclient.UnilateralDataMailbox) {
			if data.NumMessages != nil {
				w.tell()
			}
		},
	}}
}
