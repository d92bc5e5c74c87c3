package listen_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/state"
)

func TestPipe(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	path := filepath.Join(t.TempDir(), "pipe")
	h.listen(func(l *listen.Listener) { l.Pipe = path })
	write := func(line string) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		check(t, err)
		_, err = f.WriteString(line)
		check(t, errors.Join(err, f.Close()))
	}
	write("the build is green\n" + strings.Repeat("x", 1<<15) + "\n")
	h.untilPhase(state.PREP)
	write("again\n")
	h.until("three nudges", func(state.State) bool { return h.nudged() == 3 })

	// Another file in its place is an error at the start.
	plain := filepath.Join(t.TempDir(), "plain")
	check(t, os.WriteFile(plain, nil, 0o600))
	l := &listen.Listener{Agents: []*cycle.Agent{newFixture(t).agent}, Pipe: plain, Logf: h.logf}
	if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "not a named pipe") {
		t.Errorf("a plain file as pipe: %v", err)
	}
}

// A file in the place of the pipe is logged. When it is gone, the pipe is created
// again.
func TestPipeReplaced(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	path := filepath.Join(t.TempDir(), "pipe")
	logged := make(chan string, 10)
	h.listen(func(l *listen.Listener) {
		l.Pipe = path
		l.Logf = func(format string, args ...any) { logged <- fmt.Sprintf(format, args...) }
	})
	check(t, os.Remove(path))
	check(t, os.WriteFile(path, nil, 0o600))
	if text := <-logged; !strings.Contains(text, "not a named pipe") {
		t.Errorf("logged %q", text)
	}
	check(t, os.Remove(path))
	for { // until the pipe exists again
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			<-time.After(10 * time.Millisecond)
			continue
		}
		check(t, err)
		_, err = f.WriteString("ring\n")
		check(t, errors.Join(err, f.Close()))
		break
	}
	h.untilPhase(state.PREP)
}
