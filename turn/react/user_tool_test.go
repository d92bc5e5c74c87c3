package react_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn/react"
)

func program(t *testing.T, script string, timeout time.Duration) []react.Tool {
	t.Helper()
	tool, err := react.Program{
		Name: "weather", Description: "the weather", Command: []string{"/bin/sh", "-c", script}, Dir: t.TempDir(), Timeout: timeout,
		Schema: []byte(`{"type":"object","properties":{"city":{"type":"string","maxLength":20}},"required":["city"],"additionalProperties":false}`),
	}.Tool()
	if err != nil {
		t.Fatal(err)
	}
	return []react.Tool{tool}
}

func TestUserTool(t *testing.T) {
	t.Parallel()
	flood := 100 << 20
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		flood /= 10
	}
	for _, c := range []struct{ name, script, args, want, fault string }{
		{"arguments on stdin, result on stdout", "cat; echo; echo noise >&2", `{"city":"Artificer's Rest; $(reboot)"}`, "", "maxLength"},
		{"no shell reads them", "cat", `{"city":"$(reboot)"}`, `{"city":"$(reboot)"}`, ""},
		{"a failure says why", "echo half; echo no such city >&2; exit 3", `{"city":"x"}`, "", "exit status 3\nhalf\nno such city"},
		{"a flood", fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, flood), `{"city":"x"}`, "bytes more]", ""},
		{"not text", `printf '\377\376'`, `{"city":"x"}`, "\uFFFD", ""},
		{"something left running blocks nobody", "sleep 60 & echo done", `{"city":"x"}`, "done", ""},
		{"another key", "cat", `{"town":"x"}`, "", "town"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := call(t, program(t, c.script, time.Minute), "weather", c.args)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("%q, %v; want an error with %q", got, err, c.fault)
				}
				return
			}
			if err != nil || !strings.Contains(got, c.want) || len(got) > 70<<10 {
				t.Errorf("%d bytes, %v; want %q in it", len(got), err, c.want)
			}
		})
	}
}

func TestUserToolTimesOut(t *testing.T) {
	var err error
	for timeout := 50 * time.Millisecond; timeout < time.Minute; timeout *= 2 {
		_, err = call(t, program(t, "echo begun; exec sleep 1000", timeout), "weather", `{"city":"x"}`)
		if err == nil || strings.Contains(err.Error(), "begun") {
			break // it had the time to begin
		}
	}
	if err == nil || !strings.Contains(err.Error(), "timeout after") || !strings.Contains(err.Error(), "begun") {
		t.Errorf("the model reads %v", err)
	}
}

func TestInvalidUserTools(t *testing.T) {
	for name, p := range map[string]react.Program{
		"name":       {Name: "Weather now", Command: []string{"x"}, Schema: []byte(`{"type":"object"}`)},
		"ours":       {Name: "exec", Command: []string{"x"}, Schema: []byte(`{"type":"object"}`)},
		"no command": {Name: "weather", Schema: []byte(`{"type":"object"}`)},
		"no schema":  {Name: "weather", Command: []string{"x"}, Schema: []byte(`{"type":`)},
		"no object":  {Name: "weather", Command: []string{"x"}, Schema: []byte(`{"type":"string"}`)},
	} {
		if _, err := p.Tool(); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}
