package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedFileIsCurrent checks that the generated file of package state is what its
// types require.
func TestGeneratedFileIsCurrent(t *testing.T) {
	const folder = "../../../state"
	want, err := generate(folder, roots)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, output))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is out of date: run go generate ./state", filepath.Join(folder, output))
	}
}

// TestUnsupportedFields checks that a field which package members cannot encode like
// encoding/json is an error.
func TestUnsupportedFields(t *testing.T) {
	for field, want := range map[string]string{
		"F float64 `json:\"f\"`":              "without a function",
		"F []bool `json:\"f,omitempty\"`":     "without a function",
		"F *string `json:\"f,omitempty\"`":    "without a function",
		"F map[string]string `json:\"f\"`":    "without a function",
		"F []string `json:\"f\"`":             "must be omitted",
		"F bool `json:\"f\"`":                 "must be omitted",
		"F string":                            "json tag",
		"F, G string `json:\"f\"`":            "json tag",
		"*T":                                  "must be a struct",
		"F T `json:\"f,omitempty,omitzero\"`": "option",
		"F U `json:\"f\"`":                    "without a function",
	} {
		folder := t.TempDir()
		source := "package state\n\ntype State struct{ " + field + " }\n\ntype T struct{}\n"
		if err := os.WriteFile(filepath.Join(folder, "state.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := generate(folder, []string{"State"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", field, err, want)
		}
	}
}
