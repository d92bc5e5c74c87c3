package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSecretFiles sets every key whose name ends in _file, and checks that all but the certificates
// are found. A new section cannot be forgotten.
func TestSecretFiles(t *testing.T) {
	c := &Config{Path: "/etc/agent.toml", home: "/home/you", File: File{
		Hooks: make([]hookSection, 1), Tools: map[string]toolSection{"t": {MCP: mcpSection{TokenFile: "Tools.MCP.TokenFile", EnvFiles: map[string]string{"A": "~/env"}}}},
	}}
	c.File.Turn.Fallback = make([]fallbackSection, 1)
	want := []string{"/etc/Tools.MCP.TokenFile", "/home/you/env"}
	fill(reflect.ValueOf(&c.File).Elem(), "", &want)
	var got []string
	for _, n := range c.SecretFiles() {
		got = append(got, n.Path)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) < 12 {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// fill sets each field for a file to its own path in the sections, and adds the path to want.
func fill(v reflect.Value, path string, want *[]string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			if field := v.Field(i); strings.HasSuffix(name, "File") && field.Kind() == reflect.String && !strings.HasSuffix(name, "CAFile") {
				field.SetString(name)
				*want = append(*want, filepath.Join("/etc", name))
				continue
			}
			fill(v.Field(i), name, want)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), path, want)
		}
	}
}

// TestTokens checks that the file of an access token is the one that a poll uses.
func TestTokens(t *testing.T) {
	l := newTestLoader()
	c, err := l.Parse("/etc/agent.toml", `[agent]
handle = "goulard3120"
[mail.imap.oauth2]
provider = "google"
client_id = "id"
refresh_token_file = "token"
`)
	if err != nil {
		t.Fatal(err)
	}
	o, err := l.OAuth(c, "mail.imap.oauth2", c.File.Mail.IMAP.OAuth2)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Tokens(); len(got) != 1 || got["mail.imap"] != filepath.Join(c.stateFolder(), "oauth.d", o.Name+".json") {
		t.Errorf("got %q, want %q", got, o.Name)
	}
}
