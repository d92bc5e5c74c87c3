package commands

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
)

// TestWatchRestoresTheTerminal checks that the terminal has its cursor and its text
// back, however the watch ends.
func TestWatchRestoresTheTerminal(t *testing.T) {
	at := func(n int) func() int { return func() int { return n } }
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		want   error
		panics bool
	}{
		"an interrupt": {},
		"a panic":      {panics: true},
		"an error":     {want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out strings.Builder
			o := &terminal.Output{Stdout: &out, Columns: at(80), Rows: at(24)}
			screen, _ := o.Screen("xterm")
			n := 0
			w := watch{unread: func() bool { return false }, status: func() (view.Status, error) {
				switch n++; {
				case n == 1:
				case c.panics:
					panic("in the middle")
				case c.want != nil:
					return view.Status{}, c.want
				default:
					cancel()
				}
				return view.Status{}, nil
			}}
			func() {
				defer func() {
					if v := recover(); (v != nil) != c.panics {
						t.Errorf("panic: %v", v)
					}
				}()
				if err := w.onScreen(ctx, screen, func(view.Status) string { return "status" }); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
			}()
			if text := out.String(); !strings.Contains(text, "status") || !strings.HasSuffix(text, "\x1b[?7h\x1b[?25h\x1b[?1049l") || strings.Count(text, "\x1b[?1049h") != 1 {
				t.Errorf("written: %q", text)
			}
		})
	}
}
