package listen

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"agentstateloop/state/store"
)

// pipeFile is a file in the state directory of each agent that the listener serves. It exists
// while there is a pipe that a listener created. So the next listener recognises the pipe of a
// killed one, and `uninstall` finds it. A pipe that the user made has no record, and stays.
const pipeFile = "listen.pipe"

// maxPipeRecord limits a pipeFile, in bytes.
const maxPipeRecord = 64 << 10

// pipeRecord is the content of a pipeFile. Changed, in nanoseconds, tells the pipe from a later
// one with the same inode: its owner, mode and name have not changed since.
type pipeRecord struct {
	Path    string `json:"path"`
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed"`
}

// recordOf returns the record of the pipe at path.
func recordOf(path string, info fs.FileInfo) (r pipeRecord, ok bool) {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != fs.ModeNamedPipe {
		return r, false
	}
	return pipeRecord{path, uint64(sys.Dev), uint64(sys.Ino), changed(sys)}, true
}

// record records in the state directory of p that the pipe is ours. A failure only means that a
// listener after a kill does not remove the pipe.
func (p *pipe) record(a *servedAgent) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ours {
		return
	}
	if r, ok := recordOf(p.path, p.info); ok {
		text, _ := json.Marshal(r) // strings and numbers cannot fail
		_ = a.Store.Keep(pipeFile, strings.NewReader(string(text)+"\n"))
	}
}

// forget removes the record of an agent that is served no longer.
func (p *pipe) forget(a *servedAgent) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ours {
		_ = a.Store.Remove(pipeFile)
	}
}

// remove closes the pipe at the end of Run, and removes it unless the user made it or has replaced
// it.
func (p *pipe) remove() {
	if p == nil {
		return
	}
	if p.file != nil {
		p.file.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ours && p.isCurrent() {
		_ = os.Remove(p.path)
	}
}

// LeftPipe returns the path of the pipe that a listener of the agent has created. ok is false if
// there is none, or another file has taken its place.
func LeftPipe(st *store.Store) (path string, ok bool) {
	text, err := st.ReadFile(pipeFile, maxPipeRecord)
	var r pipeRecord
	if err != nil || json.Unmarshal(text, &r) != nil {
		return "", false
	}
	info, err := os.Lstat(r.Path)
	if err != nil {
		return "", false
	}
	now, ok := recordOf(r.Path, info)
	return r.Path, ok && now == r
}

// RemovePipe removes a pipe that no listener reads. removed is false if one does: it serves other
// agents, too.
func RemovePipe(path string) (removed bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err == nil {
		return false, f.Close()
	}
	if !errors.Is(err, syscall.ENXIO) {
		return false, err
	}
	return true, os.Remove(path)
}
