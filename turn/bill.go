package turn

import (
	"strings"

	"encoding/json"
	"io"

	"agentstateloop/internal/plain"
)

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
			b.CostUSD, b.Usage = e.CostUSD, e.Usage.believed() // of the whole process so far
		}
	}
}

// maxUsage bounds the tokens of one kind that we believe an agent used, so that their sums do not
// overflow.
const maxUsage = 1_000_000_000_000

// believed returns the usage with each count limited to 0 through maxUsage.
func (u Usage) believed() Usage {
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
