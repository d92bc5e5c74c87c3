package apirunner

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"agentstateloop/cycle"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// Summary asks the summary model to summarize standard input, without tools, and prints events like
// Turn. `compact` uses it. The cost is not recorded for any turn, so the last event includes it.
func (r *Runner) Summary(ctx context.Context) error {
	loop, text, err := r.summaryLoop(ctx)
	if err != nil {
		r.events.fail(err)
		return ErrReported
	}
	if loop.Summary(ctx, text) != nil {
		return ErrReported
	}
	return nil
}

// summaryLoop returns the loop for the summary, and the text to summarize.
func (r *Runner) summaryLoop(ctx context.Context) (*react.Loop, string, error) {
	api, err := r.Loader.API(r.config)
	if err != nil {
		return nil, "", err
	}
	model, err := r.model(ctx, api)
	if err != nil {
		return nil, "", err
	}
	text, err := io.ReadAll(r.Stdin)
	if err != nil {
		return nil, "", fmt.Errorf("read the text to summarise: %w", err)
	}
	s := r.config.File.API
	names := react.Names{Usual: s.Model, Summary: s.SummaryModel}
	r.events.emit(turn.Event{Kind: turn.SessionStart, Model: cmp.Or(names.Summary, names.Usual)})
	return &react.Loop{
		Settings: react.Settings{
			Model: model, Names: names, MaxOutput: s.MaxOutput, Window: s.ContextWindow,
			Shape: r.config.Shape(), Lessons: lessons{r.agent.Store.Dir, api.Address()},
			Deadline: r.Begun.Add(min(r.agent.Turn.Timeout, cycle.SummaryTimeout)),
		},
		Callbacks: react.Callbacks{
			Emit:  r.events.emit,
			Check: func(context.Context) (react.Outlook, error) { return react.Outlook{}, nil },
			Spent: func(context.Context, react.Expense) error { return nil },
		},
	}, string(text), nil
}
