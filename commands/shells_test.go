package commands

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCompletionInShells types at real shells on a real terminal, and presses the
// tabulator key.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	needPrograms(t, "tmux", "bash", "zsh", "fish")
	dir := t.TempDir()
	buildProgram(t, dir)
	home := filepath.Join(dir, "home")
	conf := filepath.Join(home, ".config", "agentstateloop")
	if err := os.MkdirAll(conf, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "agent.toml"), []byte(smallConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for shell, words := range map[string]struct{ start, load string }{
		"bash": {"bash --norc --noprofile -i", "source <(agentstateloop completion bash)"},
		"zsh":  {"zsh -f -i", "autoload -U compinit; compinit -u -D; source <(agentstateloop completion zsh)"},
		"fish": {"fish --no-config -i", "agentstateloop completion fish | source"},
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			screen := newScreen(t, 100, 30, []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "AGENTSTATELOOP_CONFIG=", "PATH=" + dir + ":" + os.Getenv("PATH"), "PS1=> ", "LC_ALL=C.UTF-8"}, words.start)
			screen.keys(words.load, "Enter")
			screen.keys("echo rea''dy", "Enter")
			screen.wait("ready")
			for _, c := range []struct{ typed, want string }{
				{"agentstateloop transi", "agentstateloop transition "},
				{"agentstateloop @gou", "agentstateloop @goulard3120 "},
				{"agentstateloop @goulard3120 prompt --layer res", "prompt --layer reset "},
				{"agentstateloop nudge --wait=tur", "nudge --wait=turned "},
				{"agentstateloop -a gou", "agentstateloop -a goulard3120 "},
			} {
				screen.keys(c.typed, "Tab")
				screen.keys("XX") // shows the blank that the shell adds
				screen.wait(c.want + "XX")
				screen.keys("", "C-u")
			}
		})
	}
}

// screen is a terminal of tmux, with a server of its own.
type screen struct {
	t      *testing.T
	socket string
}

// newScreen starts a command on a terminal of that size, with nothing in its environment
// but environ. The terminal ends with the test.
func newScreen(t *testing.T, columns, lines int, environ []string, command string) *screen {
	t.Helper()
	s := &screen{t, filepath.Join(t.TempDir(), "tmux")}
	env := append([]string{"-i", "TERM=tmux-256color", "SHELL=/bin/sh"}, environ...)
	args := append([]string{"tmux", "-S", s.socket, "-f", os.DevNull, "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(lines)}, command)
	out, err := exec.Command("env", append(env, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("start tmux: %v: %s", err, out)
	}
	t.Cleanup(func() { endTmux(t, s.command) })
	return s
}

func (s *screen) command(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-S", s.socket}, args...)...)
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.t.Errorf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// keys types text, and presses the keys of these names.
func (s *screen) keys(text string, keys ...string) {
	s.t.Helper()
	if text != "" {
		s.tmux("send-keys", "-l", text)
	}
	if len(keys) > 0 {
		s.tmux(append([]string{"send-keys"}, keys...)...)
	}
}

// wait waits until the terminal shows text.
func (s *screen) wait(text string) {
	s.t.Helper()
	captured := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) { // tmux does not report what a program writes
		if captured = s.tmux("capture-pane", "-p"); strings.Contains(captured, text) {
			return
		}
	}
	s.t.Fatalf("the terminal does not show %q:\n%s", text, captured)
}
