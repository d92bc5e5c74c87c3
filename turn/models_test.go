package turn

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/BurntSushi/toml"
)

// TestModelsFile checks that every key of the table is read, and that every price is complete.
func TestModelsFile(t *testing.T) {
	var table modelTable
	meta, err := toml.Decode(modelsFile, &table)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		t.Errorf("unknown keys: %v", unknown)
	}
	for model, p := range table.Prices {
		if p.CacheRead <= 0 || p.Input < p.CacheRead || p.CacheWrite < p.Input || p.Output < p.Input {
			t.Errorf("%s costs %+v", model, p)
		}
	}
	if _, ok := table.Prices[table.Usual]; !ok {
		t.Errorf("usual = %q has no price", table.Usual)
	}
	for _, pattern := range slices.Concat(table.Thinks, table.Sees["image"], table.Sees["pdf"]) {
		if _, err := path.Match(pattern, ""); err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestThinkingModels(t *testing.T) {
	for model, want := range map[string]bool{
		"o1": true, "o3-mini": true, "o4-mini-2025-04-16": true,
		"gpt-5": true, "gpt-5-pro": true, "gpt-5.2-codex": true, "gpt-6": true,
		"gpt-4o": false, "gpt-4.1": false, "omni": false, "o": false, "gpt-": false,
		"claude-sonnet-4-5": false, "llama3": false, "": false,
	} {
		if got := Thinks(model); got != want {
			t.Errorf("%s thinks: %v", model, got)
		}
	}
}

func TestModelsThatSee(t *testing.T) {
	for model, want := range map[string]string{
		"claude-sonnet-4-5": "[image pdf]", "anthropic/claude-opus-4.5": "[image pdf]", "gpt-4o": "[image]", "gpt-4o-mini-2024-07-18": "[image]", "gpt-5.2": "[image]",
		"o3": "[image]", "o3-mini": "[]", "o1-mini": "[]", "o4-mini": "[image]", "google/gemini-2.5-flash": "[image]", "llama3.2-vision:11b": "[image]",
		"Qwen/Qwen2.5-VL-72B-Instruct": "[image]", "qwen2.5vl:7b": "[image]", "gemma3:4b": "[image]", "llama3.2": "[]", "qwen3": "[]", "deepseek-chat": "[]", "gpt-3.5-turbo": "[]", "": "[]",
	} {
		if got := fmt.Sprint(Sees(model)); got != want {
			t.Errorf("%s sees %s, want %s", model, got, want)
		}
	}
}

func TestRunnerWindow(t *testing.T) {
	for runner, want := range map[string]int64{Claude: 200_000, Codex: 272_000, Gemini: 1_048_576, API: 0, Exec: 0} {
		if got := RunnerWindow(runner); got != want {
			t.Errorf("%s holds %d tokens, want %d", runner, got, want)
		}
	}
}
