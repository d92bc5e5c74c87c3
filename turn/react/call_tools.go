package react

import (
	"context"
	"fmt"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/turn"
)

// callTools runs the calls of an answer.
func (l *Loop) callTools(ctx context.Context, a Answer) (*wakeEnd, error) {
	if l.conversation.calls >= l.MaxCalls {
		return nil, nil
	}
	for i, c := range a.Calls {
		if n := l.conversation.repeats[c.ID]; n > maxSameCall {
			return &wakeEnd{cut: fmt.Sprintf("the model went round in circles: it called %s with the same arguments for the %dth time", c.Name, n)}, nil
		}
		if i >= l.MaxTools {
			if err := l.refuseCall(c, fmt.Sprintf("of one answer at most %d calls are run. Call it again if you still want it.", l.MaxTools)); err != nil {
				return nil, err
			}
			continue
		}
		if a.Stop == StopLength && i == len(a.Calls)-1 && !c.valid() {
			if err := l.refuseCall(c, "your answer was cut in the middle of this call, since it is longer than an answer may be. Make it shorter, or in parts."); err != nil {
				return nil, err
			}
			continue
		}
		if _, err := l.Check(ctx); err != nil {
			return nil, err
		}
		if err := l.runCall(ctx, c); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// runCall runs one call, at most once: that it is about to run is durable before,
// its result as soon as there is one. A call that ctx has ended has none.
func (l *Loop) runCall(ctx context.Context, c Call) error {
	tool, why := l.findTool(c)
	if why != "" {
		return l.refuseCall(c, why)
	}
	if err := l.keep(Step{Kind: StepCall, ID: c.ID}); err != nil {
		return err
	}
	l.Emit(turn.Event{Kind: turn.ToolUse, Tool: c.Name, ToolID: c.ID})
	text, err := tool.Run(ctx, c.input())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := Step{Kind: StepResult, ID: c.ID, Failed: err != nil}
	if err != nil {
		text = err.Error()
	}
	s.Text = truncated(strings.ReplaceAll(text, "\x00", "\uFFFD"), maxResult) // which some APIs refuse, and with it the rest of the turn
	s.Text += l.repeatWarning(c)
	if err := l.keep(s); err != nil {
		return err
	}
	l.Emit(turn.Event{Kind: turn.ToolResult, ToolID: c.ID})
	return nil
}

// refuseCall tells the model why a call is not run.
func (l *Loop) refuseCall(c Call, why string) error {
	return l.keep(Step{Kind: StepResult, ID: c.ID, Text: "Not run: " + why + l.repeatWarning(c), Failed: true})
}

// repeatWarning is the warning before a call made so often ends the wake.
func (l *Loop) repeatWarning(c Call) string {
	if l.conversation.repeats[c.ID] != maxSameCall {
		return ""
	}
	return fmt.Sprintf("\n[You have made this very call %d times. Once more, and your turn ends: do something else.]", maxSameCall)
}

// findTool finds what a call names, or says what is wrong with it.
func (l *Loop) findTool(c Call) (tool Tool, why string) {
	for _, t := range l.Tools {
		if t.Name != c.Name {
			continue
		}
		if !c.valid() {
			return t, "the arguments are no JSON object. You wrote: " + plain.Cut(c.Args, 1000)
		}
		return t, ""
	}
	return tool, fmt.Sprintf("there is no tool %q. You have %s.", sendable(c.Name), strings.Join(namesOf(l.Tools), ", "))
}
