package prompt

import (
	"slices"
	"strings"
	"testing"
)

// TestEachLayerHasTemplate checks that each layer has a built-in template, and each template a
// layer.
func TestEachLayerHasTemplate(t *testing.T) {
	entries, err := builtIn.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		files = append(files, strings.TrimSuffix(e.Name(), TemplateExt))
	}
	if names := slices.Sorted(slices.Values(Names())); !slices.Equal(names, files) {
		t.Errorf("the layers are %v, and the templates %v", names, files)
	}
	if first := Names()[0]; first != "reset" {
		t.Errorf("the first layer is %s, but the note of a reset begins the context", first)
	}
}

// TestLayersOfEachPart checks which layers are in the system prompt and which on standard
// input.
func TestLayersOfEachPart(t *testing.T) {
	system := func(text string, told bool) Layer { return Layer{Part: PartSystem, Text: text, Included: told} }
	message := func(text string, told bool) Layer { return Layer{Part: PartMessage, Text: text, Included: told} }
	for name, c := range map[string]struct {
		layers []Layer
		apart  bool
		want   Prompt
	}{
		"a new session": {
			layers: []Layer{system("rules", true), system("trust", true), message("hello", true)},
			want:   Prompt{System: "rules\n\ntrust\n", Stdin: "rules\n\ntrust\n\nhello\n"},
		},
		"a session that continues": {
			layers: []Layer{system("rules", false), system("trust", true), message("history", false), message("hello", true)},
			want:   Prompt{System: "rules\n\ntrust\n", Stdin: "trust\n\nhello\n"},
		},
		"a runner with a system prompt of its own": {
			layers: []Layer{system("rules", true), system("trust", true), message("hello", true)},
			apart:  true,
			want:   Prompt{System: "rules\n\ntrust\n", Stdin: "hello\n"},
		},
		"an empty layer leaves no gap": {
			layers: []Layer{system("rules", true), system("", true), message("", true), message("hello", true)},
			want:   Prompt{System: "rules\n", Stdin: "rules\n\nhello\n"},
		},
		"the question for a summary is in neither": {
			layers: []Layer{message("hello", true), {Part: PartSummary, Text: "summarise", Included: true}},
			want:   Prompt{System: "\n", Stdin: "hello\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Join(c.layers, c.apart); got != c.want {
				t.Errorf("%+q, want %+q", got, c.want)
			}
		})
	}
}
