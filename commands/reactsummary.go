package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"agentstateloop/cycle"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// summarise asks the summary model what stands on standard input, without tools,
// and tells its answer on stdout as the loop does: so `compact` has its summary
// from runner api. What it took is told at the end, since there is no turn to
// count it for.
func (w *wake) summarise(ctx context.Context) error {
	loop, text, err := w.summary(ctx)
	if err != nil {
		w.emit(turn.Event{Kind: turn.Done, Failed: true, Text: err.Error()})
		return toldError{}
	}
	if loop.Summary(ctx, text) != nil {
		return toldError{}
	}
	return nil
}

// summary makes the loop that asks, and the question.
func (w *wake) summary(ctx context.Context) (*react.Loop, string, error) {
	made, err := w.p.loader.API(w.config)
	if err != nil {
		return nil, "", err
	}
	model, err := w.model(ctx, made)
	if err != nil {
		return nil, "", err
	}
	text, err := io.ReadAll(w.p.stdin)
	if err != nil {
		return nil, "", fmt.Errorf("read what is to be summarised: %w", err)
	}
	s := w.config.File.API
	names := react.Names{Usual: s.Model, Summary: s.SummaryModel}
	w.emit(turn.Event{Kind: turn.SessionStart, Model: cmp.Or(names.Summary, names.Usual)})
	return &react.Loop{
		Settings: react.Settings{
			Model: model, Names: names, MaxOutput: s.MaxOutput,
			Deadline: w.begun.Add(min(w.agent.Turn.Timeout, cycle.LongestSummary)),
		},
		Callbacks: react.Callbacks{
			Emit:  w.emit,
			Check: func(context.Context) (react.Outlook, error) { return react.Outlook{}, nil },
			Spent: func(context.Context, react.Expense) error { return nil },
		},
	}, string(text), nil
}
