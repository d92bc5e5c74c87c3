package toolserver_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"agentstateloop/turn/react"
	"agentstateloop/turn/toolserver"
)

// all permits every tool.
func all(string) bool { return true }

func namesOf(tools []react.Tool) (names string) {
	for _, tool := range tools {
		names += " " + tool.Name
	}
	return strings.TrimSpace(names)
}

// TestInvalidTools checks that tools that a provider would refuse are left out with a note, and that
// the others have short descriptions without control characters and secrets.
func TestInvalidTools(t *testing.T) {
	t.Parallel()
	session, _ := start(t, local(t, "odd-list"))
	tools, notes := session.Tools(all)
	if got := namesOf(tools); got != "bad__a bad__b bad__none bad__spaced_name_e4b69df0 bad__tells" {
		t.Errorf("the tools: %s", got)
	}
	if !strings.Contains(notes, "more") || strings.Contains(notes, token) {
		t.Errorf("the notes: %s", notes)
	}
	for _, tool := range tools {
		var schema map[string]any
		if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema["type"] != "object" || schema["properties"] == nil || schema["anyOf"] != nil {
			t.Errorf("%s: the schema %s, %v", tool.Name, tool.Schema, err)
		}
		whole := tool.Description + string(tool.Schema)
		if len(tool.Description) > 5<<10 || strings.ContainsAny(whole, "\x1b\x07") || strings.Contains(whole, token) || strings.Contains(whole, "(?!") {
			t.Errorf("%s: %q %s", tool.Name, tool.Description, tool.Schema)
		}
		if !strings.Contains(tool.Description, "[bad/") {
			t.Errorf("%s: %q does not name the server", tool.Name, tool.Description)
		}
	}
}

// TestToolsAreSorted checks that the tools are sorted in any order of the server, and that only the
// permitted ones are offered.
func TestToolsAreSorted(t *testing.T) {
	t.Parallel()
	session, _ := start(t, local(t, "shuffled"))
	if tools, _ := session.Tools(all); namesOf(tools) != "bad__a bad__b bad__c" {
		t.Errorf("the tools: %s", namesOf(tools))
	}
	if tools, _ := session.Tools(func(tool string) bool { return tool == "b" }); namesOf(tools) != "bad__b" {
		t.Errorf("the tools: %s", namesOf(tools))
	}
	if got := strings.Join(session.Names(), " "); got != "a b c" {
		t.Errorf("the names: %s", got)
	}
}

// TestModelName checks that providers accept the names of tools, and that all are different.
func TestModelName(t *testing.T) {
	accepted := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	seen := map[string]string{}
	long := strings.Repeat("x", 100)
	for _, c := range [][2]string{
		{"a", "b"}, {"a", "_b"}, {"a_b", "c"}, {"a", "b_c"}, {"a", "b.c"}, {"a", "b c"}, {"a", "b/c"}, {"a", "ü"}, {"a", "ö"}, {"a", "b__c"}, {"a", long + "1"}, {"a", long + "2"}, {"a", long},
	} {
		name := toolserver.ModelName(c[0], c[1])
		if !accepted.MatchString(name) {
			t.Errorf("%q: %q", c, name)
		}
		if other := seen[name]; other != "" {
			t.Errorf("%q and %q: %s", c, other, name)
		}
		seen[name] = c[0] + "/" + c[1]
	}
	session, _ := start(t, local(t, "twins"))
	if tools, notes := session.Tools(all); len(tools) != 1 || !strings.Contains(notes, "the same name") {
		t.Errorf("twins: %s; %s", namesOf(tools), notes)
	}
	if got := toolserver.ModelName("files", "read_file"); got != "files__read_file" {
		t.Errorf("a plain name: %s", got)
	}
}
