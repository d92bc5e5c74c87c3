package listen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// maxLine limits a line of the pipe, in bytes.
	maxLine = 4 << 10

	// checkPipeEvery is the time after which a silent pipe is checked for removal.
	checkPipeEvery = time.Second
)

// pipe is the named pipe. Each line is a nudge, and its text is the reason. If the listener
// serves several agents, the first word is the handle.
type pipe struct {
	*Listener
	path string // absolute
	file *os.File

	mu   sync.Mutex // guards info and ours
	info fs.FileInfo
	ours bool // a listener created it
}

// openPipe opens the pipe, and creates it if necessary. A pipe that a killed listener of one of
// agents left is taken over. It returns nil without a configured pipe.
func (l *Listener) openPipe(agents []*servedAgent) (*pipe, error) {
	if l.Pipe == "" {
		return nil, nil
	}
	path, err := filepath.Abs(l.Pipe)
	if err != nil {
		return nil, err
	}
	p := &pipe{Listener: l, path: path}
	for _, a := range agents {
		left, ok := LeftPipe(a.Store)
		switch {
		case ok && left == path:
			p.ours = true
		case ok:
			RemovePipe(left) // this listener has another pipe
		}
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	for _, a := range agents {
		p.record(a)
	}
	return p, nil
}

func (p *pipe) open() error {
	err := syscall.Mkfifo(p.path, 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create pipe %s: %w", p.path, err)
	}
	created := err == nil
	// Open it for writing too: otherwise we read EOF as soon as a writer closes it.
	f, err := os.OpenFile(p.path, os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open pipe: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Type() != fs.ModeNamedPipe {
		err = errors.New("not a named pipe: remove it, or give another path with --pipe")
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("open pipe %s: %w", p.path, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file, p.info, p.ours = f, info, p.ours || created
	return nil
}

// read reads lines until ctx ends. If the pipe was removed, read creates it again. If another
// file has replaced it, read waits for the removal of that file.
func (p *pipe) read(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		if p.file != nil {
			p.lines(ctx)
			p.file.Close()
			p.file = nil
			p.mu.Lock()
			p.ours = p.ours && p.isCurrent()
			p.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		err := p.open()
		if err == nil {
			for _, a := range p.served() {
				p.record(a)
			}
		}
		if err != nil && err.Error() != logged {
			logged = err.Error()
			p.Logf("%s; trying again", logged)
		}
	}
}

// lines reads lines until ctx ends, or the pipe is removed or replaced.
func (p *pipe) lines(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	r := lineReader(p.file)
	inside := false // inside a line that is too long
	for ctx.Err() == nil {
		p.file.SetReadDeadline(time.Now().Add(checkPipeEvery))
		if ctx.Err() != nil {
			return // the line above may have overwritten the deadline of AfterFunc
		}
		line, more, err := r.ReadLine()
		if errors.Is(err, os.ErrDeadlineExceeded) && p.isCurrent() {
			continue
		}
		if err != nil {
			return
		}
		if !inside {
			p.deliver(string(line))
		}
		inside = more
	}
}

// lineReader returns a reader of lines that truncates long ones.
func lineReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, maxLine) }

// isCurrent reports whether the open pipe is still the one at its path.
func (p *pipe) isCurrent() bool {
	now, err := os.Lstat(p.path)
	return err == nil && os.SameFile(now, p.info)
}

func (p *pipe) deliver(line string) {
	line = strings.TrimSpace(line)
	agents := p.served()
	if len(agents) == 0 {
		p.Logf("pipe: this listener serves no agent at the moment")
		return
	}
	to := agents[0]
	if len(agents) > 1 {
		handle, rest, _ := strings.Cut(line, " ")
		if to = p.find(strings.TrimPrefix(handle, "@")); to == nil {
			p.Logf("pipe: the line must begin with the handle of an agent that this listener serves")
			return
		}
		line = rest
	}
	err := to.Ring("pipe", line)
	if standsBy(err) {
		err = to.Store.Ring("pipe", line) // the poll forwards it
	}
	if err != nil {
		p.Logf("@%s: %v", to.Handle, err)
		return
	}
	to.requestPoll()
}
