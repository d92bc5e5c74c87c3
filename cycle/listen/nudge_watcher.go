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

// nudgeWatcher watches the folder nudges/ of every agent. If the system cannot watch a folder,
// scan checks it each second.
type nudgeWatcher struct {
	listener *Listener
	watcher  *fsnotify.Watcher // nil if the system cannot watch folders
	warned   sync.Once

	mu     sync.Mutex
	agents map[string]*servedAgent // by the watched folder
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

// add watches an agent's folder, and creates it if necessary. It may be called again after the
// folder was removed.
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

// remove stops watching an agent's folder.
func (e *nudgeWatcher) remove(p *servedAgent) {
	if e.watcher == nil {
		return
	}
	e.mu.Lock()
	delete(e.agents, p.nudges())
	e.mu.Unlock()
	_ = e.watcher.Remove(p.nudges()) // fails for a removed folder, which is not watched anyway
}

// agentOf returns the agent that owns folder, or nil.
func (e *nudgeWatcher) agentOf(folder string) *servedAgent {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.agents[folder]
}

func (e *nudgeWatcher) warn(err error) {
	e.warned.Do(func() {
		e.listener.Logf("cannot watch nudges/ (%v); checking it every second instead: see fs.inotify in sysctl(8)", err)
	})
}

// watch requests a poll when a file appears in an agent's folder.
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
		case <-e.watcher.Errors: // the kernel dropped events
			for _, p := range e.listener.served() {
				p.check()
			}
		}
	}
}

func (e *nudgeWatcher) handle(event fsnotify.Event) {
	if p := e.agentOf(event.Name); p != nil { // the folder itself was removed
		e.add(p)
		p.check()
		return
	}
	name := filepath.Base(event.Name)
	if name == store.RemovalMark {
		signal(e.listener.removal)
		return
	}
	if !event.Has(fsnotify.Create|fsnotify.Write) || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") {
		return
	}
	if p := e.agentOf(filepath.Dir(event.Name)); p != nil {
		p.check()
	}
}
