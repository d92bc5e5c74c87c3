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
	// longestLine is how much of a line of the pipe is taken, in bytes.
	longestLine = 4 << 10

	// standsEvery is how often a silent pipe is held against its name.
	standsEvery = time.Second
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
	told := ""
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
		if err != nil && err.Error() != told {
			told = err.Error()
			p.Tell("%s; trying again", told)
		}
	}
}

// lines takes lines until ctx ends, or the pipe is not the one of that name any
// more.
func (p *pipe) lines(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	r := bufio.NewReaderSize(p.file, longestLine)
	inside := false // of a line that is longer
	for ctx.Err() == nil {
		p.file.SetReadDeadline(time.Now().Add(standsEvery))
		if ctx.Err() != nil {
			return // its own deadline may be the one just moved
		}
		line, more, err := r.ReadLine()
		if errors.Is(err, os.ErrDeadlineExceeded) && p.stands() {
			continue
		}
		if err != nil {
			return
		}
		if !inside {
			p.take(string(line))
		}
		inside = more
	}
}

// stands says whether the pipe is still the one of that name.
func (p *pipe) stands() bool {
	now, err := os.Lstat(p.Pipe)
	return err == nil && os.SameFile(now, p.info)
}

func (p *pipe) take(line string) {
	line = strings.TrimSpace(line)
	posts := p.served()
	if len(posts) == 0 {
		p.Tell("pipe: no agent is served here at the moment")
		return
	}
	to := posts[0]
	if len(posts) > 1 {
		handle, rest, _ := strings.Cut(line, " ")
		if to = p.find(strings.TrimPrefix(handle, "@")); to == nil {
			p.Tell("pipe: the line begins with no agent that is served here")
			return
		}
		line = rest
	}
	if err := to.Ring("pipe", line); err != nil {
		p.Tell("@%s: %v", to.Handle, err)
		return
	}
	to.wake()
}
