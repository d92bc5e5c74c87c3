package main_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// dear are packages that cost every start of the program too much for what they do, and
// what does the same without.
var dear = map[string]string{
	"golang.org/x/text/encoding/ianaindex": "mail/message has the names that htmlindex lacks",
	"runtime/metrics":                      "runtime.ReadMemStats is enough for a look now and then",
}

// TestNothingDearIsLinked checks that no package of dear is in the program, ours or a
// library's. What a package makes when the program starts, cron pays each minute.
func TestNothingDearIsLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", "urfave_cli_no_docs,nethttpomithttp2", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/commands") {
		t.Fatal("the program has no commands")
	}
	for _, p := range linked {
		if instead, ok := dear[p]; ok {
			t.Errorf("the program loads %s: %s", p, instead)
		}
	}
}
