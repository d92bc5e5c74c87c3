package commands

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
)

// watchEvery is the interval at which status --watch reads the status.
const watchEvery = time.Second

// watch shows the status of an agent until ctx ends. That is not an error.
type watch struct {
	status func() (view.Status, error)
	unread func() bool // reports whether the reader of the output has gone
}

// onChange shows the status, and again at each change. The passing of time is not a change.
func (w watch) onChange(ctx context.Context, show func(view.Status) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	shown := ""
	for !w.unread() {
		s, err := w.status()
		if err != nil {
			return err
		}
		now, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if string(now) != shown {
			if err := show(s); err != nil {
				return err
			}
			shown = string(now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// onScreen shows the status in one place. It updates the distances to now, and redraws at once
// when the size of the terminal changes. It always restores the terminal at its end, even after
// a panic.
func (w watch) onScreen(ctx context.Context, screen *terminal.Screen, text func(view.Status) string) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGHUP, unix.SIGQUIT)
	defer stop()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGTSTP)
	defer signal.Stop(signals)
	defer screen.Close()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for !w.unread() {
		s, err := w.status()
		if err != nil {
			return err
		}
		if err := screen.Show(text(s)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case got := <-signals:
			if got == unix.SIGTSTP {
				screen.Close()
				suspend(ctx)
			}
		}
	}
	return nil
}

// suspend stops this process, as Ctrl-Z does, until it is continued.
func suspend(ctx context.Context) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(unix.Getpid(), unix.SIGSTOP) != nil {
		return
	}
	select { // other threads may still run for a moment
	case <-continued:
	case <-ctx.Done():
	}
}
