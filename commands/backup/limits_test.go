package backup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentstateloop/commands/config"
	"agentstateloop/cycle/archive"
	"agentstateloop/cycle/prompt"
	"agentstateloop/internal/testkit/limittest"
)

// TestLimits checks how large a file that a configuration names may be, and how many files of a
// folder are taken.
func TestLimits(t *testing.T) {
	collect := func(t *testing.T) *collection {
		t.Helper()
		out, err := archive.NewWriter(new(bytes.Buffer), archive.Header{})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		return &collection{out: out, naming: naming{home: dir, config: dir}}
	}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxNamed", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			c := collect(t)
			file := filepath.Join(c.naming.home, "prompt")
			if err := os.WriteFile(file, []byte(strings.Repeat("x", int(n))), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.addNamed(config.Named{Key: "prompt.file", Path: file}); err != nil {
				t.Fatal(err)
			}
			return len(c.leftOut) == 0
		}},
		{Const: "maxFolder", Max: 1000, Within: func(t *testing.T, n int64) bool {
			c := collect(t)
			dir := filepath.Join(c.naming.home, "prompts")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if err := os.WriteFile(filepath.Join(dir, strconv.FormatInt(i, 10)+prompt.TemplateExt), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.addNamed(config.Named{Key: "turn.prompts", Path: dir}); err != nil {
				t.Fatal(err)
			}
			return len(c.leftOut) == 0
		}},
	})
}
