package listen_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentstateloop/cycle/listen"
)

// The next listener takes over the pipe of a killed one, and removes it at its end. If it has
// another pipe, it removes the old one, unless another listener reads that.
func TestPipeOfKilledListener(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{"the same path": "pipe", "another path": "other", "no pipe": ""} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			dir := t.TempDir()
			path := filepath.Join(dir, "pipe")
			stop := h.listen(func(l *listen.Listener) { l.Pipe = path })
			record, err := os.ReadFile(h.agent.Store.Path("listen.pipe"))
			check(t, err)
			check(t, os.Link(path, path+".saved")) // keeps its inode, as a kill does
			stop()
			check(t, os.Rename(path+".saved", path))
			var r struct {
				Changed int64 `json:"changed"`
			}
			check(t, json.Unmarshal(record, &r))
			var now syscall.Stat_t
			check(t, syscall.Stat(path, &now))
			text := strings.Replace(string(record), fmt.Sprint(r.Changed), fmt.Sprint(syscall.TimespecToNsec(now.Ctim)), 1)
			check(t, os.WriteFile(h.agent.Store.Path("listen.pipe"), []byte(text), 0o600))
			if left, ok := listen.LeftPipe(h.agent.Store); !ok || left != path {
				t.Fatalf("the pipe of a killed listener is not recognised: %q, %v", left, ok)
			}
			if next == "" {
				return
			}
			h.listen(func(l *listen.Listener) { l.Pipe = filepath.Join(dir, next) })()
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("%v stay, %v", entries, err)
			}
		})
	}

	path := filepath.Join(t.TempDir(), "pipe")
	check(t, syscall.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	defer reader.Close()
	if removed, err := listen.RemovePipe(path); removed || err != nil {
		t.Errorf("a pipe with a reader: removed %v, %v", removed, err)
	}
}
