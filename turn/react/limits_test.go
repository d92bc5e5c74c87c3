package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/turn"
)

// modelFunc is a model in memory.
type modelFunc func(Question) (Answer, error)

func (f modelFunc) Answer(_ context.Context, q Question, _ func(string)) (Answer, error) { return f(q) }

// loopWith returns a loop with default settings and this model.
func loopWith(t *testing.T, model modelFunc) *Loop {
	t.Helper()
	attempt := filepath.Join(t.TempDir(), "agent", "turns", "t_1", "1")
	if err := os.MkdirAll(attempt, 0o700); err != nil {
		t.Fatal(err)
	}
	steps, err := OpenSteps(attempt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { steps.Close() })
	l := &Loop{Settings: Settings{Model: model, Steps: steps}, Callbacks: Callbacks{
		Emit:  func(turn.Event) {},
		Check: func(context.Context) (CheckResult, error) { return CheckResult{}, nil },
		Spent: func(context.Context, Expense) error { return nil },
		Rest:  func(context.Context) error { return nil },
	}}
	l.prepare()
	l.conversation = newConversation(nil)
	return l
}

// transport answers requests in memory.
type transport struct {
	status int
	body   string
}

func (r transport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: r.status, Body: io.NopCloser(strings.NewReader(r.body)), Header: http.Header{}}, nil
}

// listFrom requests the list of models; r answers.
func listFrom(t *testing.T, r transport) error {
	w := newHTTPClient("", time.Minute)
	w.client.Transport = r
	_, err := w.models(t.Context(), "http://api.test", nil)
	return err
}

// padRight returns a text with spaces behind it, n bytes long.
func padRight(text string, n int64) string { return text + strings.Repeat(" ", int(n)-len(text)) }

// body returns a body with this much of its limits left.
func body(text string, left int64, lines int) *limitedBody {
	return &limitedBody{ReadCloser: io.NopCloser(strings.NewReader(text)), left: left, lines: lines, ctx: context.Background(), timer: time.NewTimer(time.Hour), stall: time.Hour}
}

