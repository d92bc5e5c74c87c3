package cron

import (
	"slices"
	"testing"
)

func TestEnviron(t *testing.T) {
	const line = "*/30 * * * * x # agentstateloop a\n"
	for _, tt := range []struct {
		name, table string
		want        []string
	}{
		{"none", "", nil},
		{"above our line", "PATH=/opt/bin:/bin\n" + line + "SHELL=/bin/bash\n", []string{"PATH=/opt/bin:/bin"}},
		{"no line yet", "# x\nA = b\n", []string{"A=b"}},
		{"the last wins", "A=1\nB=2\nA=3\n" + line, []string{"B=2", "A=3"}},
		{"quotes and blanks", "  \"A\" = ' b c ' \r\nMAILTO=\"\"\n", []string{"A= b c ", "MAILTO="}},
		{"a job is none", "* * * * * A=b c\n@daily A=b\n#A=b\n" + line, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Environ([]byte(tt.table), "a"); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
