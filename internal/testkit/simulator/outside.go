package simulator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// Work that a turn starts outside of it, and its reports (docs/design.md, "Suspension").

// How long a turn waits for a tool, and for work of its own.
const (
	toolPatience   = 50 * time.Minute
	submitPatience = 20 * time.Minute
)

// A report comes by one of these ways: by the command, as from the webhook (local); by the first
// peer, which may report on tools (mesh); by another peer, which may not (other); or by the command
// with an invented id (unknown).

// outsideReport is a report that somebody gave.
type outsideReport struct {
	id, way, text string
	key           string    // of its line in the history
	at            time.Time // when it was given
	sure          bool      // the command has confirmed it
}

// startOutside plays an agent that starts work which reports later, unless an earlier attempt has
// started it.
func (a *livingAgent) startOutside(at turn.Attempt, do, marker string, answer turn.Result) turn.Result {
	w := a.world
	if strings.Contains(string(at.Prompt), "\n<report ") || strings.Contains(string(at.Prompt), "an earlier attempt has started this") {
		w.count.happened("an attempt was told what has been started")
		return answer
	}
	var id string
	if do != "deploy-wait" {
		id = a.await("await", func(ctx context.Context, c *cycle.Agent) (string, error) {
			return c.AwaitReport(ctx, a.in, cycle.Awaiting{What: "tool deploy", Text: marker, Peers: peers[:1], Patience: toolPatience})
		})
	}
	if do == "deploy-wait" || do == "deploy-two" {
		a.await("suspend", func(ctx context.Context, c *cycle.Agent) (string, error) {
			return c.Suspend(ctx, a.in, marker+" so far", submitPatience)
		})
	}
	switch do {
	case "deploy-early":
		if id != "" {
			w.count.happened("a report came before its attempt ended")
			w.report(id, "local", nil)
		}
	case "deploy-die":
		answer.Status, answer.Reason, answer.Exit, answer.ExitCode = turn.Failed, "it exited with 1", turn.ExitError, 1
	case "deploy-fail":
		if id != "" {
			a.command("withdraw", func(ctx context.Context, c *cycle.Agent) error {
				return c.WithdrawReport(ctx, a.in, id, "the tool failed")
			})
		}
	case "deploy-end":
		a.command("submit", func(ctx context.Context, c *cycle.Agent) error {
			return c.Submit(ctx, a.in, cycle.Submission{Text: marker + " submitted", Fields: results(marker), Finish: true})
		})
	case "deploy-over":
		a.command("finish", func(ctx context.Context, c *cycle.Agent) error { return c.Finish(ctx, a.in) })
	}
	return answer
}

// await calls a command that lets the turn wait, and returns the id, or "" if the caller
// did not get it.
func (a *livingAgent) await(name string, do func(context.Context, *cycle.Agent) (string, error)) (id string) {
	err, killed := a.command(name, func(ctx context.Context, c *cycle.Agent) (err error) {
		id, err = do(ctx, c)
		return err
	})
	if err != nil || killed {
		return ""
	}
	a.world.count.happened("a turn waits for something outside")
	return id
}

// reportOutside gives the report on work that a turn has started.
func (w *World) reportOutside(s Step) error {
	waits := w.readHistory().waits(false)
	if len(waits) == 0 {
		return nil
	}
	id := waits[max(0, len(waits)-1-s.N%4)].id // one of the newest
	if s.Kind == "unknown" {
		err, killed := w.run("report", s.Faults, func(ctx context.Context, a *cycle.Agent) error {
			_, err := a.TakeReport(ctx, id+"0", cycle.LocalReport{Text: "outcome of nothing"})
			return err
		})
		if !killed && err == nil {
			w.violate("outside", "a report by an id that nobody minted was taken")
		}
		return nil
	}
	return w.report(id, s.Kind, s.Faults)
}

// report reports on id.
func (w *World) report(id, way string, faults []Fault) error {
	w.record.mu.Lock()
	n := len(w.record.outside)
	r := &outsideReport{id: id, way: way, text: fmt.Sprintf("outcome %d of %s.", n, id), at: w.clock.servers(), key: "reported:" + id}
	if way == "mesh" {
		r.key = fmt.Sprintf("mesh:%s:outcome-%d", peers[0], n)
	}
	w.record.outside = append(w.record.outside, r)
	w.record.mu.Unlock()
	if way == "local" {
		return w.reportHere(r, faults)
	}
	from := peers[0]
	if way == "other" {
		from = peers[1]
	}
	w.post(map[string]any{
		"id": fmt.Sprintf("outcome-%d", n), "from": from, "to": handle, "kind": "report", "correlation_id": id, "message": r.text, "status": "success",
	}, true)
	return nil
}

// reportHere runs the command `report`.
func (w *World) reportHere(r *outsideReport, faults []Fault) error {
	taken := false
	strikes := w.strikes.Load()
	err, killed := w.run("report", faults, func(ctx context.Context, a *cycle.Agent) (err error) {
		taken, err = a.TakeReport(ctx, r.id, cycle.LocalReport{From: "deploy", Status: state.Success, Text: r.text})
		return err
	})
	if killed || err != nil && strikes != w.strikes.Load() {
		return err
	}
	wait := w.readHistory().wait(r.id)
	switch {
	case errors.Is(err, cycle.ErrLateReport):
		w.count.happened("a report was late")
		if why := wait.open(w.clock.machine()); why != "" && !w.clock.wasWrong() {
			w.violate("outside", "a report on %s was late, which %s", r.id, why)
		}
	case errors.Is(err, cycle.ErrUnknownReport):
		w.violate("outside", "the id %s, which the history has, is not known", r.id)
	case err == nil && taken:
		w.count.happened("a report was taken")
		w.record.mu.Lock()
		r.sure = true
		w.record.mu.Unlock()
	case err == nil && len(wait.reports) == 0:
		w.violate("outside", "the report on %s was before, says the command, and no line of the history does", r.id)
	case err == nil:
		w.count.happened("a report came twice")
	}
	return err
}
