package listen

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"agentstateloop/state"
)

// eyes watch nudges/ of every agent. Where the system lets us watch no more, or
// nothing at all, the scan looks each second.
type eyes struct {
	listener *Listener
	watcher  *fsnotify.Watcher // nil: there are no eyes
	told     sync.Once

	mu    sync.Mutex
	posts map[string]*post // by the folder watched
}

func (l *Listener) openEyes() *eyes {
	e := &eyes{listener: l, posts: map[string]*post{}}
	var err error
	if e.watcher, err = fsnotify.NewWatcher(); err != nil {
		e.blinded(err)
	}
	return e
}

func (e *eyes) close() {
	if e.watcher != nil {
		e.watcher.Close()
	}
}

func (p *post) nudges() string { return filepath.Clean(p.Store.Path(state.NudgesDir)) }

// open watches an agent's folder, made if it is not there. It may be called
// again, since the folder may have been removed and made anew.
func (e *eyes) open(p *post) error {
	if e.watcher == nil {
		return fsnotify.ErrClosed
	}
	e.mu.Lock()
	e.posts[p.nudges()] = p
	e.mu.Unlock()
	err := os.MkdirAll(p.nudges(), 0o700)
	if err == nil {
		err = e.watcher.Add(p.nudges())
	}
	if err != nil {
		e.blinded(err)
	}
	return err
}

// drop watches an agent's folder no more.
func (e *eyes) drop(p *post) {
	if e.watcher == nil {
		return
	}
	e.mu.Lock()
	delete(e.posts, p.nudges())
	e.mu.Unlock()
	_ = e.watcher.Remove(p.nudges()) // one that is gone is not watched any more
}

// of gives the agent whose folder this is; nil if it is nobody's.
func (e *eyes) of(folder string) *post {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.posts[folder]
}

func (e *eyes) blinded(err error) {
	e.told.Do(func() {
		e.listener.Tell("cannot watch nudges/ (%v): looking each second instead; see fs.inotify in sysctl(8)", err)
	})
}

// watch wakes for what appears.
func (e *eyes) watch(ctx context.Context) {
	if e.watcher == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.watcher.Events:
			e.seen(event)
		case <-e.watcher.Errors: // more came than the kernel keeps
			for _, p := range e.listener.served() {
				p.check()
			}
		}
	}
}

func (e *eyes) seen(event fsnotify.Event) {
	if p := e.of(event.Name); p != nil { // the folder itself is gone
		e.open(p)
		p.check()
		return
	}
	name := filepath.Base(event.Name)
	if !event.Has(fsnotify.Create|fsnotify.Write) || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") {
		return
	}
	if p := e.of(filepath.Dir(event.Name)); p != nil {
		p.check()
	}
}
