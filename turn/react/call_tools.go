package react

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"agentstateloop/internal/plain"
	"agentstateloop/turn"
)

// callTools runs the calls of an answer. It returns the end of the run if a call ended it, or
// if the model repeats itself.
func (l *Loop) callTools(ctx context.Context, a Answer) (*runEnd, error) {
	if l.conversation.calls >= l.maxCalls() {
		return nil, nil
	}
	for i, c := range a.Calls {
		why := ""
		after, n := l.conversation.ending.After, l.conversation.repeats[c.ID]
		switch {
		case after != "":
			why = notRunReason(after)
		case n > maxSameCall:
			tool, _ := l.findTool(c)
			title := cmp.Or(tool.title(), c.Name)
			return &runEnd{cut: fmt.Sprintf("the model repeated itself: %s called with the same arguments %d times", title, n)}, nil
		case i >= l.maxTools():
			why = fmt.Sprintf("only the first %d calls of an answer are run. Make the call again if you still need it.", l.maxTools())
		case a.Stop == StopLength && i == len(a.Calls)-1 && !c.valid():
			why = "your answer reached the length limit in the middle of this call. Make it shorter, or split it."
		}
		if why != "" {
			if err := l.refuseCall(c, why); err != nil {
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
	if l.conversation.ending.After != "" {
		return l.endByCall(ctx)
	}
	return nil, nil
}

// runCall runs a call at most once. It records durably that the call is about to run, and its
// result as soon as there is one. A call that ctx ended has no result.
func (l *Loop) runCall(ctx context.Context, c Call) error {
	tool, why := l.findTool(c)
	if why != "" {
		return l.refuseCall(c, why)
	}
	if err := l.addStep(Step{Kind: StepCall, ID: c.ID}); err != nil {
		return err
	}
	l.Emit(turn.Event{Kind: turn.ToolUse, Tool: tool.title(), ToolID: c.ID})
	text, err := tool.Run(ctx, c.input())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := Step{Kind: StepResult, ID: c.ID, Failed: err != nil}
	if end, ends := errors.AsType[Ending](err); ends {
		s.Failed, s.After, text = false, end.After, end.Text
	} else if showing, shows := errors.AsType[FilesResult](err); shows {
		text, s.Shown = l.showFiles(showing)
		s.Failed = showing.Text == "" && len(s.Shown) == 0
	} else if err != nil {
		text = err.Error()
	}
	s.Text = truncate(strings.ReplaceAll(text, "\x00", "\uFFFD"), maxResult) // some APIs reject a NUL byte, and with it every later request of the turn
	s.Text += l.repeatWarning(c)
	if err := l.addStep(s); err != nil {
		return err
	}
	l.Emit(turn.Event{Kind: turn.ToolResult, ToolID: c.ID})
	return nil
}

// showFiles returns the result of a tool that has files to show, and the files that the model can
// see.
func (l *Loop) showFiles(result FilesResult) (text string, files []ShownFile) {
	var lines []string
	for _, file := range result.Files {
		if !l.Images.canSee(l.Names.pick(CheckResult{Low: l.low}), file) {
			lines = append(lines, fmt.Sprintf("%s has type %s (%s), which you cannot see.", file.Name, file.Type, plain.Size(file.Size)))
			continue
		}
		lines = append(lines, file.Name+" follows as a file.")
		file.data = nil
		files = append(files, file)
	}
	// Keep the lines about the files, even behind a long text.
	notes := strings.Join(lines, "\n")
	if result.Text == "" {
		return notes, files
	}
	return truncate(result.Text, maxResult-len(notes)-noteRoom) + "\n" + notes, files
}

// noteRoom is the most bytes that the note of a truncated text takes.
const noteRoom = 64

// refuseCall answers a call that is not run with the reason.
func (l *Loop) refuseCall(c Call, why string) error {
	return l.addStep(Step{Kind: StepResult, ID: c.ID, Text: "Not run: " + why + l.repeatWarning(c), Failed: true})
}

// repeatWarning returns a warning for the result of a repeated call, or "". The next repetition
// of the call ends the run.
func (l *Loop) repeatWarning(c Call) string {
	if l.conversation.repeats[c.ID] != maxSameCall {
		return ""
	}
	return fmt.Sprintf("\n[You have made this same call %d times. One more ends your turn. Try something else.]", maxSameCall)
}

// findTool returns the called tool, or an explanation of a bad call.
func (l *Loop) findTool(c Call) (tool Tool, why string) {
	for _, t := range l.Tools {
		if t.Name != c.Name {
			continue
		}
		if !c.valid() {
			return t, "the arguments are not a JSON object. You wrote: " + plain.Cut(c.Args, 1000)
		}
		return t, ""
	}
	return tool, fmt.Sprintf("unknown tool %q. Your tools: %s.", sanitizeName(c.Name), strings.Join(toolNames(l.Tools), ", "))
}
