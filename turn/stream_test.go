package turn

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestHugeLine checks that a line over the limit is an event, and that later lines count.
func TestHugeLine(t *testing.T) {
	t.Parallel()
	b := fakeCLI(t, Claude, "", `printf '{"type":"user","x":"'; head -c 6000000 /dev/zero | tr '\0' x; echo '"}'; cat "$0.stream"`)
	os.WriteFile(b.Command[0]+".stream", []byte(claudeGood), 0o600)
	b.run().check(t, Success, ExitClean, "One file.", "")
	if log := readFile(t, b.Dir, "events.jsonl"); !strings.Contains(log, "an output line of 6000023 bytes") {
		t.Error("the line was not noted")
	}
}

// TestEndlessLineIsNotKept checks that a gigabyte without a newline takes no more memory than a line.
func TestEndlessLineIsNotKept(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	events := 0
	readLines(io.LimitReader(zeros{}, 1<<30), claudeParser(), func(Event) { events++ })
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 || events != 1 {
		t.Errorf("%d bytes for %d events", grown, events)
	}
}

// zeros is an endless /dev/zero.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// fuzzParser checks that a parser returns events of known kinds for any stream, and only the
// beginning of an unknown line.
func fuzzParser(f *testing.F, parse func() parser, streams ...string) {
	for _, s := range streams {
		for line := range strings.Lines(s) {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(`{"type":"assistant","message":{"content":"plain"}}`))
	f.Add([]byte(`{"type":null,"item":[],"error":{}}`))
	f.Add([]byte(`[]`))
	known := map[EventKind]bool{SessionStart: true, Thinking: true, TextDelta: true, ToolUse: true,
		ToolResult: true, Done: true, Error: true, Unknown: true}
	f.Fuzz(func(t *testing.T, stream []byte) {
		m := newActivity()
		readLines(strings.NewReader(string(stream)), parse(), func(e Event) {
			if !known[e.Kind] {
				t.Errorf("kind %q", e.Kind)
			}
			if e.Kind == Unknown && len(e.Text) > maxUnknown {
				t.Errorf("unknown of %d bytes", len(e.Text))
			}
			m.apply(e)
		})
		if _, waiting := m.waitingTools(); waiting > len(stream) {
			t.Errorf("%d tools in %d bytes", waiting, len(stream))
		}
	})
}

func FuzzClaude(f *testing.F) {
	fuzzParser(f, claudeParser, claudeGood, claudeLogin, claudeStale, claudeTurns)
}

func FuzzCodex(f *testing.F) { fuzzParser(f, codexParser, codexGood, codexRefused, codexBroken) }

func FuzzAPI(f *testing.F) {
	fuzzParser(f, func() parser { return parseAPI }, apiGood, apiCut, apiRefused)
}

func FuzzGemini(f *testing.F) {
	fuzzParser(f, geminiParser, geminiGood, geminiBroken)
}
