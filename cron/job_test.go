package cron

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func job(agent string) Job {
	return Job{Agent: agent, Binary: "/abs/agentstateloop", Config: "/abs/agent.toml", Interval: 30 * time.Minute}
}

func mustLine(t testing.TB, j Job) string {
	t.Helper()
	line, err := j.Line()
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestJobLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Job)
		want string
	}{
		{"the plain line", func(*Job) {},
			`*/30 * * * * '/abs/agentstateloop' --config '/abs/agent.toml' poll --if-due --quiet # agentstateloop goulard3120`},
		{"engaged, with linger", func(j *Job) { j.Interval = time.Minute; j.Args = []string{"--linger", "50s"} },
			`*/1 * * * * '/abs/agentstateloop' --config '/abs/agent.toml' poll --if-due --quiet --linger 50s # agentstateloop goulard3120`},
		{"odd paths", func(j *Job) { j.Binary = "/it's/a b$(x)`y`"; j.Config = `/100%/a\%b\`; j.Args = []string{"a;b", ""} },
			`*/30 * * * * '/it'\''s/a b$(x)` + "`y`" + `' --config '/100'\%'/a\'\%'b\' poll --if-due --quiet 'a;b' '' # agentstateloop goulard3120`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := job("goulard3120")
			tt.edit(&j)
			if got := mustLine(t, j); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestAlarmLine checks that the alarm line has no extra arguments, and its own tag.
func TestAlarmLine(t *testing.T) {
	j := job("goulard3120")
	j.Args = []string{"--linger", "50s"}
	if line, alarm, err := j.Lines(); err != nil || alarm != "" || line == "" {
		t.Errorf("without an alarm the lines are %q, %q, %v", line, alarm, err)
	}
	j.Alarm = time.Date(2026, 11, 22, 14, 12, 0, 0, time.UTC)
	want := `12 14 22 11 * '/abs/agentstateloop' --config '/abs/agent.toml' poll --if-due --quiet # agentstateloop goulard3120 alarm`
	if _, alarm, err := j.Lines(); err != nil || alarm != want {
		t.Errorf("the alarm line is %q, %v\nwant %s", alarm, err, want)
	}
	j.Binary = "./agentstateloop"
	if alarm, err := j.AlarmLine(); err == nil {
		t.Errorf("a relative binary makes the alarm line %q", alarm)
	}
	a, b := []byte("x\n"+want+"\n"), []byte("x\n")
	if backupName(a) != backupName(b) {
		t.Error("an alarm line makes another backup")
	}
}

func TestJobLineErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Job)
		want string
	}{
		{"no handle", func(j *Job) { j.Agent = "" }, "handle"},
		{"handle with a blank", func(j *Job) { j.Agent = "a b" }, "handle"},
		{"handle with a newline", func(j *Job) { j.Agent = "a\n" }, "handle"},
		{"interval", func(j *Job) { j.Interval = 7 * time.Minute }, "interval 7m0s"},
		{"relative binary", func(j *Job) { j.Binary = "./agentstateloop" }, "not absolute"},
		{"relative config", func(j *Job) { j.Config = "agent.toml" }, "not absolute"},
		{"no config", func(j *Job) { j.Config = "" }, "not absolute"},
		{"newline in a path", func(j *Job) { j.Config = "/a\n* * * * * rm -rf /" }, "control character"},
		{"newline in an argument", func(j *Job) { j.Args = []string{"a\nb"} }, "control character"},
		{"NUL", func(j *Job) { j.Config = "/a\x00b" }, "control character"},
		{"too long", func(j *Job) { j.Config = "/" + strings.Repeat("x", 900) }, "accepts at most 900"},
		{"go run", func(j *Job) { j.Binary = "/var/cache/go-build123/b001/exe/agentstateloop" }, "temporary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := job("goulard3120")
			tt.edit(&j)
			line, err := j.Line()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Line() = %q, %v; want an error with %q", line, err, tt.want)
			}
		})
	}
}

// TestLineThroughShell checks that the command that cron passes to sh has exactly the paths of the job,
// both with a cron that removes the backslash of "\%" (Vixie's family) and with one that does not
// (BusyBox).
func TestLineThroughShell(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"plain", "a b", "it's", `50%`, `a\%b`, `\`, "$HOME `id` \"x\" #; agentstateloop", "-n", "ümläut", "\xe9"} {
		config := filepath.Join(dir, name)
		line := mustLine(t, Job{Agent: "a", Binary: "/bin/show", Config: config, Interval: time.Minute, Args: []string{name}})
		command := strings.TrimPrefix(line, "*/1 * * * * ")
		want := "--config\n" + config + "\npoll\n--if-due\n--quiet\n" + name + "\n"
		for style, text := range map[string]string{"vixie": unescape(command), "busybox": command} {
			text = strings.Replace(text, "'/bin/show'", `printf '%s\n'`, 1)
			out, err := exec.Command("/bin/sh", "-c", text).Output()
			if err != nil || string(out) != want {
				t.Errorf("%q, %s: sh got %q, %v; want %q", name, style, out, err, want)
			}
		}
	}
}

// unescape returns command as Vixie's family of crons passes it to sh
// (crontab(5)): "\%" becomes "%", and any other "%" ends the command.
func unescape(command string) string {
	var out strings.Builder
	for i := 0; i < len(command); i++ {
		switch {
		case command[i] == '\\' && i+1 < len(command) && command[i+1] == '%':
			out.WriteByte('%')
			i++
		case command[i] == '\\' && i+1 < len(command):
			out.WriteString(command[i : i+2])
			i++
		case command[i] == '%':
			return out.String()
		default:
			out.WriteByte(command[i])
		}
	}
	return out.String()
}

func TestTemporaryBinary(t *testing.T) {
	for path, want := range map[string]bool{
		"/home/u/.cache/go-build/ab/cd-d/agentstateloop": true,
		"/var/tmp/go-build99/b001/exe/agentstateloop":    true,
		"/usr/local/bin/agentstateloop":                  false,
		"/tmp/agentstateloop/agentstateloop":             false,
		"/home/u/my-go-builds/agentstateloop":            false,
	} {
		if got := TemporaryBinary(path); got != want {
			t.Errorf("TemporaryBinary(%s) = %v, want %v", path, got, want)
		}
	}
}
