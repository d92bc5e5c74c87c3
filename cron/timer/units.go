package timer

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"agentstateloop/cron"
	"agentstateloop/state"
)

// Path is the PATH of a poll that a timer starts, as that of a cron job: it does not depend on
// the shell in which the units were written. A drop-in of the user may set another one.
const Path = "/usr/local/bin:/usr/bin:/bin"

// pollArgs are the arguments of the polls. The poll detaches, because systemd and launchd do
// not start a job whose main process still runs: a turn would stop the timer.
var pollArgs = [...]string{"poll", "--if-due", "--quiet", "--detach"}

// Timer describes the units that poll one agent each minute.
type Timer struct {
	Kind   string // Systemd or Launchd
	Agent  string // the handle
	Binary string // absolute path of agentstateloop
	Config string // absolute path of the agent's config file
	Home   string // home directory of the user

	Timeout time.Duration // limit for each process of the service manager; 0: 20 s
}

// File is a unit: its path and its text.
type File struct{ Path, Text string }

// Name returns the name of the timer for its service manager, such as
// "agentstateloop-goulard3120.timer" or "agentstateloop.goulard3120".
func (t Timer) Name() string {
	if t.Kind == Launchd {
		return "agentstateloop." + t.Agent
	}
	return "agentstateloop-" + t.Agent + ".timer"
}

// service returns the path of the service that the timer of systemd starts.
func (t Timer) service() string {
	return filepath.Join(t.Home, systemdFolder, "agentstateloop-"+t.Agent+".service")
}

// path returns the path of the timer. For launchd it is the only file.
func (t Timer) path() string {
	if t.Kind == Launchd {
		return filepath.Join(t.Home, "Library/LaunchAgents", t.Name()+".plist")
	}
	return filepath.Join(t.Home, systemdFolder, t.Name())
}

// wantedBy returns the link that makes systemd start the timer with the user's manager.
func (t Timer) wantedBy() string {
	return filepath.Join(t.Home, systemdFolder, wantsFolder, t.Name())
}

const (
	systemdFolder = ".config/systemd/user"
	wantsFolder   = "timers.target.wants"
)

// Files returns the units. It returns an error for an invalid handle, a relative path, a
// temporary binary (see [cron.TemporaryBinary]), a path with a control character or invalid
// UTF-8, which no unit can hold, and a program that systemd refuses.
func (t Timer) Files() ([]File, error) {
	if !state.ValidHandle(t.Agent) {
		return nil, fmt.Errorf("timer: %q is not a valid handle", t.Agent)
	}
	for _, path := range []string{t.Binary, t.Config} {
		switch {
		case !filepath.IsAbs(path):
			return nil, fmt.Errorf("timer of %s: path %q is not absolute", t.Agent, path)
		case !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return nil, fmt.Errorf("timer of %s: path %q contains a control character or invalid UTF-8", t.Agent, path)
		}
	}
	if t.Kind != Launchd && strings.ContainsAny(t.Binary, `\'"`) {
		return nil, fmt.Errorf("timer of %s: systemd refuses a program whose path contains a quote or a backslash, such as %s: install agentstateloop elsewhere", t.Agent, t.Binary)
	}
	if cron.TemporaryBinary(t.Binary) {
		return nil, fmt.Errorf("timer of %s: %s is a temporary binary, deleted before the timer can run it: build or install agentstateloop, and run that binary", t.Agent, t.Binary)
	}
	argv := append([]string{t.Binary, "--config", t.Config}, pollArgs[:]...)
	if t.Kind == Launchd {
		return []File{{t.path(), plist(t.Name(), argv)}}, nil
	}
	return []File{
		{t.service(), service("poll for @"+t.Agent, ExecStart(argv))},
		{t.path(), timer("poll for @" + t.Agent + " each minute")},
	}, nil
}

// service returns the text of a service that runs execStart.
//
// The settings and their reasons (docs/decisions/0068-timers.md):
//
//   - KillMode=process leaves the poll that detaches, and its turn, when the main process ends.
//     The next start, the end of the service and daemon-reload do not touch them.
//   - TimeoutStartSec ends a main process that hangs, which would stop the timer.
//   - LogLevelMax drops the lines of the manager about each start and about the processes that
//     are left over, and SyslogLevel keeps the errors that the program prints.
func service(description, execStart string) string {
	return `# Written by agentstateloop. To change it: systemctl --user edit
[Unit]
Description=agentStateLoop: ` + description + `

[Service]
Type=oneshot
ExecStart=` + execStart + `
Environment=PATH=` + Path + `
KillMode=process
TimeoutStartSec=60
SyslogLevel=err
LogLevelMax=err
`
}

// timer returns the text of the timer for a service of the same name. The default of AccuracySec
// is a minute, in which systemd would choose the second.
func timer(description string) string {
	return `# Written by agentstateloop. To change it: systemctl --user edit
[Unit]
Description=agentStateLoop: ` + description + `

[Timer]
OnCalendar=*-*-* *:*:00
AccuracySec=1s

[Install]
WantedBy=timers.target
`
}

// ExecStart returns argv as the value of ExecStart= (systemd.service(5), "COMMAND LINES").
func ExecStart(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = `"` + escape(word, i > 0) + `"`
	}
	return strings.Join(words, " ")
}

// escape escapes a word of ExecStart= for its double quotes. systemd replaces variables in
// arguments, but not in the path of the program, where "$$" would stay two characters.
func escape(word string, variables bool) string {
	word = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(word)
	if variables {
		word = strings.ReplaceAll(word, "$", "$$")
	}
	return word
}

// plist returns the text of a launchd agent that runs argv each minute.
//
// AbandonProcessGroup leaves the poll that detaches when the main process ends. After a sleep of
// the machine launchd starts the job once.
func plist(label string, argv []string) string {
	var words strings.Builder
	for _, word := range argv {
		words.WriteString("\t\t<string>" + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(word) + "</string>\n")
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + label + `</string>
	<key>ProgramArguments</key>
	<array>
` + words.String() + `	</array>
	<key>EnvironmentVariables</key>
	<dict>
		<key>PATH</key>
		<string>` + Path + `</string>
	</dict>
	<key>StartInterval</key>
	<integer>60</integer>
	<key>RunAtLoad</key>
	<true/>
	<key>AbandonProcessGroup</key>
	<true/>
</dict>
</plist>
`
}
