package commands

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCompletionInShells types commands in real shells on a real terminal, and presses the tabulator
// key.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	needPrograms(t, "tmux", "bash", "zsh", "fish")
	dir := t.TempDir()
	buildProgram(t, dir)
	home := filepath.Join(dir, "home")
	writeFile(t, filepath.Join(home, ".config", "agentstateloop", "agent.toml"), smallConfig)
	for shell, words := range map[string]struct{ start, load string }{
		"bash": {"bash --norc --noprofile -i", "source <(agentstateloop completion bash)"},
		"zsh":  {"zsh -f -i", "autoload -U compinit; compinit -u -D; source <(agentstateloop completion zsh)"},
		"fish": {"fish --no-config -i", "agentstateloop completion fish | source"},
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			w := startTmux(t, 100, 30, []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "AGENTSTATELOOP_CONFIG=",
				"PATH=" + dir + ":" + os.Getenv("PATH"), "PS1=> ", "LC_ALL=C.UTF-8", "TERM=tmux-256color", "SHELL=/bin/sh"})
			window := w.window(words.start)
			w.keys(window, words.load, "Enter")
			w.keys(window, "echo rea''dy", "Enter")
			w.wait(window, "ready")
			for _, c := range []struct{ typed, want string }{
				{"agentstateloop transi", "agentstateloop transition "},
				{"agentstateloop @gou", "agentstateloop @goulard3120 "},
				{"agentstateloop @goulard3120 prompt --layer res", "prompt --layer reset "},
				{"agentstateloop nudge --wait=tur", "nudge --wait=turned "},
				{"agentstateloop -a gou", "agentstateloop -a goulard3120 "},
			} {
				w.keys(window, c.typed, "Tab")
				w.keys(window, "XX") // shows the blank that the shell adds
				w.wait(window, c.want+"XX")
				w.keys(window, "", "C-u")
			}
		})
	}
}
