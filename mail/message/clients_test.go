package message

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/clients/read.txt")

// TestMailOfRealClients reads mails of real programs with files of many names (testdata/clients/README.md),
// and compares the results with read.txt. After a change run it with -update and review the
// difference.
func TestMailOfRealClients(t *testing.T) {
	files, err := filepath.Glob("testdata/clients/*.eml")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d mails, %v", len(files), err)
	}
	var b strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := ContentOf(raw, Sent{})
		fmt.Fprintf(&b, "== %s\nsubject: %s\ntext: %s\n", filepath.Base(file), ParseHeader(raw).Subject, strings.ReplaceAll(c.Text, "\n", "\n      "))
		if instead := c.Placeholder(); instead != "" {
			fmt.Fprintf(&b, "instead: %s\n", instead)
		}
		for _, a := range c.Attachments {
			fmt.Fprintf(&b, "%s | %s | %s | %d bytes\n", a.Name, a.Title, a.Type, len(a.Data))
		}
		for _, p := range c.Problems {
			fmt.Fprintf(&b, "problem: %s\n", p)
		}
		b.WriteString("\n")
	}
	const golden = "testdata/clients/read.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(b.String(), "\n\n") {
		if blocks := strings.Split(string(want), "\n\n"); i >= len(blocks) || block != blocks[i] {
			t.Errorf("read.txt differs from this:\n%s", block)
		}
	}
}
