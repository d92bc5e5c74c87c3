package timer

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the units of packaging/systemd")

// TestPackagedUnits compares the template units of the packages with Template.
func TestPackagedUnits(t *testing.T) {
	for _, f := range Template("/usr/bin/agentstateloop") {
		path := filepath.Join("../../packaging/systemd", f.Path)
		if *update {
			if err := os.WriteFile(path, []byte(f.Text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil || string(text) != f.Text {
			t.Errorf("%v; %s differs: go test ./cron/timer -run TestPackagedUnits -update writes it", err, path)
		}
	}
}
