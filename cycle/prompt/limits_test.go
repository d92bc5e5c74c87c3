package prompt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/limittest"
)

// TestLimits tries each limit of a prompt at its edge.
func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "maxWord", Max: 64, Within: func(_ *testing.T, n int64) bool { return isOneWord(strings.Repeat("x", int(n))) }},
		{Const: "maxWord", Max: 64, Within: func(_ *testing.T, n int64) bool { return isOneWord(strings.Repeat("X", int(n))) }},
		{Const: "maxWord", Max: 64, Step: 2, Within: func(_ *testing.T, n int64) bool { return isOneWord(strings.Repeat("é", int(n/2))) }},
		{Const: "most", Max: 256, Within: func(_ *testing.T, n int64) bool {
			var question strings.Builder
			for i := range n {
				fmt.Fprint(&question, i, " ")
			}
			return len(termsOf(question.String())) == int(n)
		}},
		{Const: "maxTemplate", Max: 65_536, Within: func(t *testing.T, n int64) bool {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "x"+TemplateExt), []byte(strings.Repeat("x", int(n))), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := Templates{Folder: folder}.own("x")
			return err == nil
		}},
	})
}

// isOneWord reports whether all of a word is compared.
func isOneWord(word string) bool {
	compared := 0
	eachWord(word, func(w []byte) { compared += len(w) })
	return compared == len(word)
}
