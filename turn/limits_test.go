package turn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
)

// writeSparse writes a sparse file of this size that begins with a text.
func writeSparse(t *testing.T, path, text string, size int64) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
}

// padLeft returns a value of JSON with spaces before it, n bytes long.
func padLeft(n int64, value string) string { return strings.Repeat(" ", int(n)-len(value)) + value }

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// argAfter returns the number behind a name in arguments.
func argAfter(args []string, name string) (n int64) {
	for _, arg := range args {
		if text, ok := strings.CutPrefix(arg, name); ok {
			fmt.Sscan(text, &n)
		}
	}
	return n
}

func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	defaults := Config{}.withDefaults()
	file := t.TempDir()
	writeSparse(t, filepath.Join(file, "a"), "", 0)
	entries, err := os.ReadDir(file)
	if err != nil {
		t.Fatal(err)
	}
	regular := entries[0]
	limittest.Run(t, []limittest.Limit{
		// Times.
		limittest.Duration("justPassed", 10*time.Minute, time.Minute, func(_ *testing.T, d time.Duration) bool {
			return parseLimitEnd("resets at "+begin.Add(-d).Format("15:04"), begin, time.UTC).IsZero()
		}),
		{Const: "maxQuestion", Max: 3 << 10, Within: func(t *testing.T, n int64) bool {
			ask := func(title string) (string, error) { return ToolRequest{Kind: "read", Title: title}.Question() }
			short, err := ask("x")
			if err != nil {
				t.Fatal(err)
			}
			_, err = ask(strings.Repeat("x", int(1+n-int64(len(short)))))
			return err == nil
		}},
		{Const: "maxRefused", Max: 10, Within: func(_ *testing.T, n int64) bool {
			var o output
			for i := range n {
				o.apply(Event{Kind: Refused, Tool: fmt.Sprint("tool ", i)})
			}
			return len(o.refused) == int(n)
		}},
		{Const: "maxRefusedText", Max: 200, Within: func(_ *testing.T, n int64) bool {
			var o output
			o.apply(Event{Kind: Refused, Tool: "t", Text: x(n)})
			return o.refused[0] == "t: "+x(n)
		}},
		{Const: "maxOpenTools", Max: 1000, Within: func(_ *testing.T, n int64) bool {
			parse, refused := geminiParser(), false
			for i := range n {
				parse(fmt.Appendf(nil, `{"type":"tool_use","tool_name":"t","tool_id":"%d"}`, i))
			}
			for _, e := range parse(fmt.Appendf(nil, `{"type":"tool_result","tool_id":"%d","status":"error","error":{"type":"policy_violation"}}`, n-1)) {
				refused = refused || e.Kind == Refused && e.Tool == "t"
			}
			return refused
		}},
		{Const: "maxNotes", Max: 20, Within: func(_ *testing.T, n int64) bool {
			var o output
			for range n {
				o.apply(Event{Kind: Note, Text: "a remark"})
			}
			return len(o.remarks()) == int(n)
		}},
		{Const: "maxWaitUnits", Max: 10_000, Within: func(_ *testing.T, n int64) bool {
			return parseWait(fmt.Sprint(n, " days")) == time.Duration(n)*24*time.Hour
		}},
		limittest.Duration("DefaultTimeout", 10*time.Minute, 2, func(t *testing.T, d time.Duration) bool {
			deadlines := newDeadlines(defaults, begin)
			at, _ := deadlines.whileWorking(false)
			return begin.Add(d - 1).Before(at)
		}),
		limittest.Duration("DefaultLinger", 30*time.Second, 2, func(t *testing.T, d time.Duration) bool {
			deadlines := newDeadlines(defaults, begin)
			deadlines.doneAt = begin
			at, _ := deadlines.afterDone()
			return begin.Add(d - 1).Before(at)
		}),
		limittest.Duration("DefaultSettle", 500*time.Millisecond, 2, func(t *testing.T, d time.Duration) bool {
			deadlines := newDeadlines(defaults, begin)
			deadlines.doneAt = begin
			return begin.Add(d - 1).Before(deadlines.settleAt())
		}),
		limittest.Duration("DefaultGrace", 5*time.Second, 2, func(t *testing.T, d time.Duration) bool {
			p := &process{grace: defaults.Grace, killedAt: begin}
			return !p.over(begin.Add(d-1), false)
		}),
		limittest.Duration("maxDrainTimeout", 10*time.Second, 2, func(t *testing.T, d time.Duration) bool {
			p := &process{exitedAt: begin}
			return !p.settled(begin.Add(d-1), true)
		}),
		limittest.Duration("liveEvery", 500*time.Millisecond, 2, func(t *testing.T, d time.Duration) bool {
			v := &liveView{stale: true, written: begin}
			return !v.due(begin.Add(d - 1))
		}),
		limittest.Duration("readyTimeout", 30*time.Second, 2, func(t *testing.T, d time.Duration) (inTime bool) {
			synctest.Test(t, func(t *testing.T) {
				theirs, release, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer theirs.Close()
				fault, main := net.Pipe()
				go func() {
					time.Sleep(d - 1)
					io.WriteString(main, ready) // the runner may have given up
				}()
				h := handshake{release: release, fault: fault}
				inTime = h.begin(t.TempDir(), os.Getpid()) == nil
				fault.Close()
				time.Sleep(d)
			})
			return inTime
		}),
		{Const: "codexToolTimeout", Max: 150, Within: func(t *testing.T, n int64) bool {
			return n <= argAfter(ToolServer{Name: "ours"}.codexArguments(), "mcp_servers.ours.tool_timeout_sec=")
		}},

		// The output of the agent.
		{Const: "DefaultMaxText", Max: 256 << 10, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			writeSparse(t, filepath.Join(dir, eventsName), `{"kind":"done","text":"`+x(n)+`"}`, n+25)
			s := spool{path: filepath.Join(dir, answerName), maxMem: defaults.MaxText, maxFile: defaults.MaxOutput}
			s.write(x(n))
			text, name := s.close()
			whole := ReplayOutput(dir) == x(n)
			if (text == x(n) && name == "") != whole {
				t.Errorf("%d bytes: whole in a replay: %v; in memory: %d", n, whole, len(text))
			}
			return whole
		}},
		{Const: "DefaultMaxOutput", Max: 16 << 20, Within: func(t *testing.T, n int64) bool {
			s := spool{path: filepath.Join(t.TempDir(), answerName), maxFile: defaults.MaxOutput}
			s.write(x(n))
			s.close()
			info, err := os.Stat(s.path)
			if whole := err == nil && info.Size() == n; whole == s.truncated() {
				t.Errorf("%d bytes: truncated: %v, %v", n, s.truncated(), err)
			}
			return !s.truncated()
		}},
		{Const: "DefaultMaxEvents", Max: 8<<20 - 1, Within: func(t *testing.T, n int64) bool { // the file before an event
			l := openEventLog(t.TempDir(), defaults.MaxEvents)
			l.room -= n
			l.event(begin, Event{Kind: TextDelta})
			return l.end(endLine{}) == nil && l.dropped == 0
		}},
		{Const: "maxEventText", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			l := openEventLog(dir, 1<<20)
			l.event(begin, Event{Kind: TextDelta, Text: x(n)})
			return l.end(endLine{}) == nil && ReplayOutput(dir) == x(n)
		}},
		{Const: "maxReplay", Max: 16 << 20, Within: func(t *testing.T, n int64) bool {
			const line = `{"kind":"text_delta","text":"one"}`
			dir := t.TempDir()
			padding := strings.Repeat(strings.Repeat(" ", 1<<20-1)+"\n", 15)
			writeSparse(t, filepath.Join(dir, eventsName), padding+strings.Repeat(" ", int(n)-len(padding)-len(line)-1)+"\n"+line, n)
			return ReplayOutput(dir) == "one"
		}},
		{Const: "maxLine", Max: 4 << 20, Within: func(t *testing.T, n int64) (read bool) {
			readLines(strings.NewReader(x(n-1)+"\n"), func([]byte) []Event { read = true; return nil }, func(Event) {})
			return read
		}},
		{Const: "maxUnknown", Max: 4 << 10, Within: func(t *testing.T, n int64) bool { return unknownEvent([]byte(x(n)))[0].Text == x(n) }},
		{Const: "stderrTail", Max: 8 << 10, Within: func(t *testing.T, n int64) bool {
			o := newOutput(defaults, Attempt{}, agent{}, nil)
			io.WriteString(&o.stderr, x(n-3))
			io.WriteString(&o.stderr, "xxx")
			o.apply(Event{Kind: Error, Text: x(n - 1)}) // with the end of its line
			whole := len(o.stderr.buf) == int(n)
			if o.faults.String() != x(n-1) && whole {
				t.Errorf("of a fault of %d bytes %d are kept", n, len(o.faults.buf))
			}
			return whole
		}},
		{Const: "maxLastLine", Max: 300, Within: func(t *testing.T, n int64) bool { return lastLine("first\n"+x(n)+"\n") == x(n) }},
		{Const: "maxReason", Max: 2000, Within: func(t *testing.T, n int64) bool {
			s := &supervisor{process: &process{}, output: output{done: &Event{Kind: Done, Failed: true, Text: x(n)}}}
			var failed, cut Result
			s.decideStatus(&failed, "")
			s.output.done = &Event{Kind: Done, Cut: x(n)}
			s.decideStatus(&cut, "")
			if failed.Reason != cut.Reason {
				t.Errorf("%d bytes of a failure are kept, and %d of why an answer was cut", len(failed.Reason), len(cut.Reason))
			}
			return failed.Reason == x(n)
		}},
		{Const: "maxUsage", Max: 1_000_000_000_000, Within: func(t *testing.T, n int64) bool {
			u := Usage{n, n, n, n}
			return u.clamp() == u
		}},
		{Const: "maxModel", Max: 128, Within: func(t *testing.T, n int64) bool {
			var b Bill
			agent{}.add(&b, Event{Kind: SessionStart, Model: x(n)})
			if named := modelIn([]string{"--model", x(n)}); named != b.Model {
				t.Errorf("an argument names the model %q, and the agent %q", named, b.Model)
			}
			return b.Model == x(n)
		}},
		{Const: "maxSession", Max: 128, Within: func(t *testing.T, n int64) bool { return validSession(x(n)) }},
		{Const: "maxStepName", Max: 128, Within: func(t *testing.T, n int64) bool { return shortName(x(n)) == x(n) }},
		{Const: "maxVersion", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			_, err := codexOf(t, fmt.Sprintf("head -c %d /dev/zero", n)).AskVersion(t.Context())
			return err == nil
		}},

		// Files of an attempt.
		{Const: "maxFault", Max: 4 << 10, Within: func(t *testing.T, n int64) bool {
			fault, main := net.Pipe()
			go func() { io.WriteString(main, x(n)); main.Close() }()
			h := handshake{fault: fault}
			defer fault.Close()
			return h.reason() == x(n)
		}},
		{Const: "maxRecord", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			writeSparse(t, filepath.Join(dir, recordName), padLeft(n, `{"pid":7}`), n)
			p, err := readProcess(dir)
			return err == nil && p.PID == 7
		}},
		{Const: "maxLive", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			writeSparse(t, filepath.Join(dir, liveName), padLeft(n, `{"pid":7}`), n)
			l, err := ReadLive(dir)
			return err == nil && l.PID == 7
		}},
		{Const: "maxFeed", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			writeSparse(t, filepath.Join(dir, feedName), padLeft(n, `{"kind":"done"}`+"\n"), n)
			steps, err := (&FeedReader{Dir: dir}).Next()
			return err == nil && len(steps) == 1
		}},
		{Const: "maxKeptPrompt", Max: 256 << 10, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			writeSparse(t, filepath.Join(dir, promptName), "", n)
			ClearContext(dir)
			return exists(filepath.Join(dir, promptName))
		}},
		{Const: "maxEvidence", Max: 1 << 20, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			writeSparse(t, filepath.Join(dir, "1", outputName, "a"), "", n-1)
			writeSparse(t, filepath.Join(dir, "1", outputName, "b"), "", 1)
			DropEarlier(filepath.Join(dir, "2"), []string{"c"})
			return exists(filepath.Join(dir, "1", outputName, "a"))
		}},
		{Const: "maxCopied", Max: 256 << 20, Within: func(t *testing.T, n int64) bool {
			left := newCopyRoom()
			return errors.Join(left.reserve(1), left.reserve(n-1)) == nil
		}},
		{Const: "maxOutputFiles", Max: 1000, Within: func(t *testing.T, n int64) bool {
			var l listing
			for range n {
				l.entry("a", regular, 0)
			}
			whole := len(l.names) == int(n)
			if whole != (len(l.notes) == 0) {
				t.Errorf("%d of %d files, notes %q", len(l.names), n, l.notes)
			}
			return whole
		}},
		{Const: "maxOutputEntries", Max: 20_000, Within: func(t *testing.T, n int64) bool {
			l := listing{entries: int(n) - 1}
			l.entry("a", regular, 0)
			return l.notes == nil
		}},
		{Const: "maxOutputDepth", Max: 64, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			writeSparse(t, filepath.Join(dir, strings.Repeat("d/", int(n)), "a"), "", 0)
			names, notes, err := listOutputFolder(dir)
			if err != nil || len(names)+len(notes) != 1 {
				t.Errorf("files %q, notes %q, %v", names, notes, err)
			}
			return len(names) == 1
		}},
		{Const: "maxFileName", Max: 255, Within: func(t *testing.T, n int64) bool { return plainName(x(n)) }},
		{Const: "maxGeminiSettings", Max: 4 << 20, Within: func(t *testing.T, n int64) bool {
			file := filepath.Join(t.TempDir(), "settings.json")
			writeSparse(t, file, "{}", n)
			b, err := readSettings(file)
			return err == nil && len(b) == int(n)
		}},

		// The programs of an agent.
		{Const: "maxInterpreters", Max: 4, Within: func(t *testing.T, n int64) bool {
			dir := t.TempDir()
			script := func(i int64) string { return filepath.Join(dir, fmt.Sprint(i)) }
			for i := range n {
				text := "#!" + script(i+1) + "\n"
				writeSparse(t, script(i), text, int64(len(text)))
			}
			return len(installation(script(0), "", dir)) == int(n)
		}},
		{Const: "maxShebang", Max: 256, Within: func(t *testing.T, n int64) bool {
			file := filepath.Join(t.TempDir(), "script")
			writeSparse(t, file, "#!/"+x(n-3), n)
			return interpreter(file, "", "") == "/"+x(n-3)
		}},
	})
}
