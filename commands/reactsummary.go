package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// summarise asks the summary model what stands on standard input, once and
// without tools, and tells its answer on stdout as the loop does: so
// `compact` has its summary from runner api.
func (w *wake) summarise(ctx context.Context) error {
	answer, err := w.summary(ctx)
	if err == nil && answer.Stop != react.StopEnd {
		err = fmt.Errorf("the summary is not whole: %s", cmp.Or(answer.Word, "it broke off"))
	}
	done := turn.Event{Kind: turn.Done, Text: answer.Text, Usage: answer.Usage, CostUSD: answer.CostUSD}
	if err != nil {
		done.Failed, done.Text = true, err.Error()
	}
	w.emit(done)
	if err != nil {
		return toldError{}
	}
	return nil
}

func (w *wake) summary(ctx context.Context) (react.Answer, error) {
	made, err := w.p.wireAPI(w.config)
	if err != nil {
		return react.Answer{}, err
	}
	model, err := w.model(ctx, made)
	if err != nil {
		return react.Answer{}, err
	}
	text, err := io.ReadAll(w.p.stdin)
	if err != nil {
		return react.Answer{}, fmt.Errorf("read what is to be summarised: %w", err)
	}
	s := w.config.file.API
	q := react.Question{Model: cmp.Or(s.SummaryModel, s.Model), Messages: []react.Message{{Text: string(text)}}, MaxOutput: s.MaxOutput}
	w.emit(turn.Event{Kind: turn.SessionStart, Model: q.Model})
	return model.Answer(ctx, q, func(string) {})
}
