package mesh

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestInvalidFields checks that a mesh refuses fields that its log or an answer could not carry, and
// that it can read accepted ones after a restart.
func TestInvalidFields(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenServer(dir, Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	url := serveMesh(t, s)
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tt := range map[string]struct {
		value string
		code  int
	}{
		"text":           {`"a"`, http.StatusAccepted},
		"brackets":       {`"` + strings.Repeat("[", 500) + `"`, http.StatusAccepted},
		"as deep as may": {nested(MaxFieldDepth), http.StatusAccepted},
		"not UTF-8":      {"\"\xff\"", http.StatusBadRequest},
		"too deep":       {nested(MaxFieldDepth + 1), http.StatusBadRequest},
		"far too deep":   {nested(9_998), http.StatusBadRequest},
	} {
		body := `{"from":"` + strings.ReplaceAll(name, " ", "-") + `","to":"dorlange","kind":"report","id":"` + strings.ReplaceAll(name, " ", "-") + `","message":"x","fields":{"v":` + tt.value + `}}`
		body = strings.Replace(body, `"from":"not-UTF-8"`, `"from":"not-utf-8"`, 1)
		if resp, text := rawCall(t, "POST", url+"/message", "", body); resp.StatusCode != tt.code {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
	}
	before, err := client(url, "dorlange", "").Mailbox(t.Context(), 0)
	if err != nil || len(before.Undecoded) > 0 {
		t.Errorf("the mailbox: %d undecoded, %v", len(before.Undecoded), err)
	}
	s.Close()
	s, err = OpenServer(dir, Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	after, err := client(serveMesh(t, s), "dorlange", "").Mailbox(t.Context(), 0)
	if err != nil || len(after.Messages) != len(before.Messages)+len(before.Undecoded) || s.SetAside() != "" {
		t.Errorf("%d messages before a restart, %d after it; set aside: %q; %v", len(before.Messages), len(after.Messages), s.SetAside(), err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*.corrupt-*")); len(names) > 0 {
		t.Errorf("set aside: %q", names)
	}
}

func TestFieldDepth(t *testing.T) {
	for value, want := range map[string]int{`1`: 0, `"[[{"`: 0, `"\"[["`: 0, `[]`: 1, `{"a":[{}],"[":1}`: 3, `[[],[[]],"]"]`: 3} {
		if !json.Valid([]byte(value)) || depth([]byte(value)) != want {
			t.Errorf("%s: %d, want %d", value, depth([]byte(value)), want)
		}
	}
}
