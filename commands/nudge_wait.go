package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/mesh"
)

// points are the values of nudge --wait=POINT.
var points = []string{
	string(view.PointQueued), string(view.PointPolled), string(view.PointTurned), string(view.PointDelivered), pointDone,
}

// pointDone is a synonym for the last point.
const pointDone = "done"

// waitPoint returns the point of --wait, or "" without the flag.
func waitPoint(c *cli.Context) view.Point {
	if !c.IsSet("wait") {
		return ""
	}
	if text := fmt.Sprint(c.Generic("wait")); text != pointDone {
		return view.Point(text)
	}
	return view.PointDelivered
}

// waitError is the reason why a nudge did not reach its point, with a separate exit code.
type waitError struct {
	error
	code int
}

func (e *waitError) Unwrap() error { return e.error }

// awaitNudge waits until a nudge has reached a point. The error is the reason if it has not.
func awaitNudge(ctx context.Context, a *cycle.Agent, nudge view.RecordedNudge, point view.Point, timeout time.Duration, why *whyWaits) (view.Receipt, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := a.View().AwaitNudge(waiting, nudge, point, why.tell)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, view.ErrHalted):
		return r, &waitError{err, exitRefused}
	case errors.Is(err, view.ErrFailed):
		return r, &waitError{err, exitFailed}
	case ctx.Err() == nil && waiting.Err() != nil:
		return r, &waitError{fmt.Errorf("timed out after %s: the nudge is recorded, but not yet %s", terminal.Short(timeout), point), exitTimeout}
	}
	return r, err
}

// refusedByMesh adds the exit code of --wait to a refusal by the mesh. Without --wait, and for
// any other error, it returns err unchanged.
func refusedByMesh(err error, point view.Point) error {
	if refused, ok := errors.AsType[*mesh.Error](err); ok && point != "" && !refused.Temporary() {
		return &waitError{err, exitRefused}
	}
	return err
}

// printReceipt prints the progress of a nudge or a message, in one line.
func printReceipt(out *terminal.Output, r view.Receipt, now time.Time) {
	var parts []string
	for _, at := range []struct {
		what string
		when *time.Time
	}{{"queued", r.Queued}, {"polled", r.Polled}, {"turned", r.Turned}, {"delivered", r.Delivered}} {
		if at.when != nil {
			parts = append(parts, at.what+" "+terminal.Clock(*at.when, now))
		}
	}
	out.Printf("receipt: %s\n", strings.Join(parts, ", "))
}
