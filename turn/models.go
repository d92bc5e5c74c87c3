package turn

import (
	_ "embed"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

//go:embed models.toml
var modelsFile string

// modelTable is the content of models.toml.
type modelTable struct {
	Usual   string              `toml:"usual"`
	Thinks  []string            `toml:"thinks"`
	Sees    map[string][]string `toml:"sees"`    // patterns of models, by kind of input
	Windows map[string]int64    `toml:"windows"` // by runner
	Prices  map[string]Price    `toml:"prices"`
}

// models parses models.toml on first use, because most commands do not need it.
var models = sync.OnceValue(func() modelTable {
	var t modelTable
	if _, err := toml.Decode(modelsFile, &t); err != nil {
		panic("models.toml: " + err.Error()) // it is embedded and tested
	}
	return t
})

// UsualModel returns the Anthropic model that init suggests.
func UsualModel() string { return models().Usual }

// Thinks reports whether a model counts its thoughts as output and takes the limit of an answer
// as max_completion_tokens.
func Thinks(model string) bool {
	return slices.ContainsFunc(models().Thinks, func(pattern string) bool {
		ok, _ := path.Match(pattern, model)
		return ok
	})
}

// Sees returns which of "image" and "pdf" a model can see, as far as we know. A provider that
// resells models puts the vendor in front: "anthropic/claude-sonnet-4.5".
func Sees(model string) (kinds []string) {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	for _, kind := range []string{"image", "pdf"} {
		if slices.ContainsFunc(models().Sees[kind], func(pattern string) bool {
			ok, _ := path.Match(pattern, model)
			return ok
		}) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// RunnerWindow returns the default context window of a runner's models in tokens, or 0 if it is
// unknown. It applies if the configuration and the agent give no window.
func RunnerWindow(runner string) int64 { return models().Windows[runner] }
