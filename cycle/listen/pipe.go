package listen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// maxLine is how much of a line of the pipe is taken, in bytes.
	maxLine = 4 << 10

	// checkPipeEvery is how often a silent pipe is held against its name.
	checkPipeEvery = time.Second
)

// pipe is the named pipe: each line nudges, its text is the reason; where
// several agents are served, its first word says whom.
type pipe struct {
	*Listener
	file *os.File
	info fs.FileInfo
}

// openPipe makes the pipe, if it is not there, and opens it; nil if there is to
// be none.
func (l *Listener) openPipe() (*pipe, error) {
	if l.Pipe == "" {
		return nil, nil
	}
	p := &pipe{Listener: l}
	return p, p.open()
}

func (p *pipe) open() error {
	if err := syscall.Mkfifo(p.Pipe, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make pipe %s: %w", p.Pipe, err)
	}
	// Open for writing as well, or each writer that goes would be its end.
	f, err := os.OpenFile(p.Pipe, os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open pipe: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Type() != fs.ModeNamedPipe {
		err = errors.New("it is no named pipe: remove it, or name another with --pipe")
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("open pipe %s: %w", p.Pipe, err)
	}
	p.file, p.info = f, info
	return nil
}

// read takes lines until ctx ends. A pipe that was removed is made anew; one in
// whose place something else lies is waited for.
func (p *pipe) read(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		if p.file != nil {
			p.lines(ctx)
			p.file.Close()
			p.file = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		err := p.open()
		if err != nil && err.Error() != logged {
			logged = err.Error()
			p.Logf("%s; trying again", logged)
		}
	}
}

// lines takes lines until ctx ends, or the pipe is not the one of that name any
// more.
func (p *pipe) lines(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	r := bufio.NewReaderSize(p.file, maxLine)
	inside := false // of a line that is longer
	for ctx.Err() == nil {
		p.file.SetReadDeadline(time.Now().Add(checkPipeEvery))
		if ctx.Err() != nil {
			return // its own deadline may be the one just moved
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

// isCurrent says whether the pipe is still the one of that name.
func (p *pipe) isCurrent() bool {
	now, err := os.Lstat(p.Pipe)
	return err == nil && os.SameFile(now, p.info)
}

func (p *pipe) deliver(line string) {
	line = strings.TrimSpace(line)
	agents := p.served()
	if len(agents) == 0 {
		p.Logf("pipe: no agent is served here at the moment")
		return
	}
	to := agents[0]
	if len(agents) > 1 {
		handle, rest, _ := strings.Cut(line, " ")
		if to = p.find(strings.TrimPrefix(handle, "@")); to == nil {
			p.Logf("pipe: the line begins with no agent that is served here")
			return
		}
		line = rest
	}
	if err := to.Ring("pipe", line); err != nil {
		p.Logf("@%s: %v", to.Handle, err)
		return
	}
	to.wake()
}
