package cron

import (
	"bytes"
	"slices"
	"strings"

	"agentstateloop/internal/lazy"
)

// JobPath is the PATH of a job if the table does not set another one.
const JobPath = "/usr/bin:/bin"

// settingLine matches an environment line of a table (crontab(5)).
var settingLine = lazy.NewRegexp(`^[ \t]*("[A-Za-z_]\w*"|'[A-Za-z_]\w*'|[A-Za-z_]\w*)[ \t]*=[ \t]*(.*?)[ \t\r]*$`)

// Environ returns the environment that the table sets for agent's job, as "NAME=value". These
// are the variables set above the agent's line, or in the whole table without such a line. The
// last value of a name counts.
func Environ(table []byte, agent string) []string {
	var env []string
	for line := range bytes.Lines(table) {
		if isOurs(line, agent) {
			break
		}
		m := settingLine.Get().FindSubmatch(bytes.TrimSuffix(line, []byte("\n")))
		if m == nil {
			continue
		}
		name, value := unquoted(string(m[1])), unquoted(string(m[2]))
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		env = append(env, name+"="+value)
	}
	return env
}

func unquoted(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}
