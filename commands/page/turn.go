package page

import (
	"fmt"
	"time"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// maxSteps is how many steps of an attempt a document shows.
const maxSteps = 20

// steps follows the feed of the last attempt.
type steps struct {
	feed    *turn.FeedReader
	last    []turn.Step
	stateAt time.Time // of the last change of the state
}

// read adds the new steps of an attempt. A feed that cannot be read is left out.
func (f *steps) read(dir string) {
	if f.feed == nil || f.feed.Dir != dir {
		*f = steps{feed: &turn.FeedReader{Dir: dir}}
	}
	found, err := f.feed.Next()
	if err != nil {
		return
	}
	for _, s := range found {
		if s.Kind == turn.StepState {
			f.stateAt = s.At
			continue
		}
		f.last = append(f.last, s)
	}
	f.last = f.last[max(0, len(f.last)-maxSteps):]
}

// turn returns the turn that runs or waits, or nil.
func (r *reader) turn(from *cycle.Agent, s state.State, st view.Status, rows []view.InboxRow, now time.Time) *Turn {
	t := st.Turn
	if t.ID == nil || t.Epoch == nil {
		return nil
	}
	r.steps.read(from.Store.Path(store.AttemptDir(*t.ID, *t.Epoch)))
	v := Turn{
		Lifecycle: t.Lifecycle, State: t.State, Tool: t.Tool, Since: t.Since, StateAt: view.OrNull(r.steps.stateAt),
		KillAt: t.KillAt, KillFor: t.KillFor, Steps: []Step{},
	}
	if t.Status == state.HeadSuspended { // its process has ended, as it should
		v.Lifecycle, v.State, v.Tool, v.StateAt = nil, nil, nil, nil
	}
	v.Words = turnWords(t, v.StateAt, now)
	for _, row := range rows {
		if row.Key == s.Turn.Key {
			v.Message = &TurnMessage{Number: present.InboxNumber(row), From: present.InboxSender(row), Subject: present.InboxSubject(row)}
		}
	}
	for _, step := range r.steps.last {
		kind, text := stepWords(step)
		v.Steps = append(v.Steps, Step{At: step.At.UTC(), Kind: kind, Text: text})
	}
	return &v
}

// turnWords describes a turn in one line.
func turnWords(t view.StatusTurn, stateAt *time.Time, now time.Time) string {
	lasts := func(since *time.Time) string {
		if since == nil {
			return ""
		}
		return " for " + terminal.Short(max(0, now.Sub(*since)))
	}
	switch {
	case t.Status == state.HeadSuspended && t.WaitingToolCount != nil && *t.WaitingToolCount > 0:
		text := "waits for " + terminal.Count(*t.WaitingToolCount, "answer") + lasts(t.Since)
		if t.ResumeBy != nil {
			text += ", until " + terminal.Clock(*t.ResumeBy, now)
		}
		return text
	case t.Status == state.HeadSuspended:
		return "has all answers and resumes"
	case t.Lifecycle != nil && t.Reason != nil:
		return "ended: " + *t.Reason
	case t.Status == state.HeadIdle:
		return "answered, and its agent is still running"
	case t.State == nil:
		return "starts" + lasts(t.Since)
	case *t.State == turn.StateRunningTool.String() && t.Tool != nil:
		text := "uses " + *t.Tool + lasts(stateAt)
		if t.WaitingToolCount != nil && *t.WaitingToolCount > 1 {
			text += fmt.Sprintf(", %s at once", terminal.Count(*t.WaitingToolCount, "tool"))
		}
		return text
	case *t.State == turn.StateIdle.String() && t.Lifecycle != nil && *t.Lifecycle == turn.LifecycleIdle.String():
		return "has answered" + lasts(stateAt)
	case *t.State == turn.StateIdle.String():
		return "works" + lasts(t.Since)
	}
	return *t.State + lasts(stateAt)
}

// stepWords returns the kind and the text of a step. The feed has no text of the agent.
func stepWords(s turn.Step) (kind, text string) {
	switch s.Kind {
	case turn.StepText:
		return "text", "writes"
	case turn.StepThinking:
		return "thinking", "thinks"
	case turn.StepToolUse:
		return "tool", "uses " + s.Tool
	case turn.StepToolResult:
		text = "got " + terminal.Count(s.Bytes, "byte")
		if s.Tool != "" {
			text += " from " + s.Tool
		}
		return "result", text
	case turn.StepSession:
		text = "began its session"
		if s.Model != "" {
			text += " with " + s.Model
		}
		return "other", text
	case turn.StepError:
		return "other", "reported an error of " + terminal.Count(s.Bytes, "byte")
	case turn.StepDone:
		if s.Fails {
			return "other", "reported that it failed"
		}
		return "other", "is done"
	case turn.StepDropped:
		return "other", "did more than is recorded"
	}
	return "other", string(s.Kind)
}
