package react_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// BenchmarkTenTools measures the loop alone in a turn of ten empty tool calls: 11 requests to a
// server on loopback, 32 steps with their fsyncs.
func BenchmarkTenTools(b *testing.B) {
	for _, api := range apis {
		b.Run(api, func(b *testing.B) {
			server := &scripted.Server{Script: func(q scripted.Request) scripted.Reply {
				if len(q.Messages) > 20 {
					return scripted.Reply{Text: "All ten are done."}
				}
				return scripted.Reply{Calls: []scripted.Call{notch(fmt.Sprintf("c%d", q.Number), strconv.Itoa(len(q.Messages)))}}
			}}
			url, stop, err := server.Start()
			if err != nil {
				b.Fatal(err)
			}
			defer stop()
			var model react.Model = react.NewMessages(url, scripted.Key, time.Minute)
			if api == "openai" {
				model = react.NewChat(url+"/v1", scripted.Key, time.Minute)
			}
			loop := react.Loop{
				Settings: react.Settings{Model: model, Names: react.Names{Usual: "usual"}, Tools: notches(new([]string))[:1]},
				Callbacks: react.Callbacks{
					Emit:  func(turn.Event) {},
					Check: func(context.Context) (react.CheckResult, error) { return react.CheckResult{}, nil },
					Spent: func(context.Context, react.Expense) error { return nil },
					Rest:  func(context.Context) error { return nil },
				}}
			dir := b.TempDir()
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				at := filepath.Join(dir, strconv.Itoa(n), "1")
				if err := os.MkdirAll(at, 0o700); err != nil {
					b.Fatal(err)
				}
				again := loop
				if again.Steps, err = react.OpenSteps(at); err != nil {
					b.Fatal(err)
				}
				if err := again.Run(b.Context(), "Do ten things.", false); err != nil {
					b.Fatal(err)
				}
				again.Steps.Close()
			}
			if refused := server.Refused(); len(refused) > 0 {
				b.Fatalf("refused: %q", refused)
			}
		})
	}
}
