package listen

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"agentstateloop/state/store"
)

// nudgeWatcher watch nudges/ of every agent. Where the system lets us watch no more, or
// nothing at all, the scan looks each second.
type nudgeWatcher struct {
	listener *Listener
	watcher  *fsnotify.Watcher // nil: there are no eyes
	warned   sync.Once

	mu     sync.Mutex
	agents map[string]*servedAgent // by the folder watched
}

func (l *Listener) newNudgeWatcher() *nudgeWatcher {
	e := &nudgeWatcher{listener: l, agents: map[string]*servedAgent{}}
	var err error
	if e.watcher, err = fsnotify.NewWatcher(); err != nil {
		e.warn(err)
	}
	return e
}

func (e *nudgeWatcher) close() {
	if e.watcher != nil {
		e.watcher.Close()
	}
}

func (p *servedAgent) nudges() string { return filepath.Clean(p.Store.Path(store.NudgesDir)) }

// add watches an agent's folder, made if it is not there. It may be called
// again, since the folder may have been removed and made anew.
func (e *nudgeWatcher) add(p *servedAgent) error {
	if e.watcher == nil {
		return fsnotify.ErrClosed
	}
	e.mu.Lock()
	e.agents[p.nudges()] = p
	e.mu.Unlock()
	err := os.MkdirAll(p.nudges(), 0o700)
	if err == nil {
		err = e.watcher.Add(p.nudges())
	}
	if err != nil {
		e.warn(err)
	}
	return err
}

// remove watches an agent's folder no more.
func (e *nudgeWatcher) remove(p *servedAgent) {
	if e.watcher == nil {
		return
	}
	e.mu.Lock()
	delete(e.agents, p.nudges())
	e.mu.Unlock()
	_ = e.watcher.Remove(p.nudges()) // one that is gone is not watched any more
}

// agentOf gives the agent whose folder this is; nil if it is nobody's.
func (e *nudgeWatcher) agentOf(folder string) *servedAgent {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.agents[folder]
}

func (e *nudgeWatcher) warn(err error) {
	e.warned.Do(func() {
		e.listener.Logf("cannot watch nudges/ (%v): looking each second instead; see fs.inotify in sysctl(8)", err)
	})
}

// watch wakes for what appears.
func (e *nudgeWatcher) watch(ctx context.Context) {
	if e.watcher == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.watcher.Events:
			e.handle(event)
		case <-e.watcher.Errors: // more came than the kernel keeps
			for _, p := range e.listener.served() {
				p.check()
			}
		}
	}
}

func (e *nudgeWatcher) handle(event fsnotify.Event) {
	if p := e.agentOf(event.Name); p != nil { // the folder itself is gone
		e.add(p)
		p.check()
		return
	}
	name := filepath.Base(event.Name)
	if !event.Has(fsnotify.Create|fsnotify.Write) || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") {
		return
	}
	if p := e.agentOf(filepath.Dir(event.Name)); p != nil {
		p.check()
	}
}
