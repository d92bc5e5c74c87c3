package timer

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the units of packaging/systemd")

// TestPackagedUnits compares the template units of the packages with those of template.
func TestPackagedUnits(t *testing.T) {
	for _, f := range template("/usr/bin/agentstateloop") {
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

// template returns the template units of a package, agentstateloop-poll@.service and .timer.
// Their instance is the name of a configuration: agentstateloop-poll@agent.timer polls
// ~/.config/agentstateloop/agent.toml with binary.
func template(binary string) []File {
	argv := []string{escape(binary, false), "--config", `"%h/.config/agentstateloop/%i.toml"`}
	argv[0] = `"` + argv[0] + `"`
	line := strings.Join(append(argv, pollArgs[:]...), " ")
	return []File{
		{"agentstateloop-poll@.service", service("poll with %i.toml", line)},
		{"agentstateloop-poll@.timer", timer("poll with %i.toml each minute")},
	}
}
