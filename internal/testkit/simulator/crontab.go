package simulator

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/crontest"
)

// userCrontab is the user's crontab: a program, the file that holds the table, and
// the lines of others.
type userCrontab struct {
	command, file, modeFile string

	mu      sync.Mutex
	foreign string // the lines of others as they must be
	torn    bool   // the next table will be torn
}

// crontabScript is the program. In mode "deaf" it refuses everything, in mode "mute" it refuses to
// write, and in mode "torn" it installs only the begin of the next table, once. Without a mode it
// is the program of package crontest.
const crontabScript = `#!/bin/sh
table=%[1]s mode=
[ -e %[2]s ] && read mode <%[2]s
case "$mode:$1" in
deaf:*|mute:-|mute:-r)
	echo "crontab: the disk is on fire" >&2
	exit 1
	;;
torn:-)
	rm %[2]s
	head -c 40 >"$table"
	exit 0
	;;
esac
exec %[3]s "$@"
`

func newCrontab(dir string) (*userCrontab, error) {
	sound, file, err := crontest.Write(dir)
	if err != nil {
		return nil, err
	}
	t := &userCrontab{
		command: filepath.Join(dir, "crontab.moody"), file: file, modeFile: filepath.Join(dir, "crontab.mode"),
		foreign: "MAILTO=you@example.com\n\n# backups\n15 3 * * *\tbackup --all > /dev/null 2>&1\n",
	}
	if err := os.WriteFile(t.file, []byte(t.foreign), 0o600); err != nil {
		return nil, err
	}
	return t, testkit.WriteProgram(t.command, fmt.Sprintf(crontabScript, "'"+t.file+"'", "'"+t.modeFile+"'", "'"+sound+"'"))
}

// run is the Run of a cron.Table. Without a mode it starts no process.
func (t *userCrontab) run(ctx context.Context, cmd *exec.Cmd, most capture.Limits) (capture.Printed, error) {
	if _, err := os.Stat(t.modeFile); err == nil {
		return capture.Run(ctx, cmd, most)
	}
	return crontest.Play(t.command, t.file)(ctx, cmd, most)
}

// setMode sets the failure mode of the program; "" lets it work.
func (t *userCrontab) setMode(mode string) error {
	t.torn = mode == "torn"
	if mode == "" {
		os.Remove(t.modeFile)
		return nil
	}
	return os.WriteFile(t.modeFile, []byte(mode+"\n"), 0o600)
}

// tornRestored reports, once, that a torn table was installed. foreignChange reports
// whether it was restored afterwards.
func (t *userCrontab) tornRestored() bool {
	if _, err := os.Stat(t.modeFile); !t.torn || err == nil {
		return false
	}
	t.torn = false
	return true
}

// read returns our lines and the lines of others.
func (t *userCrontab) read() (ours []string, foreign string, err error) {
	data, err := os.ReadFile(t.file)
	if err != nil && !os.IsNotExist(err) {
		return nil, "", err
	}
	ours, foreign = split(data)
	return ours, foreign, nil
}

// obeyHint plays a person who follows the hint about escapes and moves the command
// into a script.
func (t *userCrontab) obeyHint() error {
	return t.edit(func(foreign string, ours []string) string {
		return strings.ReplaceAll(foreign, escapes, "newline.sh") + lines(ours)
	})
}

// split separates our lines from the others. Ours are jobs that end in one of our tags.
func split(table []byte) (ours []string, foreign string) {
	var others strings.Builder
	for line := range bytes.Lines(table) {
		text := strings.TrimSpace(string(line))
		if text != "" && strings.ContainsRune("*@0123456789", rune(text[0])) && strings.HasSuffix(strings.TrimSuffix(text, " alarm"), " # agentstateloop "+handle) {
			ours = append(ours, text)
			continue
		}
		others.Write(line)
	}
	return ours, others.String()
}

// edit plays a person with an editor. change receives the lines of others and ours,
// and returns the new table.
func (t *userCrontab) edit(change func(foreign string, ours []string) string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ours, foreign, err := t.read()
	if err != nil {
		return err
	}
	text := change(foreign, ours)
	_, t.foreign = split([]byte(text))
	return os.WriteFile(t.file, []byte(text), 0o600)
}

// foreignChange describes a change of the lines of others, or returns "". Only a newline at the end
// of the last line may be added.
func (t *userCrontab) foreignChange() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, foreign, err := t.read()
	if err != nil {
		return err.Error()
	}
	if foreign == t.foreign || foreign == t.foreign+"\n" && t.foreign != "" && !strings.HasSuffix(t.foreign, "\n") {
		return ""
	}
	return fmt.Sprintf("the lines of others must be\n%q\nand are\n%q", t.foreign, foreign)
}
