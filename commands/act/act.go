// Package act changes an agent in the operator's name, for the commands and for the page of `listen`.
// It finds the item that the user names, calls the method of cycle.Agent, and words the result. An
// act on both ways has the same checks.
package act

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/commands/present"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// FindMessage returns a message by its key. which is the user's name for it.
func FindMessage(a *cycle.Agent, which, key string) (state.Message, error) {
	m, err := a.View().FindMessage(key)
	if !errors.Is(err, view.ErrNoMessage) {
		return m, err
	}
	if key != which {
		err = fmt.Errorf("%w: %s, %s, was dropped or has left the mailbox", view.ErrNoMessage, which, plain.Line(key))
	}
	return m, terminal.WithHint(err, "see "+terminal.Program+" inbox list [--quarantined], and "+terminal.Program+" history")
}

// Retry queues a message again. It returns the message's key, and why it still waits, or "". origin
// is the place of the order, for the history; "" for the terminal.
func Retry(ctx context.Context, a *cycle.Agent, which, origin string, now time.Time) (key, held string, err error) {
	if key, err = a.View().Key(which); err != nil {
		return "", "", err
	}
	s, err := a.Store.Read()
	if err != nil {
		return "", "", err
	}
	if row, unfetched := view.UnfetchedRow(s, key); unfetched {
		words := present.InboxStatus{Now: now}.Of(row)
		return "", "", terminal.WithHint(fmt.Errorf("%s is not in the inbox yet: %s", which, words), "every poll fetches the mails that are due: "+terminal.Program+" poll")
	}
	if _, err := a.View().QuarantinedItem(key); err == nil {
		return "", "", terminal.WithHint(fmt.Errorf("%s is in quarantine", which), terminal.Program+" inbox release "+which+" releases it")
	}
	m, err := FindMessage(a, which, key)
	if err != nil {
		return "", "", err
	}
	held, err = a.Retry(ctx, m.Key, origin)
	return m.Key, held, err
}

// Drop removes a pending message, an item in quarantine, or an unfetched mail. It returns its
// key.
func Drop(ctx context.Context, a *cycle.Agent, which, reason string) (key string, err error) {
	if key, err = a.View().Key(which); err != nil {
		return "", err
	}
	if err := a.Expel(ctx, key, reason); !errors.Is(err, quarantine.ErrNotQuarantined) {
		return key, err
	}
	s, err := a.Store.Read()
	if err != nil {
		return "", err
	}
	if s.IsUnfetched(key) {
		return key, a.Drop(ctx, key, reason)
	}
	m, err := FindMessage(a, which, key)
	if err != nil {
		return "", err
	}
	return m.Key, a.Drop(ctx, m.Key, reason)
}

// Release releases an item from quarantine. already is true if it was received before.
func Release(ctx context.Context, a *cycle.Agent, which, origin string) (key string, already bool, err error) {
	if key, err = a.View().Key(which); err != nil {
		return "", false, err
	}
	already, err = a.Release(ctx, key, origin)
	if errors.Is(err, quarantine.ErrNotQuarantined) {
		err = terminal.WithHint(fmt.Errorf("%s is %w", which, quarantine.ErrNotQuarantined),
			"see "+terminal.Program+" inbox list --quarantined; inbox show NUMBER shows the fate of a message")
	}
	return key, already, err
}

// AlreadyReleased says that a released item was received before.
func AlreadyReleased(which string) string {
	return which + " was received before, and is not accepted again"
}

// StillWaits says that a message that was queued again still waits.
func StillWaits(which, held string) string {
	return fmt.Sprintf("%s is still waiting: %s", which, held)
}

// Halted describes the HALT of the agent, after `halt` or `resume`.
func Halted(a *cycle.Agent, s state.State) string {
	switch {
	case s.HaltedHere:
		return fmt.Sprintf("@%s is HALTED: no turns, no mail, until `%s resume`", a.Handle, terminal.Program)
	case s.HaltedMesh:
		return fmt.Sprintf("@%s is still HALTED by the mesh, until `%s mesh resume`", a.Handle, terminal.Program)
	}
	return fmt.Sprintf("@%s resumes", a.Handle)
}

// Stop stops the running turn: this one, or any if turnID is "". stopping is false if no turn runs.
// text says it.
func Stop(ctx context.Context, a *cycle.Agent, turnID, reason string) (stopping bool, text string, err error) {
	err = a.StopTurn(ctx, turnID, reason)
	if errors.Is(err, cycle.ErrNothing) {
		return false, fmt.Sprintf("@%s has no running turn", a.Handle), nil
	}
	return err == nil, fmt.Sprintf("@%s is being stopped", a.Handle), err
}

// Answered says which answer the agent gets. note is the remark about an answer that is not one of
// the options, or "".
func Answered(given cycle.GivenAnswer) (text, note string) {
	if given.Option != "" {
		return fmt.Sprintf("answered %s: %s", given.ID, terminal.Printable(given.Option)), ""
	}
	if len(given.Others) > 0 {
		note = fmt.Sprintf("not one of the options (%s): the agent gets the text unchanged", terminal.Printable(strings.Join(given.Others, ", ")))
	}
	return "answered " + given.ID, note
}