// folder returns folders with PDFs of these sizes in the context.
func folder(t *testing.T, sizes ...int64) Folders {
	t.Helper()
	r := Folders{Context: t.TempDir(), Workdir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(r.Context, "attachments"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, size := range sizes {
		put(t, filepath.Join(r.Context, "attachments", fmt.Sprintf("%03d.pdf", i)), "%PDF-1.7\n", size)
	}
	return r
}

// put writes a sparse file of this size that begins with a text.
func put(t *testing.T, path, text string, size int64) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
}

func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	many := folder(t)
	sees := func(string) []string { return []string{Image, PDF} }
	said := func(text string) modelFunc {
		return func(Question) (Answer, error) { return Answer{Text: text, Stop: StopEnd}, nil }
	}
	// fills reports how the loop reacts to a window with this many tokens: whether it warns, and
	// whether it summarises.
	fills := func(t *testing.T, window int, tokens int64) (warned, summarised bool) {
		l := loopWith(t, func(Question) (Answer, error) {
			summarised = true
			return Answer{Text: "a summary", Stop: StopEnd}, nil
		})
		if window > 0 {
			l.Window = window
		}
		l.conversation.countedTokens = tokens
		if err := l.fitWindow(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.conversation.warned, summarised
	}
	calls := func(n int64) (all []Call) {
		for i := range n {
			all = append(all, Call{ID: fmt.Sprint("c", i), Name: "echo", Args: fmt.Sprintf(`{"n":%d}`, i)})
		}
		return all
	}
	echo := func(ran *int64, text string) []Tool {
		return []Tool{{Name: "echo", Run: func(context.Context, json.RawMessage) (string, error) { *ran++; return text, nil }}}
	}
	limittest.Run(t, []limittest.Limit{
		// The window.
		{Const: "warnAt", Max: 74, Within: func(t *testing.T, n int64) bool {
			warned, _ := fills(t, 100, n)
			return !warned
		}},
		{Const: "compactAt", Max: 89, Within: func(t *testing.T, n int64) bool {
			_, summarised := fills(t, 100, n)
			return !summarised
		}},
		{Const: "DefaultWindow", Max: 149_999, Within: func(t *testing.T, n int64) bool { // 75 percent of 200,000
			warned, _ := fills(t, 0, n)
			return !warned
		}},
		{Const: "maxUselessSummaries", Max: 2, Within: func(t *testing.T, n int64) bool {
			asked := int64(0)
			l := loopWith(t, func(Question) (Answer, error) { asked++; return Answer{Stop: StopEnd}, nil })
			l.Window, l.conversation.countedTokens = 100, 95
			for range n {
				if err := l.fitWindow(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return asked == n
		}},
		{Const: "shortestPart", Max: 32, Within: func(t *testing.T, n int64) bool {
			text := transcript([]Message{{Text: x(n)}, {Text: x(10_000)}}, 100)
			return strings.HasPrefix(text, "## input\n"+x(n)+"\n\n")
		}},
		{Const: "maxAnswerRepeated", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			c := newConversation(nil)
			c.addAnswer(Answer{Text: x(n), Calls: calls(1)})
			return c.messages[0].Text == x(n)
		}},

		// A run.
		{Const: "DefaultMaxCalls", Max: 25, Within: func(t *testing.T, n int64) bool {
			l := loopWith(t, said("done"))
			l.conversation.calls = int(n) - 1
			end, err := l.step(t.Context())
			return err == nil && end.cut == ""
		}},
		{Const: "DefaultMaxTools", Max: 10, Within: func(t *testing.T, n int64) bool {
			ran := int64(0)
			l := loopWith(t, nil)
			l.Tools = echo(&ran, "")
			if _, err := l.callTools(t.Context(), Answer{Calls: calls(n)}); err != nil {
				t.Fatal(err)
			}
			return ran == n
		}},
		{Const: "DefaultMaxOutput", Max: 8192, Within: func(t *testing.T, n int64) (within bool) {
			l := loopWith(t, func(q Question) (Answer, error) { within = n <= int64(q.MaxOutput); return Answer{}, nil })
			if _, err := l.ask(t.Context()); err != nil {
				t.Fatal(err)
			}
			return within
		}},
		{Const: "maxSameCall", Max: 3, Within: func(t *testing.T, n int64) bool {
			ran := int64(0)
			l := loopWith(t, nil)
			l.Tools = echo(&ran, "")
			for i := range n {
				a := Answer{Calls: []Call{{ID: fmt.Sprint("c", i), Name: "echo", Args: "{}"}}}
				l.conversation.addAnswer(a)
				if _, err := l.callTools(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			return ran == n
		}},
		{Const: "maxBlanks", Max: 1, Within: func(t *testing.T, n int64) bool { // the second one ends the run
			l := loopWith(t, said(" "))
			for range n - 1 {
				l.conversation.addAnswer(Answer{})
			}
			if n == 0 {
				return true
			}
			end, err := l.step(t.Context())
			return err == nil && end == nil
		}},
		{Const: "maxUsage", Max: 100_000_000, Within: func(t *testing.T, n int64) bool {
			return estimateUsage(Question{}, Answer{Usage: turn.Usage{Input: n}}, true).Input == n
		}},
		{Const: "maxCalls", Max: 1000, Within: func(t *testing.T, n int64) bool {
			var d deltas
			for i := range int(n) {
				d.call(callPiece{index: i, indexed: true})
			}
			return len(d.answer.Calls) == int(n)
		}},
		{Const: "minWindow", Max: 1024, Within: func(t *testing.T, n int64) bool {
			l := loopWith(t, nil)
			l.Window = int(n)
			shrunk, err := l.shrink(t.Context(), Question{}, true)
			return !shrunk && err == nil && l.Window == int(n)
		}},
		{Const: "maxLessons", Max: 8, Within: func(t *testing.T, n int64) bool {
			refusals := 0
			l := loopWith(t, func(q Question) (Answer, error) {
				if refusals++; refusals > int(n) {
					return Answer{Text: "hi", Stop: StopEnd}, nil
				}
				return Answer{}, &Fault{Status: http.StatusBadRequest, Text: fmt.Sprint("unknown member x", refusals)}
			})
			l.Shape.Extra = map[string]any{}
			for i := range 20 {
				l.Shape.Extra[fmt.Sprint("x", i)] = true
			}
			_, err := l.ask(t.Context())
			return err == nil
		}},
		{Const: "maxStatus", Max: 599, Within: func(t *testing.T, n int64) bool {
			var f Fault
			f.addCode(fmt.Sprint(n))
			return f.Status == int(n)
		}},
		limittest.Duration("maxPatience", 2*time.Minute, time.Second, func(t *testing.T, d time.Duration) bool {
			var err error
			synctest.Test(t, func(t *testing.T) {
				l := loopWith(t, nil)
				err = l.backOff(t.Context(), 0, time.Now(), &Fault{Status: http.StatusServiceUnavailable, RetryAfter: d})
			})
			return err == nil
		}),
		{Const: "maxSteps", Max: 256 << 20, Within: func(t *testing.T, n int64) bool {
			got, err := io.CopyN(io.Discard, limitSteps(zeros{}), n)
			return got == n && err == nil
		}},

		// Results of tools.
		{Const: "maxResult", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			ran := int64(0)
			l := loopWith(t, nil)
			l.Tools, l.conversation.open = echo(&ran, x(n)), calls(1)
			if err := l.runCall(t.Context(), calls(1)[0]); err != nil {
				t.Fatal(err)
			}
			return l.conversation.messages[0].Results[0].Text == x(n)
		}},
		{Const: "noteRoom", Max: 64<<10 - 64 - int64(len("a.png follows as a file.")), Within: func(t *testing.T, n int64) bool {
			l := loopWith(t, nil)
			l.Images = &Images{Sees: sees}
			text, _ := l.showFiles(FilesResult{Text: x(n), Files: []ShownFile{{Name: "a.png", Type: "image/png"}}})
			if len(text) > 64<<10 {
				t.Errorf("the result has %d bytes", len(text))
			}
			return strings.HasPrefix(text, x(n))
		}},
		{Const: "maxRead", Max: 48 << 10, Within: func(t *testing.T, n int64) bool {
			r := folder(t)
			put(t, filepath.Join(r.Workdir, "a.txt"), x(n), n)
			text, err := r.read(t.Context(), readArgs{Path: "a.txt"})
			return err == nil && text == x(n)
		}},
		{Const: "maxListed", Max: 500, Within: func(t *testing.T, n int64) bool {
			for i := range n {
				if err := os.Symlink("x", filepath.Join(many.Workdir, fmt.Sprint(i))); err != nil && !errors.Is(err, os.ErrExist) {
					t.Fatal(err)
				}
			}
			text, err := many.list(t.Context(), listArgs{})
			return err == nil && !strings.Contains(text, "more than")
		}},
		{Const: "maxDepth", Max: 8, Within: func(t *testing.T, n int64) bool {
			r := folder(t)
			if err := os.MkdirAll(filepath.Join(r.Workdir, strings.Repeat("a/", int(n))), 0o700); err != nil {
				t.Fatal(err)
			}
			text, err := r.list(t.Context(), listArgs{Depth: 100})
			return err == nil && strings.Count(text, "\n") == int(n)
		}},
		{Const: "maxFound", Max: 20, Within: func(t *testing.T, n int64) bool {
			got := 0
			e := Effects{Search: func(_ context.Context, _ string, n int) (string, error) { got = n; return "", nil }}
			_, err := e.search(t.Context(), searchArgs{Most: int(n)})
			return err == nil && got == int(n)
		}},

		// Shown files.
		{Const: "maxImage", Max: 3_932_160, Within: func(t *testing.T, n int64) bool {
			r := folder(t)
			put(t, filepath.Join(r.Workdir, "a.png"), "\x89PNG\x0D\x0A\x1A\x0A", n)
			_, err := r.load(filepath.Join(r.Workdir, "a.png"), false)
			return err == nil
		}},
		{Const: "maxShownSize", Max: 20 << 20, Within: func(t *testing.T, n int64) bool {
			_, err := folder(t, n).load("attachments/000.pdf", true)
			shown, _ := (&Images{Folders: folder(t, 8<<20, n-8<<20), Sees: sees}).newFiles("model", nil)
			l := loopWith(t, nil)
			l.Images = &Images{Folders: folder(t, 100), Sees: sees}
			l.conversation.show([]ShownFile{{Name: "attachments/000.pdf", InContext: true, Type: "application/pdf", Size: n}})
			again := strings.Contains(l.questionMessages("model")[0].Text, "it has changed") // not: too many files are shown
			if (len(shown) == 2) != (err == nil) || again != (err == nil) {
				t.Errorf("%d bytes in one file: %v; in two: %d are shown; again: %v", n, err, len(shown), again)
			}
			return err == nil
		}},
		{Const: "maxShown", Max: 20, Within: func(t *testing.T, n int64) bool {
			sizes := make([]int64, n)
			for i := range sizes {
				sizes[i] = 100
			}
			images := &Images{Folders: folder(t, sizes...), Sees: sees}
			shown, _ := images.newFiles("model", nil)
			l := loopWith(t, nil)
			l.Images = images
			for i := range n {
				s, err := images.Folders.load(fmt.Sprintf("attachments/%03d.pdf", i), true)
				if err != nil {
					t.Fatal(err)
				}
				l.conversation.show([]ShownFile{s})
			}
			again := len(l.questionMessages("model")[0].Shown) == int(n)
			notes := !strings.Contains(filesNote(nil, make([]string, n)), "more")
			if all := len(shown) == int(n); again != all || notes != all {
				t.Errorf("%d files: all are shown: %v, shown again: %v, and as many notes: %v", n, all, again, notes)
			}
			return again
		}},
		{Const: "maxPDFPages", Max: 100, Within: func(t *testing.T, n int64) bool {
			r := folder(t)
			text := "%PDF-1.7\n" + strings.Repeat("<</Type/Page>>", int(n))
			put(t, filepath.Join(r.Workdir, "a.pdf"), text, int64(len(text)))
			_, err := r.load(filepath.Join(r.Workdir, "a.pdf"), false)
			return err == nil
		}},

		// Responses of an API. A body of exactly the limit is refused when its end is read.
		{Const: "maxBody", Max: 64<<20 - 1, Within: func(t *testing.T, n int64) bool {
			for n, want := range map[int]bool{64 << 20: true, 64<<20 + 1: false} { // of arguments
				d := deltas{answer: Answer{Calls: []Call{{Name: "a"}}}, args: []*strings.Builder{{}}, index: []int{0}, checked: n - 2}
				d.args[0].WriteString("{}")
				if got := d.startsCall(0, callPiece{name: "b"}); got != want {
					t.Errorf("after %d bytes of arguments another call begins: %v", n, got)
				}
			}
			_, err := io.Copy(io.Discard, body(x(100), maxBody-n+100, maxLines))
			return err == nil
		}},
		{Const: "maxEventLine", Max: 32 << 20, Within: func(t *testing.T, n int64) bool {
			_, data, err := newEventReader(strings.NewReader("data:"+x(n-6)+"\n\n"), maxEventLine).next()
			return err == nil && int64(len(data)) == n-5
		}},
		{Const: "maxLines", Max: 2<<20 - 1, Within: func(t *testing.T, n int64) bool {
			_, err := io.Copy(io.Discard, body(strings.Repeat("\n", 100), maxBody, maxLines-int(n)+100))
			return err == nil
		}},
		{Const: "maxList", Max: 8 << 20, Within: func(t *testing.T, n int64) bool {
			return listFrom(t, transport{http.StatusOK, padRight(`{"data":[]`, n-1) + "}"}) == nil
		}},
		{Const: "maxFault", Max: 64 << 10, Within: func(t *testing.T, n int64) bool {
			err := listFrom(t, transport{http.StatusBadRequest, padRight(`{"error":{"message":"no"}`, n-1) + "}"})
			return err.Error() == "400: no"
		}},
		{Const: "maxFaultText", Max: 500, Within: func(t *testing.T, n int64) bool {
			return new(httpClient).clean(x(n)) == x(n)
		}},

		// Pieces of an answer's text. Shorter ones wait for more text.
		{Const: "maxPiece", Max: 4<<10 - 1, Within: func(t *testing.T, n int64) (waits bool) {
			synctest.Test(t, func(t *testing.T) {
				waits = true
				s := textEmitter{lastEmit: time.Now(), emit: func(turn.Event) { waits = false }}
				s.add(x(n))
			})
			return waits
		}},
		limittest.Duration("pieceInterval", 200*time.Millisecond-1, 1, func(t *testing.T, d time.Duration) (waits bool) {
			synctest.Test(t, func(t *testing.T) {
				waits = true
				s := textEmitter{lastEmit: time.Now(), emit: func(turn.Event) { waits = false }}
				time.Sleep(d)
				s.add("x")
			})
			return waits
		}),
	})
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
