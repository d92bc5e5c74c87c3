package turn

import (
	_ "embed"
	"encoding/json"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"agentstateloop/internal/plain"
	"agentstateloop/state"

	"github.com/BurntSushi/toml"
)

// Price is the price of a model, in dollars per million tokens.
type Price struct {
	Input      float64 `toml:"input"`
	Output     float64 `toml:"output"`
	CacheRead  float64 `toml:"cache_read"`
	CacheWrite float64 `toml:"cache_write"`
}

// Prices are prices by model. The zero Prices is empty.
type Prices struct {
	byModel func() map[string]Price
}

// NewPrices returns the prices of models.toml, overridden by those of own, all multiplied by
// factor.
func NewPrices(own map[string]Price, factor float64) Prices {
	return Prices{sync.OnceValue(func() map[string]Price {
		all := maps.Clone(models().Prices)
		maps.Copy(all, own)
		for model, p := range all {
			all[model] = Price{p.Input * factor, p.Output * factor, p.CacheRead * factor, p.CacheWrite * factor}
		}
		return all
	})}
}

func (p Prices) all() map[string]Price {
	if p.byModel == nil {
		return nil
	}
	return p.byModel()
}

// Of returns the price of a model. It looks for the model's own name, then for the name without
// the vendor in front ("openai/gpt-4o"), then for the longest name that lacks only dates, numbers
// or "latest" at the end ("claude-sonnet-4-5-20250929"). A name with other words at the end is
// another model, perhaps a much more expensive one ("gpt-5-pro").
func (p Prices) Of(model string) (price Price, known bool) {
	all := p.all()
	if price, ok := all[model]; ok {
		return price, true
	}
	model = model[strings.LastIndexByte(model, '/')+1:]
	for name := model; ; {
		if price, ok := all[name]; ok {
			return price, true
		}
		i := strings.LastIndexByte(name, '-')
		if i < 0 || !isEdition(name[i+1:]) {
			return Price{}, false
		}
		name = name[:i]
	}
}

// isEdition reports whether a part of a model's name names only an edition of the model.
func isEdition(part string) bool {
	return part == "latest" || part != "" && strings.Trim(part, "0123456789") == ""
}

// Cost returns the cost of tokens of a model. For a model without a known price it uses the
// prices of the most expensive known model.
func (p Prices) Cost(model string, t state.Tokens) (cost state.Micros, known bool) {
	if price, ok := p.Of(model); ok {
		return price.cost(t), true
	}
	for _, price := range p.all() {
		cost = max(cost, price.cost(t))
	}
	return cost, false
}

// cost returns the cost of the tokens: a dollar per million tokens is a micro-dollar per token. A
// negative count costs zero. A sum that is too large becomes state.MaxSpent.
func (p Price) cost(t state.Tokens) state.Micros {
	part := func(price float64, n int64) float64 { return price * float64(max(0, n)) }
	usd := (part(p.Input, t.Input) + part(p.Output, t.Output) +
		part(p.CacheRead, t.CacheRead) + part(p.CacheWrite, t.CacheWrite)) / float64(state.Dollar)
	cost, ok := state.Dollars(usd)
	if !ok {
		return state.MaxSpent
	}
	return cost
}

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

// Bill is the cost of one attempt, as its agent reports it.
type Bill struct {
	Model   string  // "" if the agent does not name it
	CostUSD float64 // of this process; 0 if the agent does not report it
	Usage   Usage

	// Meter is the session whose total usage Usage is, including earlier processes. It is "" if
	// Usage counts only this process.
	Meter string

	// Settled means that the agent reported each call while it ran, so all calls are already
	// billed.
	Settled bool
}

// openBill returns the initial bill of a process that was just started with argv.
func (k agent) openBill(argv []string) Bill {
	return Bill{Model: modelIn(argv), Settled: k.billsCalls}
}

// add enters an event's model, cost and usage in the bill.
func (k agent) add(b *Bill, e Event) {
	switch e.Kind {
	case SessionStart:
		if e.Model != "" {
			b.Model = plain.Cut(clean(e.Model), maxModel)
		}
		if k.cumulative && validSession(e.Session) {
			b.Meter = e.Session
		}
	case Done:
		if e.Model != "" {
			b.Model = plain.Cut(clean(e.Model), maxModel)
		}
		if e.CostUSD != 0 || e.Usage != (Usage{}) {
			b.CostUSD, b.Usage = e.CostUSD, e.Usage.clamp() // of the whole process so far
		}
	}
}

// maxUsage bounds the tokens of one kind that we believe an agent used, so that their sums do not
// overflow.
const maxUsage = 1_000_000_000_000

// clamp returns the usage with each count limited to 0 through maxUsage.
func (u Usage) clamp() Usage {
	within := func(n int64) int64 { return min(max(0, n), maxUsage) }
	return Usage{within(u.Input), within(u.Output), within(u.CacheRead), within(u.CacheWrite)}
}

// maxModel bounds the name of a model, in bytes.
const maxModel = 128

// modelIn returns the model that a CLI's arguments name, or "".
func modelIn(argv []string) string {
	model := ""
	for i, arg := range argv {
		if name, ok := strings.CutPrefix(arg, "--model="); ok {
			model = name
		}
		if (arg == "--model" || arg == "-m") && i+1 < len(argv) {
			model = argv[i+1]
		}
	}
	return plain.Cut(clean(model), maxModel)
}

// ReplayBill returns the bill of the attempt in dir from its events.jsonl, for an attempt whose
// runner died. runner is used if a power loss has destroyed the first line, which names the
// runner. The bill is empty if the file cannot be read.
func ReplayBill(dir, runner string) Bill {
	f, err := openEvents(dir)
	if err != nil {
		return Bill{}
	}
	defer f.Close()
	kind, _, _ := agentFor(runner)
	b := kind.openBill(nil)
	readLines(io.LimitReader(f, maxReplay), func(line []byte) []Event {
		var first startLine
		if json.Unmarshal(line, &first) == nil && first.Kind == "start" {
			kind, _, _ = agentFor(first.Runner)
			b = kind.openBill(first.Argv)
			return nil
		}
		var e Event
		if json.Unmarshal(line, &e) == nil {
			kind.add(&b, e)
		}
		return nil
	}, func(Event) {})
	return b
}
